"""A dataset appears whole or not at all: it is written in a hidden sibling folder and renamed.

<root>/<namespace>/.<name>.<random>.tmp    being written; locked by its writer for as long as that lives
<root>/<namespace>/.<name>.<random>.old    what an overwrite is replacing, until it has
<root>/<namespace>/<name>                  the dataset
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from pathlib import Path
from typing import Literal

from smeoffline.data.storage.disk import sync, write_error
from smeoffline.data.storage.folders import NAMESPACE_FILE, DatasetId
from smeoffline.errors import DatasetError, DatasetExistsError

_TRIES = 20  # of steps that another process may spoil by doing the same at the same moment
_TAKEN = (
    errno.ENOTEMPTY,
    errno.EEXIST,
    errno.ENOTDIR,
)  # what a rename gives onto a dataset, or a link to one
_STEM = 80  # longest name that a hidden folder repeats: with the rest it must still be a file name


class Staging:
    """The hidden folder of one dataset that is being written.

    Args:
        identity: The dataset.
        root: Minari's root.
        overwrite: Whether an existing dataset may be replaced.
        elsewhere: What to do where its place is taken, in a message.
    """

    def __init__(
        self, identity: DatasetId, root: Path, *, overwrite: bool, elsewhere: str = "choose another id"
    ) -> None:
        self._identity = identity
        self._root = root
        self._overwrite = overwrite
        self._elsewhere = elsewhere
        self._target = identity.folder(root)
        self._made: list[Path] = []  # folders above it that were not there before, outermost first
        self._lock: int | None = None
        self.folder: Path | None = None

    def check_free(self) -> None:
        """Refuse a place that is taken, before any work.

        Raises:
            DatasetExistsError: The id is taken and may not be overwritten.
            DatasetError: Something else stands in the place of a folder.
        """
        try:
            self._check_above()
            found = _found_at(self._target)
            if found is None or _is_stub(self._target):
                return
            if found == "file":
                raise DatasetError(f"{self._target}: expected a folder, got a file; move it away")
            if found == "folder":
                raise DatasetExistsError(f"{self._target}: exists and is no dataset; {self._elsewhere}")
        except OSError as fault:
            raise write_error(fault, self._target) from None
        if not self._overwrite:
            raise DatasetExistsError(f"dataset {self._identity.text!r} exists in {self._target}; {self._what_to_do}")

    def _check_above(self) -> None:
        """Every folder above the dataset's is one, or can be made; and none is itself a dataset."""
        spaces = self._namespaces()
        for folder in (*reversed(self._root.parents), self._root, *spaces):
            if _found_at(folder) == "file":
                raise DatasetError(f"{folder}: expected a folder, got a file; move it away")
        for folder in spaces:
            if (folder / "data").is_dir():
                raise DatasetError(
                    f"dataset id {self._identity.text!r}: {folder} is a dataset, not a namespace; {self._elsewhere}"
                )

    def open(self) -> Path:
        """Make the hidden folder (and those above it), lock it, and remove what killed writers left.

        Raises:
            DatasetError: It can't be made.
        """
        parent = self._target.parent
        try:
            for _ in range(_TRIES):
                self._make_parents(parent)
                self.folder = parent / self._hidden("tmp")
                try:
                    self.folder.mkdir()
                    self._lock = _own_lock(self.folder)
                except FileNotFoundError:  # another process that failed took its empty namespace away
                    continue
                if self._lock is not None:
                    self._sweep(parent)
                    return self.folder
        except OSError as fault:
            raise write_error(fault, parent) from None
        raise DatasetError(f"{parent}: no folder stays there; is another program removing them?")

    def publish(self) -> Path:
        """Rename the hidden folder to the dataset's.

        Raises:
            DatasetExistsError: Another process was quicker, and overwriting was not asked for.
            DatasetError: The file system refuses.
        """
        if self.folder is None:
            raise ValueError("publish: expected a staging that is open")
        try:
            self._write_namespaces()
            for _ in range(_TRIES):
                if self._rename(self.folder):
                    self.folder = None
                    with contextlib.suppress(OSError):  # it is there; a power cut may still undo the rename
                        sync(self._target.parent)
                    return self._target
        except OSError as fault:
            raise write_error(fault, self._target) from None
        raise DatasetExistsError(f"dataset {self._identity.text!r}: other processes keep writing it; try again later")

    def close(self) -> None:
        """Unlock; and where it was not published, remove the hidden folder and the folders made for it."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)
            for folder in reversed(self._made):
                with contextlib.suppress(OSError):  # not empty: another dataset is there by now
                    if list(folder.iterdir()) == [folder / NAMESPACE_FILE]:
                        (folder / NAMESPACE_FILE).unlink()
                    folder.rmdir()
        if self._lock is not None:
            os.close(self._lock)
        self.folder = self._lock = None

    def _rename(self, folder: Path) -> bool:
        """One try to bring the new dataset in; false where another process made it fail."""
        if _is_stub(self._target):
            _remove_stub(self._target)
        try:
            folder.rename(self._target)
            return True
        except OSError as fault:
            if fault.errno not in _TAKEN:
                raise
        if not self._overwrite:
            raise DatasetExistsError(
                f"dataset {self._identity.text!r} was written by another process meanwhile; {self._what_to_do}"
            )
        aside = self._target.with_name(self._hidden("old"))
        try:
            self._target.rename(aside)
            folder.rename(self._target)
            return True
        except OSError as fault:
            if fault.errno not in (errno.ENOENT, *_TAKEN):
                raise
            return False
        finally:
            self._settle(aside)

    def _settle(self, aside: Path) -> None:
        """Remove the old dataset where a new one is in its place, else put it back."""
        if os.path.lexists(aside) and not os.path.lexists(self._target):
            with contextlib.suppress(OSError):  # taken in this moment: then there is a new one
                aside.rename(self._target)
        if os.path.lexists(aside):
            _remove(aside)

    @property
    def _what_to_do(self) -> str:
        """About a dataset that is there."""
        return f"{self._elsewhere}, or pass --overwrite (overwrite=True) to replace it"

    def _namespaces(self) -> list[Path]:
        """The folders of the namespace, outermost first."""
        parts = self._identity.namespace
        return [self._root.joinpath(*parts[: depth + 1]) for depth in range(len(parts))]

    def _make_parents(self, parent: Path) -> None:
        """Make the folders above the dataset's, remembering which are new."""
        for folder in reversed([f for f in (parent, *parent.parents) if not f.exists()]):
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
                self._made.append(folder)

    def _write_namespaces(self) -> None:
        """Minari lists a folder as a namespace if this file is in it."""
        for folder in self._namespaces():
            with contextlib.suppress(FileExistsError), (folder / NAMESPACE_FILE).open("x") as file:
                file.write("{}")

    @property
    def _stem(self) -> str:
        name = self._identity.name
        return name if len(name.encode()) <= _STEM else hashlib.sha256(name.encode()).hexdigest()[:16]

    def _hidden(self, kind: str) -> str:
        return f".{self._stem}.{secrets.token_hex(8)}.{kind}"

    def _sweep(self, parent: Path) -> None:
        """Remove what killed writers of this dataset left: a `.tmp` that nobody locks, an `.old` replaced."""
        pattern = re.compile(rf"\.{re.escape(self._stem)}\.[0-9a-f]{{16}}\.(tmp|old)")
        for path in list(parent.iterdir()):
            match = pattern.fullmatch(path.name)
            if match is None or path == self.folder:
                continue
            with contextlib.suppress(OSError):
                if match[1] == "old" and os.path.lexists(self._target):
                    _remove(path)
                elif match[1] == "tmp":
                    lock = _lock(path)
                    shutil.rmtree(path, ignore_errors=True)
                    os.close(lock)


def _own_lock(folder: Path) -> int | None:
    """Lock a folder just made; None where a sweeping process took it in the moment between."""
    try:
        return _lock(folder)
    except (BlockingIOError, FileNotFoundError):
        return None
    except OSError:  # no locks on this file system: there nobody can sweep either
        return os.open(folder, os.O_RDONLY)


def _lock(folder: Path) -> int:
    """Lock a folder for this process's life, or until the handle is closed.

    Raises:
        BlockingIOError: Another process holds it.
        OSError: It is gone, or the file system has no locks.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(handle).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))
    except BaseException:
        os.close(handle)
        raise
    return handle


def _found_at(place: Path) -> Literal["file", "folder", "dataset"] | None:
    """What stands at a place, seen at one moment: others may replace it while it is looked at."""
    while True:
        try:
            before = place.stat()
        except (FileNotFoundError, NotADirectoryError):
            return "file" if place.is_symlink() else None
        if not stat.S_ISDIR(before.st_mode):
            return "file"
        if (place / "data").is_dir():
            return "dataset"
        with contextlib.suppress(FileNotFoundError):
            if place.stat().st_ino == before.st_ino:
                return "folder"


def _is_stub(folder: Path) -> bool:
    """Whether a folder is what a failed creation by Minari leaves: empty, or with an empty `data` in it."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    data = folder / "data"
    try:
        entries = list(folder.iterdir())
        return not entries or (entries == [data] and data.is_dir() and not any(data.iterdir()))
    except FileNotFoundError:  # another process is replacing it at this moment: then it was no stub
        return False


def _remove_stub(folder: Path) -> None:
    """Remove empty folders; one that is no longer empty stays."""
    for empty in (folder / "data", folder):
        with contextlib.suppress(OSError):
            empty.rmdir()


def _remove(path: Path) -> None:
    """Remove a dataset's folder, or the link to one."""
    if path.is_symlink():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)
