"""Checks of an installation: what is installed, what the machine has, and whether datasets can be kept there."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

PACKAGE = "smeoffline"
LITTLE_DISK = 2 * 10**9  # bytes: the data of about 20 million transitions, or a suite's datasets
LITTLE_MEMORY = 2 * 10**9


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: What.
        found: What was found.
        fix: What to do about it; None where all is well.
        must: Whether it must be fixed; a remark otherwise.
    """

    name: str
    found: str
    fix: str | None = None
    must: bool = True

    @property
    def status(self) -> str:
        """`ok`, `note` or `fix`."""
        return "ok" if self.fix is None else "fix" if self.must else "note"


def examine() -> Iterator[Check]:
    """Every check, in the order in which they are shown; a check that comes later imports more."""
    yield _python()
    yield from _packages()
    yield from _imports()
    yield from _machine()
    yield from _datasets()


def _python() -> Check:
    """The interpreter, against what the package asks for."""
    found = f"{platform.python_version()} ({platform.system()}, {platform.machine()})"
    try:
        wanted = importlib.metadata.metadata(PACKAGE)["Requires-Python"]
    except (importlib.metadata.PackageNotFoundError, KeyError):
        return Check("python", found)
    if wanted and not Requirement(f"python{wanted}").specifier.contains(platform.python_version(), prereleases=True):
        return Check("python", found, f"use Python {wanted}")
    return Check("python", found)


def _packages() -> Iterator[Check]:
    """What the package needs, and what that needs in turn, as `pip check` looks at it."""
    try:
        version = importlib.metadata.version(PACKAGE)
    except importlib.metadata.PackageNotFoundError:
        yield Check(PACKAGE, "not installed, but found on the path", "pip install -c constraints.txt .", must=False)
        return
    yield Check(PACKAGE, version)
    pending, seen = [(PACKAGE, frozenset[str]())], set[tuple[str, str]]()
    while pending:
        owner, extras = pending.pop(0)
        for wanted in needs(owner, extras):
            key = canonicalize_name(wanted.name), str(wanted)
            if key in seen:
                continue
            seen.add(key)
            check = against(wanted, owner)
            if owner == PACKAGE or check.fix is not None:
                yield check
            if check.fix is None:
                pending.append((wanted.name, frozenset(wanted.extras)))


def needs(distribution: str, extras: frozenset[str]) -> Iterator[Requirement]:
    """What an installed distribution requires here, with these extras."""
    try:
        listed = importlib.metadata.requires(distribution)
    except importlib.metadata.PackageNotFoundError:
        return
    for text in listed if listed is not None else []:
        try:
            wanted = Requirement(text)
        except InvalidRequirement:
            continue  # a form that this version of packaging does not know is no fault of the user's
        if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield wanted


def against(wanted: Requirement, owner: str) -> Check:
    """A requirement beside what is installed."""
    bounds = str(wanted.specifier)
    by = "" if owner == PACKAGE else f", as {owner} wants it"
    fix = f"pip install '{wanted.name}{bounds}'"
    try:
        found = importlib.metadata.version(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return Check(wanted.name, f"not installed{by}", fix)
    if not wanted.specifier.contains(found, prereleases=True):
        return Check(wanted.name, f"{found}, expected {bounds}{by}", fix)
    return Check(wanted.name, found)


def _imports() -> Iterator[Check]:
    """Whether what is heavy or undeclared can be imported, and which torch it is."""
    for name, work in (("torch build", _torch), ("import pillow", _pillow), ("import d3rlpy", _d3rlpy)):
        try:
            with warnings.catch_warnings(action="ignore"):
                yield Check(name, work())
        except Exception as fault:  # noqa: BLE001 - a broken library may raise anything, and we report it
            reason = f"{type(fault).__name__}: {fault}".splitlines()[0]
            package = name.split()[-1] if name.startswith("import") else "torch"
            yield Check(name, reason[:120], f"pip install --force-reinstall --no-deps {package}")


def _torch() -> str:
    """Version, build and threads."""
    import torch

    build = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPU"
    return f"{torch.__version__}, {build} build, {torch.get_num_threads()} threads"


def _pillow() -> str:
    """Minari imports it without declaring it."""
    import PIL.Image

    return f"{PIL.__version__}, for Minari"


def _d3rlpy() -> str:
    """Through its sole importer."""
    from smeoffline.train import trainer  # noqa: F401 - importing it is the check

    return "works"


def _machine() -> Iterator[Check]:
    """Cores and memory."""
    import psutil

    from smeoffline.sme.cores import default_workers

    yield Check("cores", f"{default_workers()} to use, of {os.cpu_count()}")
    memory = psutil.virtual_memory()
    found = f"{_size(memory.available)} free of {_size(memory.total)}"
    fix = "close other programs, or use fewer --workers" if memory.available < LITTLE_MEMORY else None
    yield Check("memory", found, fix, must=False)


def _datasets() -> Iterator[Check]:
    """The folder of datasets: room, permission, and each dataset in it."""
    from smeoffline.data.storage.folders import datasets_root

    root = datasets_root()
    place = next(path for path in (root.absolute(), *root.absolute().parents) if path.exists())
    yield _writable(root, place)
    free = shutil.disk_usage(place).free
    elsewhere = "free some space, or set MINARI_DATASETS_PATH to another disk"
    yield Check("disk", f"{_size(free)} free for datasets", elsewhere if free < LITTLE_DISK else None, must=False)
    yield from _readable(root)


def _writable(root: Path, place: Path) -> Check:
    """Whether datasets can be written: by writing, since permissions do not tell of every obstacle."""
    made = "" if place == root.absolute() else ", which will be made"
    try:
        if not place.is_dir():
            raise NotADirectoryError(None, "not a folder")
        with tempfile.TemporaryFile(dir=place):
            return Check("datasets folder", f"{root}{made}: writable")
    except OSError as fault:
        fix = f"change the permissions of {place}, or set MINARI_DATASETS_PATH to another folder"
        return Check("datasets folder", f"{place}: {fault.strerror}", fix)


def _readable(root: Path) -> Iterator[Check]:
    """Every dataset's metadata and data file."""
    from smeoffline.data.storage.folders import dataset_folders

    if root.exists() and not root.is_dir():
        return
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = list(dataset_folders(root))
    for warning in told:
        yield Check("dataset", str(warning.message), "make that folder readable")
    faults = len(told)
    for name, folder in found:
        wrong = list(_dataset_faults(name, folder, root))
        faults += any(fault.must for fault in wrong)
        yield from wrong
    yield Check(
        "datasets", f"{len(found)} found" + (f", {faults} at fault" if faults else "; every file can be opened")
    )


def _dataset_faults(name: str, folder: Path, root: Path) -> Iterator[Check]:
    """What is wrong with a dataset; a sound one of a kind that we do not read is a remark."""
    from smeoffline.data.storage import hdf5, metadata
    from smeoffline.data.storage.folders import misplaced
    from smeoffline.errors import SmeofflineError

    path = folder / "data" / metadata.DATA_FILE
    try:
        header = metadata.read(folder)
    except SmeofflineError as fault:
        if _told_id(folder / "data" / metadata.FILE) == name:
            yield Check("dataset", str(fault), "nothing, if it is for another program", must=False)
        else:
            yield Check("dataset", str(fault), f"move {folder} away: Minari lists no datasets at all beside it")
        return
    if header.id != name:
        fix = f"{misplaced(name, header.id, root)} (Minari lists no datasets at all beside it)"
        yield Check("dataset", f"{folder}: its metadata calls it {header.id!r}", fix)
    try:
        file = hdf5.open_file(path)
        try:
            hdf5.root_links(file, path)
        finally:
            file.close()
    except SmeofflineError as fault:
        yield Check("dataset", str(fault), f"restore it, or remove {folder}")


def _told_id(path: Path) -> object:
    """The id in a dataset's metadata, or None where Minari would find none either."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found.get("dataset_id") if isinstance(found, dict) else None


def _size(n: float) -> str:
    """`3.2 GB`."""
    return f"{n / 1e9:.1f} GB"
