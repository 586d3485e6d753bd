"""Files that are either as they were or complete, whatever interrupts the writing."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file in one step: a temporary sibling is written, synced and renamed.

    Raises:
        OSError: The folder can't be written to; the old file is still there.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def held(folder: Path) -> Iterator[bool]:
    """Hold a folder's lock while inside; the system lets go of it when a process dies.

    Yields:
        Whether it was free.
    """
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Whether the lock could be had, or the file system has none."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
