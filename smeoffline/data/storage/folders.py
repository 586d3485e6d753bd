"""Where datasets live: ids, their folders below Minari's root, and a listing that survives strays.

    <root>/<namespace>/<name>-v<version>/data/{main_data.hdf5, metadata.json}

The root is `MINARI_DATASETS_PATH`, else `~/.minari/datasets`, as in Minari.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from smeoffline.data.storage import metadata
from smeoffline.errors import DatasetError, DatasetNotFoundError, SmeofflineError, SmeofflineWarning, nearest

# Minari's own pattern (`minari.dataset.minari_dataset.DATASET_ID_RE`), but that the version must be there:
# Minari writes a dataset without one and then cannot list it.
_ID = re.compile(r"(?:(?P<namespace>[-_\w][-_\w/]*[-_\w]+)/)?(?P<name>[-_\w]+?-v\d+)")
_MAX_NAME_BYTES = 255  # of one file name, on every file system in use
_MAX_ID = 4096  # characters, more than any path has: of what a stranger tells, no more is matched, in O(n^2)
_MAX_DEPTH = 16  # a link to a folder above would otherwise be followed forever
_SHOWN = 200  # characters of what was asked for that a message repeats
NAMESPACE_FILE = "namespace_metadata.json"


@dataclass(frozen=True)
class DatasetId:
    """A dataset id that Minari takes.

    Attributes:
        text: The id, such as `sme/s8a4-c50-bias-nu0p1-v0`.
        namespace: Its folders below the root, outermost first; may be empty.
        name: Its last part, version included.
    """

    text: str
    namespace: tuple[str, ...]
    name: str

    @classmethod
    def parse(cls, text: str) -> DatasetId:
        """Check an id before anything is made.

        Raises:
            DatasetError: Minari does not take it, or taking it would hide other datasets.
        """
        match = _matched(text)
        if match is None:
            told = repr(text) if len(text) <= _MAX_ID else f"{text[:40]!r}..."
            raise DatasetError(
                f"dataset id {told}: expected NAMESPACE/NAME-vVERSION of letters, digits, '-' and '_' "
                "(such as sme/mine-v0; the namespace is optional and has two characters or more)"
            )
        namespace = tuple((match["namespace"] or "").split("/")) if match["namespace"] else ()
        if "" in namespace:
            raise DatasetError(f"dataset id {text!r}: expected single slashes; a folder has a name")
        if "data" in namespace:
            # Minari takes any folder that holds a `data` for a dataset, and looks no deeper.
            raise DatasetError(f"dataset id {text!r}: a namespace must not be called 'data'; choose another name")
        for part in (*namespace, match["name"]):
            if len(part.encode()) > _MAX_NAME_BYTES:
                raise DatasetError(
                    f"dataset id {text[:40]!r}...: expected parts of at most {_MAX_NAME_BYTES} bytes, "
                    f"got {len(part.encode())}"
                )
        return cls(text, namespace, match["name"])

    def folder(self, root: Path) -> Path:
        """The dataset's folder below a root."""
        return root.joinpath(*self.namespace, self.name)


@dataclass(frozen=True)
class Listed:
    """A dataset as a listing shows it, told by its metadata alone.

    Attributes:
        id: Its id.
        path: Its folder.
        episodes: How many.
        steps: Over all episodes.
        size_mb: On disk, in 10^6 bytes.
        provenance: The `smeoffline` object, or None for a dataset that is not ours.
    """

    id: str
    path: Path
    episodes: int
    steps: int
    size_mb: float
    provenance: dict[str, object] | None


def datasets_root(root: Path | None = None) -> Path:
    """The folder of all datasets: the one given, `MINARI_DATASETS_PATH`, or `~/.minari/datasets`."""
    if root is not None:
        return Path(root)
    named = os.environ.get("MINARI_DATASETS_PATH")
    return Path(named) if named else Path.home() / ".minari" / "datasets"


def list_datasets(root: Path | None = None) -> list[Listed]:
    """All datasets below a root, sorted by id. What is malformed is warned about and left out."""
    found, base = [], datasets_root(root)
    for name, folder in dataset_folders(base):
        try:
            DatasetId.parse(name)
            header = metadata.read(folder)
            if header.id != name:
                raise DatasetError(f"its metadata calls it {header.id[:_SHOWN]!r}; {misplaced(name, header.id, base)}")
            size = sum(p.stat().st_size for p in (folder / "data").iterdir() if p.is_file()) / 1e6
        except (SmeofflineError, OSError) as fault:  # as another process may replace it meanwhile
            warnings.warn(f"skipping {folder}: {fault}", SmeofflineWarning, stacklevel=2)
            continue
        found.append(Listed(name, folder, header.episodes, header.steps, round(size, 1), header.provenance))
    return sorted(found, key=lambda listed: listed.id)


def misplaced(name: str, told: str, root: Path) -> str:
    """What to do about a dataset whose metadata tell another id than its place, as a clause.

    Args:
        name: Its folder below the root.
        told: The id in its metadata.
        root: Of all datasets.
    """
    correct = f"set dataset_id in its {metadata.FILE} to {name!r}" if _matched(name) else "rename its folder"
    if _matched(told) is None:
        return correct
    if _exists(root / told):
        return f"{told} exists too, so this is a copy: remove it, or {correct}"
    return f"move it to {root / told}, or {correct}"


def find(dataset: str | Path, root: Path | None = None) -> Path:
    """The folder of an existing dataset.

    Args:
        dataset: An id below the root; or a dataset's folder, as a Path or as text with a slash or dot in it.
        root: See `datasets_root`.

    Raises:
        DatasetNotFoundError: There is none; names ids that are near.
        DatasetError: The id or path leads to what is not a dataset.
    """
    base, name = datasets_root(root), str(dataset)
    composed = unicodedata.normalize("NFC", name)  # an id looks the same however its accents were typed
    is_id = isinstance(dataset, str) and _matched(composed) is not None
    expanded = os.path.expanduser(name)  # noqa: PTH111 -- that of a Path raises where `~name` is no user
    places = [*([base / composed] if is_id else []), Path(expanded)]
    for place in places:
        if _is_dataset(place):
            return place
    shown = repr(name) if len(name) <= _SHOWN else f"{name[:_SHOWN]!r}..."
    if _exists(places[0]):
        raise DatasetError(f"dataset {shown}: {places[0]} holds no data/{metadata.FILE}; is it a dataset's folder?")
    if not _is_text(name):
        raise DatasetNotFoundError(
            f"dataset {name[:_SHOWN]!a}: not found, and this is no text in {sys.getfilesystemencoding()}; "
            "use a UTF-8 locale, such as LC_ALL=C.UTF-8"
        )
    known = [found for found, _ in dataset_folders(base) if _is_text(found)]
    hint = nearest(name[:_SHOWN], known, how_many=3)
    have = "; there are no datasets"
    if known:
        have = f"; there {'is 1 dataset' if len(known) == 1 else f'are {len(known)} datasets'}, none of a similar name"
    raise DatasetNotFoundError(f"dataset {shown}: not found below {base}{hint if hint else have}")


def _matched(text: str) -> re.Match[str] | None:
    """The parts of a dataset id, or None for what is none."""
    return _ID.fullmatch(text) if len(text) <= _MAX_ID else None


def _is_text(name: str) -> bool:
    """Whether a name has no bytes that the locale could not decode."""
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


def _exists(path: Path) -> bool:
    """Whether something is there; no for a name that no file can have."""
    try:
        return path.exists()
    except OSError:
        return False


def _is_dataset(folder: Path) -> bool:
    """Whether a folder looks like a Minari dataset's, whatever is in its files."""
    try:
        return (folder / "data" / metadata.FILE).is_file()
    except OSError:  # a name that is too long, or a folder that may not be searched
        return False


def dataset_folders(root: Path) -> Iterator[tuple[str, Path]]:
    """Each folder that Minari would take for a dataset, with its path from the root; hidden ones left out."""
    pending = [(root, 0)]
    while pending:
        folder, depth = pending.pop()
        try:
            entries = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith("."))
        except FileNotFoundError:
            continue
        except OSError as fault:
            warnings.warn(f"skipping {folder}: {fault.strerror}", SmeofflineWarning, stacklevel=3)
            continue
        if depth > 0 and any(p.name == "data" for p in entries):
            yield folder.relative_to(root).as_posix(), folder
        elif depth < _MAX_DEPTH:
            pending += [(p, depth + 1) for p in entries]
