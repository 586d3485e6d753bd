"""Get a bundle from a path, a URL or a name of the registry.

What is downloaded goes to a file without a name: whatever happens, nothing of it is left, and no later call can
take a part for the whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from smeoffline.data.bundle.archive import CHUNK
from smeoffline.data.bundle.progress import Progress
from smeoffline.data.bundle.sources import Source
from smeoffline.data.storage.disk import write_error
from smeoffline.errors import BundleError, DatasetError

RESERVE = 2**28  # bytes of disk that a download leaves free, however much a server sends
_RETRY = "check the address and the network and run it again, or download it otherwise and install the file"
_REASONS = {
    "ConnectTimeout": f"no answer in time; {_RETRY}",
    "ReadTimeout": f"no answer in time; {_RETRY}",
    "TooManyRedirects": "redirects without end",
    "ChunkedEncodingError": "the transfer was cut off before its end",
    "InvalidSchema": "it leads to what is neither http nor https",
    "SSLError": "its certificate cannot be trusted",
    "ProxyError": "the proxy refuses",
    "ConnectionError": f"no connection, or it broke off; {_RETRY}",
}


@contextlib.contextmanager
def opened(source: Source, disk: Path, progress: Progress | None) -> Iterator[BinaryIO]:
    """A bundle's file, at its start.

    Args:
        source: Where it is.
        disk: A folder on the file system to download to.
        progress: Told of bytes done and in all.

    Raises:
        BundleError: It can't be had, or its hash is another.
        DatasetError: That folder can't be written to.
    """
    with _download(source, disk, progress) if source.remote else _local(source, progress) as (file, digest):
        if source.sha256 is not None and digest != source.sha256:
            raise BundleError(f"checksum of the file: expected sha256 {source.sha256}, got {digest}; it is another "
                              "file, or damaged or cut off; fetch it again")  # fmt: skip
        file.seek(0)
        yield file


@contextlib.contextmanager
def _local(source: Source, progress: Progress | None) -> Iterator[tuple[BinaryIO, str | None]]:
    """A file on this machine; hashed only where its hash is to be compared."""
    try:
        # without waiting, as a pipe would make us
        handle = os.open(source.place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise BundleError("expected a file, got a folder or device")
    except OSError as fault:
        raise BundleError(f"cannot be read: {fault.strerror}") from None
    with os.fdopen(handle, "rb") as file:
        total, digest = os.fstat(handle).st_size, hashlib.sha256()
        while source.sha256 is not None and (chunk := file.read(CHUNK)):
            digest.update(chunk)
            if progress is not None:
                progress(min(file.tell(), total), total, "hashing")
        yield file, digest.hexdigest() if source.sha256 is not None else None


@contextlib.contextmanager
def _download(source: Source, scratch: Path, progress: Progress | None) -> Iterator[tuple[BinaryIO, str | None]]:
    """A file that vanishes when it is closed, filled from a URL."""
    if not re.match(r"https?://[^/]", source.place, re.IGNORECASE):
        raise BundleError("expected a URL of http or https")
    try:
        file = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 -- closed below; the fault is that of opening it
    except OSError as fault:
        raise write_error(fault, scratch) from None
    with file:
        receiver = _Receiver(file, scratch, progress)
        _transfer(source.place, receiver)
        receiver.finish()
        yield file, receiver.digest.hexdigest()


class _Receiver:
    """What pooch writes to and reports to: hashes, counts, and stops before the disk is full."""

    def __init__(self, file: Any, scratch: Path, progress: Progress | None) -> None:
        self.digest = hashlib.sha256()
        self.total = 0  # pooch sets it to what the server says, or 0
        self._file, self._scratch, self._progress = file, scratch, progress
        self._done = 0

    def write(self, chunk: bytes) -> None:
        """Take a part of the file."""
        try:
            free = shutil.disk_usage(self._scratch).free
            if max(len(chunk), self.total - self._done) > free - RESERVE:
                raise DatasetError(
                    f"{self._scratch}: disk full: expected room for the download and {RESERVE / 1e6:.0f} MB more, "
                    f"got {free / 1e6:.0f} MB; free some space, or set MINARI_DATASETS_PATH to another folder"
                )
            self._file.write(chunk)
        except OSError as fault:
            raise write_error(fault, self._scratch) from None
        self.digest.update(chunk)
        self._done += len(chunk)
        if self._progress is not None:
            self._progress(self._done, max(self.total, self._done), "downloading")

    def finish(self) -> None:
        """Have the last bytes written."""
        try:
            self._file.flush()
        except OSError as fault:
            raise write_error(fault, self._scratch) from None

    def flush(self) -> None:
        """Called after each chunk; `finish` does it once."""

    def update(self, size: int) -> None:
        """`write` has reported it."""

    reset = close = flush


def _transfer(url: str, receiver: _Receiver) -> None:
    """Have pooch fetch a URL; redirects are followed, to http and https alone."""
    import pooch  # and requests: not before something is downloaded

    # no coding: it would make more bytes of few, and others than were hashed by who offers them
    fetch = pooch.HTTPDownloader(progressbar=receiver, chunk_size=CHUNK, headers={"Accept-Encoding": "identity"})
    try:
        fetch(url, receiver, None)
    except (OSError, ValueError) as fault:  # requests has them as OSError; a URL that is none is a ValueError
        raise BundleError(_reason(fault)) from None


def _reason(fault: Exception) -> str:
    """Why a transfer failed, without the URL, which may hold secrets."""
    status = getattr(getattr(fault, "response", None), "status_code", None)
    if status is not None and status >= 400:
        return f"the server answers {status}"
    for kind in type(fault).__mro__:
        if kind.__name__ in _REASONS:
            return _REASONS[kind.__name__]
    return f"not a URL that can be fetched ({type(fault).__name__})"
