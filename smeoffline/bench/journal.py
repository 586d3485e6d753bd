"""The results file while a benchmark writes it: one writer, whole lines, on disk before the next."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from smeoffline.bench.lines import CellResult, parse_line
from smeoffline.bench.results import FILE_NAME, Results, read_results
from smeoffline.errors import BenchmarkError, SmeofflineError

LOCK = ".lock"
# Results are worth keeping under version control; what they were made from can be made again.
IGNORED = f"{LOCK}\n.locks/\ndatasets/\nruns/\n"


class Journal:
    """A benchmark folder's results; made by `open_journal`.

    Attributes:
        path: The results file.
        results: What it held when it was opened.
    """

    def __init__(self, path: Path, results: Results) -> None:
        self.path = path
        self.results = results

    def append(self, result: CellResult) -> None:
        """Add a line; when this returns, a crash of the machine no longer loses it.

        Raises:
            OSError: The file system refuses, such as a full disk; the file is as it was.
        """
        append_line(self.path, result.to_line().encode())


def append_line(path: Path, line: bytes) -> None:
    """Add a line to a file, which may not exist yet; when this returns, a crash of the machine no longer loses it.

    A last line without an end, as some editors leave it, gets one first.

    Raises:
        OSError: The file system refuses, such as a full disk; the file is as it was.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        before = os.fstat(descriptor).st_size
        open_end = before > 0 and os.pread(descriptor, 1, before - 1) != b"\n"
        data = (b"\n" if open_end else b"") + line + b"\n"
        written = os.write(descriptor, data)  # one write: killed processes leave all of it or nothing
        if written != len(data):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def open_journal(out: Path) -> Iterator[Journal]:
    """Make or continue a benchmark's folder, as its only writer.

    Raises:
        BenchmarkError: Another benchmark is writing there, it is no folder, or its results are damaged.
        VersionError: Its results are of a newer schema.
        OSError: It can't be written.
    """
    import filelock

    try:
        out.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise BenchmarkError(f"benchmark: expected a folder, got a file in its place: {out}") from None
    lock = filelock.FileLock(out / LOCK)
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise BenchmarkError(
            f"benchmark: another process is writing to {out}; wait for it, or choose another --out"
        ) from None
    try:
        path = out / FILE_NAME
        with contextlib.suppress(FileExistsError), (out / ".gitignore").open("x", encoding="utf-8") as file:
            file.write(IGNORED)
        if path.exists():
            results = read_results(path)
            repair(path)
        else:
            results = Results(())
            path.touch()
            _sync_folder(out)
        yield Journal(path, results)
    finally:
        lock.release()


def repair(path: Path) -> None:
    """Bring the file to the end of its last whole line: a crash of the machine may have cut one."""
    with path.open("r+b") as file:
        content = file.read()
        kept = content.rfind(b"\n") + 1
        if kept == len(content):
            return
        try:
            parse_line(content[kept:])
            file.write(b"\n")  # whole but for its end
        except SmeofflineError:
            file.truncate(kept)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    """Make a new file's name as lasting as its content."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
