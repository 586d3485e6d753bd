"""Find what an object in a file holds without opening it, where its twin has been opened before.

Opening an object through HDF5 takes ten times as long as reading 100 steps of data, and an episode has nine.
But the headers of all episodes of one length are equal to the byte, except for addresses, numbers kept in
attributes, and the checksum. So a header is compared with those of objects that were opened and checked
through h5py: where all other bytes agree, so do names, shape, type and layout, and the rest can be taken
from it. Anything else (chunked data, other versions of the format) is opened through h5py.

A header's own checksum isn't computed: like the data, which HDF5 does not check, it is covered by the
content hash that `inspect` recomputes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

Facts = TypeVar("Facts")

HEADER_BYTES = 1024  # read at an object's address; a longer header has no twin
_SIGNATURE = b"OHDR\x02"  # a version 2 object header
_TIMES, _PHASES, _SIZE_BITS = 0x20, 0x10, 0x03  # flags of it
_ATTRIBUTE = 3  # version of an attribute message
_FIELD = struct.Struct("<q")  # every number that may differ has 8 bytes


@dataclass(frozen=True)
class _Places:
    """Where a header keeps the numbers in which twins differ.

    Attributes:
        fields: Their positions, in the order in which they are asked for.
        kept: The stretches between them, up to the checksum.
    """

    fields: tuple[int, ...]
    kept: tuple[slice, ...]

    @classmethod
    def of(cls, fields: tuple[int, ...], end: int) -> _Places:
        edges = sorted(fields)
        starts, stops = [0, *(edge + _FIELD.size for edge in edges)], [*edges, end - 4]
        return cls(fields, tuple(slice(a, b) for a, b in zip(starts, stops, strict=True)))

    def rest(self, header: bytes) -> bytes:
        """All that twins share."""
        return b"".join([header[part] for part in self.kept])


class Twins(Generic[Facts]):
    """Headers of objects already opened, by a name for their kind, each with what was found out about it."""

    def __init__(self) -> None:
        self._places: dict[bytes, _Places] = {}
        self._facts: dict[tuple[bytes, bytes], Facts] = {}

    def find(self, kind: bytes, header: bytes) -> tuple[Facts, list[int]] | None:
        """The facts about an object's twin and this object's own numbers, or None where it has no twin."""
        places = self._places.get(kind)
        if places is None or len(header) < places.kept[-1].stop:  # cut off by the end of the file
            return None
        facts = self._facts.get((kind, places.rest(header)))
        if facts is None:
            return None
        return facts, [_FIELD.unpack_from(header, place)[0] for place in places.fields]

    def learn(self, kind: bytes, header: bytes, fields: Iterable[int | None], facts: Facts) -> None:
        """Remember an object that was opened; without effect where a field's position isn't known."""
        end, known = header_end(header), tuple(fields)
        if end is None or any(field is None or field + _FIELD.size > end - 4 for field in known):
            return
        places = _Places.of(tuple(field for field in known if field is not None), end)
        if self._places.setdefault(kind, places) == places:
            self._facts[kind, places.rest(header)] = facts


def data_field(header: bytes, offset: int, size: int) -> int | None:
    """Where a dataset's header says that `size` bytes of data lie at `offset` of the file."""
    return _only(header, struct.pack("<qq", offset, size))


def link_field(header: bytes, name: bytes, address: int) -> int | None:
    """Where a group's header says that the object `name` lies at `address`."""
    place = _only(header, bytes([len(name)]) + name + _FIELD.pack(address)) if len(name) < 256 else None
    return None if place is None else place + 1 + len(name)


def attribute_field(header: bytes, name: bytes, value: int) -> int | None:
    """Where a header keeps the value of an int64 attribute.

    Its message is: version, flags, sizes of name, type and space (2 bytes each), character set, and these.
    """
    place = _only(header, name + b"\0")
    if place is None or place < 9 or header[place - 9] != _ATTRIBUTE:
        return None
    field: int = place + sum(struct.unpack_from("<HHH", header, place - 7))
    return field if header[field : field + _FIELD.size] == _FIELD.pack(value) else None


def header_end(header: bytes) -> int | None:
    """The length of a version 2 object header's first part, checksum included; None for anything else."""
    if not header.startswith(_SIGNATURE) or len(header) < 32:
        return None
    flags = header[5]
    start = 6 + (16 if flags & _TIMES else 0) + (4 if flags & _PHASES else 0)
    width = 1 << (flags & _SIZE_BITS)
    end = start + width + int.from_bytes(header[start : start + width], "little") + 4
    return end if end <= len(header) else None


def _only(header: bytes, pattern: bytes) -> int | None:
    """Where a pattern stands in a header, if it stands there once."""
    end = header_end(header)
    place = header.find(pattern, 0, end) if end is not None else -1
    return place if place >= 0 and header.find(pattern, place + 1, end) < 0 else None
