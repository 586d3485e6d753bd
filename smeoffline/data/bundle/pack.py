"""Pack datasets into one file; the same datasets give the same bytes."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from smeoffline.data.bundle import manifest
from smeoffline.data.bundle.archive import CHUNK
from smeoffline.data.bundle.check import check, describe
from smeoffline.data.bundle.manifest import Entry, Member
from smeoffline.data.bundle.progress import Meter, Progress
from smeoffline.data.generate import generate_recipe
from smeoffline.data.recipe import Recipe
from smeoffline.data.storage import folders, metadata
from smeoffline.data.storage.disk import sync, write_error
from smeoffline.data.storage.folders import DatasetId, datasets_root
from smeoffline.errors import BundleError, DatasetError, DatasetNotFoundError

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest a zip file can tell: no time of packing is stored
_MODE = 0o100644  # a plain file, on any system
_WHAT_TO_DO = "choose another name, or pass --overwrite (overwrite=True) to replace it"  # about a file that is there


@dataclass(frozen=True)
class Packed:
    """A bundle that was just written.

    Attributes:
        file: Where.
        datasets: Their ids.
        size: In bytes.
        sha256: Of the file.
    """

    file: Path
    datasets: tuple[str, ...]
    size: int
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {"file": str(self.file), "datasets": list(self.datasets), "size": self.size, "sha256": self.sha256}


def pack(
    datasets: Sequence[str | Path], out: Path, *, overwrite: bool = False, progress: Progress | None = None
) -> Packed:
    """Check datasets and write them to one file.

    Args:
        datasets: Ids or folders; their order is of no account.
        out: The new file.
        overwrite: Whether an existing file may be replaced.
        progress: See `Progress`.

    Raises:
        DatasetNotFoundError: There is no such dataset.
        BundleError: The file exists and `overwrite` is false, or a dataset is none of ours, faulty, or named twice.
        DatasetError: A file can't be read or written.
    """
    _check_new(out, overwrite=overwrite)
    places = _places(datasets)
    meter = Meter(progress, sum(size for _, folder in places for size in _sizes(folder)), "packing")
    with _appearing(out, overwrite=overwrite) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            entries = [_add(archive, identity, folder, meter) for identity, folder in places]
            archive.writestr(_info(manifest.NAME), manifest.compose(entries))
        file.seek(0)
        digest = _sha256(file)
        size = file.tell()
    return Packed(out, tuple(identity.text for identity, _ in places), size, digest)


def _check_new(out: Path, *, overwrite: bool) -> None:
    """Refuse to write over what is there, and to where no folder is.

    Raises:
        BundleError: The file exists and may not be replaced, or its folder doesn't exist.
    """
    if os.path.lexists(out) and not overwrite:
        raise BundleError(f"{out}: exists; {_WHAT_TO_DO}")
    if not out.absolute().parent.is_dir():
        raise BundleError(f"{out}: no such folder as {out.parent}; make it first")


def ensure(recipes: Sequence[Recipe], *, progress: Progress | None = None) -> list[str]:
    """The ids of the datasets of these recipes, generating those that are missing.

    Args:
        recipes: The recipes.
        progress: Told of transitions done, in all, and of which dataset.

    Raises:
        BundleError: An id is that of a dataset of another recipe.
        DatasetError: A dataset can't be read or written.
    """
    for recipe in recipes:
        name = recipe.dataset_id
        try:
            found = metadata.read(folders.find(name)).provenance or {}
        except DatasetNotFoundError:
            told = None if progress is None else _noted(progress, name)
            generate_recipe(recipe, progress=told)
            continue
        if not _tells(found, recipe):
            raise BundleError(f"dataset {name!r} in {datasets_root()} is of another recipe; move it away")
    return [recipe.dataset_id for recipe in recipes]


def _tells(provenance: Mapping[str, Any], recipe: Recipe) -> bool:
    """Whether metadata tell of a recipe; not compared is whether its id was given or built."""
    wanted, dataset = recipe.to_dict(), provenance.get("dataset")
    sized = {key: value for key, value in dataset.items() if key != "id"} if isinstance(dataset, dict) else None
    if sized != {"episodes": recipe.episodes, "seed": recipe.seed}:
        return False
    return all(provenance.get(key) == wanted[key] for key in ("task", "behavior"))


def _noted(progress: Progress, name: str) -> Callable[[int, int], None]:
    """A progress callback without the note."""
    return lambda done, total: progress(done, total, name)


def _places(datasets: Sequence[str | Path]) -> list[tuple[DatasetId, Path]]:
    """Ids and folders of the datasets, sorted by id."""
    places: dict[str, Path] = {}
    for dataset in datasets:
        folder = folders.find(dataset)
        name = metadata.read(folder).id
        if name in places:
            raise BundleError(f"dataset {name!r}: expected each once, got it twice")
        places[name] = folder
    if not places:
        raise BundleError("expected at least one dataset to pack, got none")
    found = [(DatasetId.parse(name), places[name]) for name in sorted(places)]
    manifest.check_apart(identity for identity, _ in found)
    return found


def _sizes(folder: Path) -> Iterator[int]:
    """Bytes of each file of a dataset."""
    for name in manifest.FILES:
        try:
            yield (folder / "data" / name).stat().st_size
        except OSError as fault:
            raise DatasetError(f"{folder / 'data' / name}: cannot be read: {fault.strerror}") from None


def _info(name: str, size: int = 0) -> zipfile.ZipInfo:
    """A member's header, the same wherever and whenever it is written."""
    info = zipfile.ZipInfo(name, _TIME)
    info.create_system = 3  # Unix: else it would be that of this machine
    info.external_attr = _MODE << 16
    info.file_size = size
    return info


def _add(archive: zipfile.ZipFile, identity: DatasetId, folder: Path, meter: Meter) -> Entry:
    """Copy a dataset into the bundle, and check it."""
    header = describe(folder, identity.text, str(folder))
    names = zip(manifest.member_names(identity), manifest.FILES, strict=True)
    files = tuple(_copy(archive, name, folder / "data" / source, meter) for name, source in names)
    entry = Entry(identity, manifest.spec_of(header.provenance or {}), files)
    meter.tell("checking")
    check(folder, entry, every=True, called=str(folder))
    return entry


def _copy(archive: zipfile.ZipFile, name: str, source: Path, meter: Meter) -> Member:
    """Copy a file into the bundle, and hash it on the way."""
    digest, size = hashlib.sha256(), 0
    try:
        file = source.open("rb")
    except OSError as fault:
        raise DatasetError(f"{source}: cannot be read: {fault.strerror}") from None
    with file, archive.open(_info(name, os.fstat(file.fileno()).st_size), "w") as member:
        while chunk := file.read(CHUNK):
            member.write(chunk)
            digest.update(chunk)
            size += len(chunk)
            meter.moved(len(chunk))
    return Member(name, size, digest.hexdigest())


def _sha256(file: IO[bytes]) -> str:
    """The hash of the rest of a file."""
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return digest.hexdigest()


@contextlib.contextmanager
def _appearing(out: Path, *, overwrite: bool) -> Iterator[IO[bytes]]:
    """A new file that appears whole or not at all: a hidden sibling, synced and renamed.

    Raises:
        BundleError: Something of that name has appeared meanwhile.
        DatasetError: The file system refuses.
    """
    hidden = out.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        with hidden.open("xb+") as file:
            yield file
        sync(hidden)
        if os.path.lexists(out) and not overwrite:
            raise BundleError(f"{out}: was made by another process meanwhile; {_WHAT_TO_DO}")
        hidden.rename(out)
    except OSError as fault:
        raise write_error(fault, out, "or choose another place for the file") from None
    finally:
        with contextlib.suppress(OSError):
            hidden.unlink(missing_ok=True)
