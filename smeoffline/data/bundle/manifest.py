"""`manifest.json` of a bundle: which datasets it holds, what each is, and the size and hash of every file."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from smeoffline.data.storage import metadata
from smeoffline.data.storage.folders import DatasetId
from smeoffline.errors import BundleError, DatasetError, VersionError

NAME = "manifest.json"
SCHEMA = 1  # rises when a reader of the old one would misread the new one
FILES = (metadata.FILE, metadata.DATA_FILE)  # of each dataset, in the order of a bundle
# What a dataset's own metadata say of it and the manifest repeats, so that one can look before downloading.
SPEC = ("task", "behavior", "dataset", "sha256", "platform", "versions")
_MAX_SIZE = 2**62
_DEVICES = re.compile(r"con|prn|aux|nul|com\d|lpt\d", re.IGNORECASE)  # no folder of Windows can be called so


@dataclass(frozen=True)
class Member:
    """One file of a dataset.

    Attributes:
        name: Its path in the bundle, which is also that below Minari's root.
        size: In bytes.
        sha256: 64 hex digits.
    """

    name: str
    size: int
    sha256: str


@dataclass(frozen=True)
class Entry:
    """One dataset of a bundle.

    Attributes:
        identity: Its id.
        spec: The values of `SPEC`, as its metadata have them.
        files: One for each of `FILES`.
    """

    identity: DatasetId
    spec: dict[str, Any]
    files: tuple[Member, ...]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(member.size for member in self.files)


def member_names(identity: DatasetId) -> tuple[str, ...]:
    """Where the files of a dataset are in a bundle: it follows from the id, never from the bundle."""
    return tuple(f"{identity.text}/data/{name}" for name in FILES)


def spec_of(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """What the manifest repeats of a dataset's metadata."""
    return {key: provenance.get(key) for key in SPEC}


def compose(entries: Iterable[Entry]) -> bytes:
    """The bytes of `manifest.json`."""
    datasets = [
        {
            "id": entry.identity.text,
            **entry.spec,
            "files": [{"name": m.name, "size": m.size, "sha256": m.sha256} for m in entry.files],
        }
        for entry in entries
    ]
    return (json.dumps({"schema": SCHEMA, "datasets": datasets}, indent=1, allow_nan=False) + "\n").encode()


def parse(text: bytes) -> tuple[Entry, ...]:
    """Read and validate a stranger's manifest.

    Raises:
        BundleError: It is no manifest, or names what a bundle can't hold.
        VersionError: A newer version of this package wrote it.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as fault:
        reason = str(fault).splitlines()[0] if isinstance(fault, ValueError) else "nested too deeply"
        raise BundleError(f"{NAME}: not JSON: {reason[:80]}") from None
    schema = raw.get("schema") if isinstance(raw, dict) else None
    if type(schema) is not int or schema < 1:
        raise BundleError(f"{NAME}: expected an object with a schema number, got {shown(schema)}; is it a bundle?")
    if schema > SCHEMA:
        raise VersionError(
            f"{NAME}: written by a newer smeoffline: expected schema {SCHEMA} or older, got {schema}; "
            "upgrade smeoffline"
        )
    listed = raw.get("datasets")
    if not isinstance(listed, list) or not listed:
        raise BundleError(f"{NAME}: expected a list of datasets, got {shown(listed)}")
    entries = tuple(_entry(item) for item in listed)
    check_apart([entry.identity for entry in entries])
    return entries


def check_apart(identities: Iterable[DatasetId]) -> None:
    """Refuse datasets that could not stand beside each other below one root, on any file system.

    Raises:
        BundleError: Two share an id but for case, one lies in another's folder, or a name is a device's.
    """
    seen: dict[str, str] = {}
    for identity in identities:
        for part in identity.namespace:
            if _DEVICES.fullmatch(part):
                raise BundleError(f"dataset id {identity.text!r}: {part!r} is the name of a device; rename it")
        key = _folded(identity.text)
        if key in seen:
            raise BundleError(f"dataset ids {seen[key]!r} and {identity.text!r}: expected each once, whatever its case")
        seen[key] = identity.text
    for key, text in seen.items():
        for above in _above(key):
            if above in seen:
                raise BundleError(f"dataset ids {seen[above]!r} and {text!r}: one lies in the folder of the other")


def _above(key: str) -> Iterator[str]:
    """The namespaces of an id, outermost first."""
    parts = key.split("/")
    return ("/".join(parts[:depth]) for depth in range(1, len(parts)))


def _folded(text: str) -> str:
    """What file systems that ignore case or normalize names take for the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())


def _entry(item: Any) -> Entry:
    """One element of `datasets`."""
    name = item.get("id") if isinstance(item, dict) else None
    if not isinstance(name, str):
        raise BundleError(f"{NAME}: expected each dataset to have an id, got {shown(item)}")
    try:
        identity = DatasetId.parse(name)
    except DatasetError:
        raise BundleError(f"{NAME}: expected a dataset id such as sme/mine-v0, got {shown(name)}") from None
    where = f"{NAME}: dataset {name[:80]!r}"
    unknown = sorted(set(item) - {"id", "files", *SPEC})
    if unknown:
        raise BundleError(f"{where}: unknown key {shown(unknown[0])}")
    files, wanted = item.get("files"), member_names(identity)
    if not isinstance(files, list) or [f.get("name") if isinstance(f, dict) else None for f in files] != list(wanted):
        raise BundleError(f"{where}: expected the files {', '.join(wanted)}, got {shown(files)}")
    return Entry(identity, {key: item.get(key) for key in SPEC}, tuple(_member(file) for file in files))


def _member(file: dict[str, Any]) -> Member:
    """One element of `files`, whose name was checked."""
    name, size, digest = (file.get(key) for key in ("name", "size", "sha256"))
    if type(size) is not int or not 0 <= size <= _MAX_SIZE:
        raise BundleError(f"{NAME}: {name}: expected a size in bytes, got {shown(size)}")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise BundleError(f"{NAME}: {name}: expected a sha256 of 64 hex digits, got {shown(digest)}")
    return Member(str(name), size, digest)


def shown(value: Any) -> str:
    """A stranger's value in a message: short, and without control characters."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
