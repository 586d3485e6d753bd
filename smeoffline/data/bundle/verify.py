"""Verify a bundle without installing it."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smeoffline.data.bundle.archive import Archive, total_size
from smeoffline.data.bundle.check import check
from smeoffline.data.bundle.fetch import opened
from smeoffline.data.bundle.progress import Meter, Progress
from smeoffline.data.bundle.sources import find_sources
from smeoffline.data.storage.disk import write_error
from smeoffline.errors import BundleError, DatasetError, VersionError

_ELSEWHERE = "or set TMPDIR to another folder"


@dataclass(frozen=True)
class Verified:
    """A bundle that was found sound.

    Attributes:
        file: Where it is.
        datasets: Ids of what is in it.
        size: In bytes.
        recomputed: Steps that were recomputed from the known optimum, over all datasets.
        regenerated: Whether the datasets were made again from their recipes, and are equal.
    """

    file: str
    datasets: tuple[str, ...]
    size: int
    recomputed: int
    regenerated: bool

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {"ok": True, **asdict(self)}


def verify(file: str, *, regenerate: bool = False, progress: Progress | None = None) -> Verified:
    """Check everything about a bundle: hashes, sizes, versions, layout, alignment, numbers, a sample of steps.

    Args:
        file: A path, a URL or a name of the registry. Each dataset in turn is unpacked to a temporary folder.
        regenerate: Whether to make each dataset again from its recipe and prove it equal: byte for byte where
            the platform is the one that made it; elsewhere initial states and noise, and each step within 1e-4.
        progress: Told of bytes done, in all, and what is going on.

    Raises:
        BundleError: The first fault, beginning with the bundle's and the member's name.
        DatasetError: There is no room to unpack.
        VersionError: A newer version of this package wrote the bundle.
    """
    source = find_sources([file], None)[0]  # of a name with mirrors the first
    scratch = Path(tempfile.gettempdir())
    try:
        with opened(source, scratch, progress) as stream:
            archive = Archive(stream)
            meter = Meter(progress, total_size(archive.entries), "unpacking")
            recomputed = 0
            for entry in archive.entries:
                _check_room(scratch, entry.size)
                with tempfile.TemporaryDirectory(prefix="sme-bundle-", dir=scratch) as folder:
                    archive.unpack(entry, Path(folder), meter.moved, _ELSEWHERE)
                    meter.tell("regenerating" if regenerate else "checking")
                    recomputed += check(Path(folder), entry, every=True, regenerate=regenerate)
            ids = tuple(entry.identity.text for entry in archive.entries)
            return Verified(source.shown, ids, archive.size, recomputed, regenerate)
    except (BundleError, VersionError) as fault:
        raise type(fault)(f"{source.shown}: {fault}") from None
    except OSError as fault:
        raise write_error(fault, scratch, _ELSEWHERE) from None


def _check_room(scratch: Path, needed: int) -> None:
    """Refuse to unpack what the disk can't hold."""
    free = shutil.disk_usage(scratch).free
    if needed > free:
        raise DatasetError(
            f"{scratch}: disk full: expected {needed / 1e6:,.1f} MB to unpack a dataset, got {free / 1e6:,.1f} MB; "
            f"free some space, {_ELSEWHERE}"
        )
