"""Install a bundle: fetched, verified, and only then renamed into its place; or nothing."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.data.bundle.archive import Archive, total_size
from smeoffline.data.bundle.check import check
from smeoffline.data.bundle.fetch import opened
from smeoffline.data.bundle.progress import Meter, Progress
from smeoffline.data.bundle.sources import Source, find_sources
from smeoffline.data.storage.disk import sync, write_error
from smeoffline.data.storage.folders import datasets_root
from smeoffline.data.storage.staging import Staging
from smeoffline.errors import BundleError, DatasetError, VersionError

_ELSEWHERE = "set MINARI_DATASETS_PATH to another folder"  # ids are the bundle's, and can't be chosen


@dataclass(frozen=True)
class Installed:
    """Datasets that were just installed.

    Attributes:
        datasets: Their ids.
        paths: Their folders.
        source: Where the bundle came from.
        recomputed: Steps that were recomputed from the known optimum, over all datasets.
        failures: What went wrong with the sources before it, a line each.
    """

    datasets: tuple[str, ...]
    paths: tuple[Path, ...]
    source: str
    recomputed: int
    failures: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {
            "datasets": list(self.datasets),
            "paths": [str(path) for path in self.paths],
            "source": self.source,
            "recomputed": self.recomputed,
            "failures": list(self.failures),
        }


def install(
    places: Sequence[str], *, sha256: str | None = None, overwrite: bool = False, progress: Progress | None = None
) -> Installed:
    """Install the datasets of a bundle below Minari's root.

    Args:
        places: A path, a URL or a name of the registry; several are mirrors of one bundle, tried in order.
        sha256: Of the bundle's file; None where it is not known.
        overwrite: Whether datasets of the same ids may be replaced.
        progress: Told of bytes done, in all, and what is going on.

    Raises:
        BundleError: No source has a sound bundle; names what is wrong with each.
        DatasetExistsError: An id is taken and `overwrite` is false.
        DatasetError: The disk is full, or the folder can't be written to.
        SpecError: The hash is none.
        VersionError: A newer version of this package wrote the bundle.
    """
    root = datasets_root()
    failures: list[str] = []
    for source in find_sources(places, sha256):
        try:
            ids, paths, recomputed = _install(source, root, overwrite=overwrite, progress=progress)
            return Installed(ids, paths, source.shown, recomputed, tuple(failures))
        except BundleError as fault:  # another source may be sound; that ids are taken or disks full stays so
            failures.append(f"{source.shown}: {fault}")
        except VersionError as fault:
            raise VersionError(f"{source.shown}: {fault}") from None
    raise BundleError("; ".join(failures))


def _install(
    source: Source, root: Path, *, overwrite: bool, progress: Progress | None
) -> tuple[tuple[str, ...], tuple[Path, ...], int]:
    """Install from one source: ids, folders, and how many steps were recomputed."""
    disk = next(folder for folder in (root, *root.absolute().parents) if folder.is_dir())
    with opened(source, disk, progress) as file, contextlib.ExitStack() as stack:
        archive = Archive(file)
        stagings = [
            Staging(entry.identity, root, overwrite=overwrite, elsewhere=_ELSEWHERE) for entry in archive.entries
        ]
        for staging in stagings:
            staging.check_free()
            stack.callback(staging.close)
        needed, free = total_size(archive.entries), shutil.disk_usage(disk).free
        if needed > free:
            raise DatasetError(
                f"{root}: disk full: expected {needed / 1e6:,.1f} MB for the datasets, got {free / 1e6:,.1f} MB; "
                f"free some space, or {_ELSEWHERE}"
            )
        meter, recomputed = Meter(progress, needed, "unpacking"), 0
        for entry, staging in zip(archive.entries, stagings, strict=True):
            folder = staging.open()
            archive.unpack(entry, folder, meter.moved)
            meter.tell("checking")
            recomputed += check(folder, entry, every=False)
            _settle(folder)
        ids = tuple(entry.identity.text for entry in archive.entries)
        return ids, tuple(staging.publish() for staging in stagings), recomputed


def _settle(folder: Path) -> None:
    """Have a dataset's files and names reach the disk before it appears."""
    try:
        for path in (*(folder / "data").iterdir(), folder / "data", folder):
            sync(path)
    except OSError as fault:
        raise write_error(fault, folder) from None
