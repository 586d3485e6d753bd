"""Read a stranger's zip file: nothing of it is believed before it is checked, and no name in it becomes a path."""

from __future__ import annotations

import contextlib
import hashlib
import io
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, BinaryIO

from smeoffline.data.bundle import manifest
from smeoffline.data.bundle.manifest import Entry, Member
from smeoffline.data.storage.disk import ELSEWHERE, write_error
from smeoffline.errors import BundleError

CHUNK = 2**20  # bytes copied at a time
MAX_PIECE = 2**24  # the largest piece read at once: bounds what a directory or manifest can take of memory
# What zipfile raises about files that are damaged, or made to confuse it.
_FAILURES = (zipfile.BadZipFile, zlib.error, struct.error, OSError, EOFError, NotImplementedError, RuntimeError,
             ValueError, KeyError, IndexError, OverflowError, AttributeError)  # fmt: skip
_AGAIN = "it is damaged or cut off; fetch it again"

Moved = Callable[[int], None]
"""Told of bytes that were copied."""


class Archive:
    """A bundle that is open for reading, its manifest read and its members compared with it.

    Args:
        file: The bundle; it can seek, and the caller closes it.

    Attributes:
        entries: The datasets that it holds.
        size: Of the file, in bytes.

    Raises:
        BundleError: It is no bundle, or holds what a bundle must not.
        VersionError: A newer version of this package wrote it.
    """

    def __init__(self, file: BinaryIO) -> None:
        self.size = file.seek(0, io.SEEK_END)
        file.seek(0)
        start = file.read(256)
        with _reading("expected a bundle (a zip file)", _kind(start)):
            self._zip = zipfile.ZipFile(_Bounded(file, self.size))
        self._infos = _by_name(self._zip.infolist())
        self.entries = manifest.parse(self._manifest())
        self._compare()

    def unpack(self, entry: Entry, folder: Path, moved: Moved, elsewhere: str = ELSEWHERE) -> None:
        """Copy the files of a dataset below its folder, in places that don't depend on the bundle.

        Args:
            entry: One of `entries`.
            folder: An empty one.
            moved: Told of bytes that were copied.
            elsewhere: What to do where the disk is full, at the end of a message.

        Raises:
            BundleError: A member's bytes are not those that the manifest tells.
            DatasetError: The file system refuses.
        """
        data = folder / "data"
        try:
            data.mkdir()
        except OSError as fault:
            raise write_error(fault, data, elsewhere) from None
        for member, name in zip(entry.files, manifest.FILES, strict=True):
            try:
                self._copy(member, data / name, moved)
            except _WriteError as fault:
                raise write_error(fault.reason, data / name, elsewhere) from None

    def _copy(self, member: Member, target: Path, moved: Moved) -> None:
        """Copy a member to a new file, and hash it on the way."""
        digest, left = hashlib.sha256(), member.size
        with _reading(member.name), self._zip.open(self._infos[member.name]) as source, _new(target) as copy:
            while left > 0:
                chunk = source.read(min(CHUNK, left))
                if not chunk:
                    break
                digest.update(chunk)
                copy.write(chunk)
                left -= len(chunk)
                moved(len(chunk))
        if digest.hexdigest() != member.sha256:
            raise BundleError(f"{member.name}: checksum: expected {member.sha256}, got {digest.hexdigest()}; {_AGAIN}")

    def _manifest(self) -> bytes:
        """The bytes of the manifest."""
        info = self._infos.get(manifest.NAME)
        if info is None:
            raise BundleError(f"expected a {manifest.NAME} in it, got none; is it a bundle?")
        if info.file_size > MAX_PIECE:
            raise BundleError(f"{manifest.NAME}: expected at most {MAX_PIECE:,} bytes, got {info.file_size:,}")
        with _reading(manifest.NAME), self._zip.open(info) as source:
            return source.read(MAX_PIECE)

    def _compare(self) -> None:
        """The members are those of the manifest, each of its size, and together not larger than the file."""
        named = {member.name: member for entry in self.entries for member in entry.files}
        for name in self._infos:
            if name not in named and name != manifest.NAME:
                raise BundleError(f"{manifest.shown(name)}: expected the files that {manifest.NAME} names and no other")
        for name, member in named.items():
            if name not in self._infos:
                raise BundleError(f"{name}: expected it in the bundle, as {manifest.NAME} says, got none; {_AGAIN}")
            found = self._infos[name].file_size
            if found != member.size:
                raise BundleError(f"{name}: expected {member.size:,} bytes, as {manifest.NAME} says, got {found:,}")
        total = sum(info.file_size for info in self._infos.values())
        if total > self.size:
            raise BundleError(f"expected members of at most {self.size:,} bytes, as large as the file, got {total:,}")


def total_size(entries: tuple[Entry, ...]) -> int:
    """Bytes that the datasets take once they are unpacked."""
    return sum(entry.size for entry in entries)


def _by_name(infos: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """Members by name; refuses whatever is not a plain, uncompressed file that is there once."""
    found: dict[str, zipfile.ZipInfo] = {}
    for info in infos:
        name = manifest.shown(info.orig_filename)
        kind = stat.S_IFMT(info.external_attr >> 16)
        if kind not in (0, stat.S_IFREG) or info.is_dir():
            raise BundleError(f"{name}: expected a plain file, got a link, folder or device")
        if info.flag_bits & 1:
            raise BundleError(f"{name}: expected a file in the clear, got an encrypted one")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
            raise BundleError(f"{name}: expected a file without compression, as `bundle pack` makes it (zip -0)")
        if info.filename in found or info.orig_filename != info.filename:
            raise BundleError(f"{name}: expected each name once")
        found[info.filename] = info
    return found


def _kind(start: bytes) -> str:
    """What a file that is no zip file seems to be."""
    text = start.lstrip().lower()
    if not start:
        return "got an empty file"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "got an HTML page; is the URL that of the file itself?"
    if b"PK".startswith(start[:2]):  # as a zip file begins, or what is left of one
        return "got one that is damaged or cut off; fetch it again"
    return "got a file of another kind, no zip file; name one that `bundle pack` made"


@contextlib.contextmanager
def _reading(*told: str) -> Iterator[None]:
    """Turn whatever zipfile raises into one line."""
    try:
        yield
    except _FAILURES as fault:
        if isinstance(fault, zipfile.BadZipFile) and "CRC" in str(fault):
            told = (f"{told[0]}: checksum: expected the one stored in the bundle", f"got another; {_AGAIN}")
        elif len(told) == 1:
            told = (f"{told[0]}: cannot be read", _AGAIN)
        raise BundleError(", ".join(told)) from None


class _WriteError(Exception):
    """The file system refused a copy: kept apart from faults in what is read."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Copy:
    """A file that is written; see `_WriteError`."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, chunk: bytes) -> None:
        """Write all of a chunk; the system may take it in parts."""
        left = memoryview(chunk)
        try:
            while len(left):
                left = left[self._file.write(left) :]
        except OSError as fault:
            raise _WriteError(fault) from None


@contextlib.contextmanager
def _new(target: Path) -> Iterator[_Copy]:
    """Make a file that was not there."""
    try:
        file = target.open("xb", buffering=0)
    except OSError as fault:
        raise _WriteError(fault) from None
    with file:
        yield _Copy(file)


class _Bounded:
    """A file of which no large piece can be read at once: zipfile reads its whole directory in one."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._file, self._size = file, size
        self.seek, self.tell, self.seekable, self.close = file.seek, file.tell, file.seekable, file.close

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes, or all that is left."""
        left = max(0, self._size - self._file.tell())
        wanted = left if size < 0 else min(size, left)
        if wanted > MAX_PIECE:
            raise ValueError(f"expected pieces of at most {MAX_PIECE} bytes, got {wanted}")
        return self._file.read(wanted)
