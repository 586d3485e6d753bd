"""Read all episodes of a file into flat arrays, checking each against what an episode must be.

episode                0                  1
observations           o0 o1 .. oT        o0 o1 .. oT'       one row more than steps in each
actions, rewards, ...  a0 .. aT-1         a0 .. aT'-1
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.data.storage import hdf5
from smeoffline.data.storage.columns import Column
from smeoffline.data.storage.episodes import Episodes
from smeoffline.data.storage.findings import Finding
from smeoffline.data.storage.metadata import Header
from smeoffline.data.storage.twins import HEADER_BYTES, Twins, attribute_field, data_field, link_field
from smeoffline.sme.arrays import Ints

_STEP = ("actions", "rewards", "terminations", "truncations")  # one row a step; the others one more
_REQUIRED = ("observations", *_STEP)
_INFOS = {"optimal_action": "optimal_actions", "log_density": "log_densities"}
_NUMBERS = (b"id", b"total_steps", b"seed", b"component")  # attributes of an episode


@dataclass(frozen=True)
class Group:
    """What a group holds: the address of each object by name, and the whole numbers in its attributes."""

    links: dict[bytes, int]
    numbers: dict[bytes, int]


class Unsound(Exception):  # noqa: N818 -- it is caught where an episode ends, and is no error to anyone
    """An episode that can't be kept."""

    def __init__(self, check: str, expected: str, got: str) -> None:
        super().__init__(check)
        self.check, self.expected, self.got = check, expected, got


def read_episodes(path: Path, header: Header) -> tuple[Episodes, list[Finding]]:
    """Read a data file.

    Args:
        path: The HDF5 file.
        header: The widths of observations and actions; its counts are only hints of how much there is.

    Returns:
        The episodes that are whole, and what is wrong with the others.

    Raises:
        DatasetError: The file can't be opened.
    """
    with open_episodes(path) as opened:
        return EpisodeReader(opened, header).run(opened.places, opened.findings)


@dataclass(frozen=True)
class Opened:
    """A data file while it is open.

    Attributes:
        file: The open HDF5 file.
        raw: The same file's descriptor.
        places: Number and address of each episode, in order.
        findings: Strays and gaps among them.
    """

    file: Any
    raw: int
    places: list[tuple[int, int]]
    findings: list[Finding]


@contextlib.contextmanager
def open_episodes(path: Path) -> Iterator[Opened]:
    """Open a data file and find its episodes.

    Raises:
        DatasetError: The file can't be opened.
    """
    file = hdf5.open_file(path)
    try:
        places, findings = _places(hdf5.root_links(file, path))
        with path.open("rb", buffering=0) as raw:
            yield Opened(file, raw.fileno(), places, findings)
    finally:
        file.close()


def _places(found: dict[bytes, int | None]) -> tuple[list[tuple[int, int]], list[Finding]]:
    """Number and address of each episode, in order; strays and gaps become findings."""
    names = [b"episode_%d" % i for i in range(len(found))]
    places, findings = [], []
    strays = sorted(set(found) - set(names))
    if strays:
        expected = f"episode_0 to episode_{len(found) - 1} and nothing else"
        findings.append(Finding("episodes", None, None, expected, repr(strays[0].decode(errors="replace"))))
    for number, name in enumerate(names):
        address = found.get(name)
        if address is not None:
            places.append((number, address))
        elif name in found:
            findings.append(Finding("links", number, None, "data in this file", "a link to elsewhere"))
    return places, findings


class EpisodeReader:
    """The state of one reading.

    Args:
        opened: The data file.
        header: See `read_episodes`.
        episodes: How many will be read, as a hint like those in the header; None for all.
    """

    def __init__(self, opened: Opened, header: Header, episodes: int | None = None) -> None:
        self._file = opened.file
        self._raw = opened.raw
        self._size = os.fstat(opened.raw).st_size
        self._unclaimed = self._size  # bytes of the file, less those of all arrays so far
        self._ours = header.provenance is not None
        self._shapes: Twins[tuple[int, ...]] = Twins()
        self._names: Twins[tuple[tuple[bytes, ...], tuple[bytes, ...]]] = Twins()
        observation, action = (header.observation_dim,), (header.action_dim,)
        per_step = 4 * (header.observation_dim + header.action_dim + 1) + 2
        steps = min(header.steps, self._size // per_step)  # a claim that the file can't hold is not believed
        if episodes is not None:
            steps = steps * min(episodes, header.episodes) // max(1, header.episodes)
        rows = steps + min(header.episodes, steps)
        self._columns = {
            "observations": Column(np.float32, observation, rows),
            "actions": Column(np.float32, action, steps),
            "rewards": Column(np.float32, (), steps),
            "terminations": Column(np.bool_, (), steps),
            "truncations": Column(np.bool_, (), steps),
            "optimal_actions": Column(np.float32, action, rows),
            "log_densities": Column(np.float32, (), rows),
        }
        self._have = set(_INFOS.values())  # those that every episode so far has
        self._told: dict[str, list[int | None]] = {k: [] for k in ("number", "length", "seed", "component")}
        self._findings: list[Finding] = []

    def run(self, places: Iterable[tuple[int, int]], findings: Iterable[Finding]) -> tuple[Episodes, list[Finding]]:
        """Read the episodes at these places; what is known to be wrong comes first among the findings."""
        self._findings += findings
        for number, address in places:
            before = {name: column.used for name, column in self._columns.items()}
            have = set(self._have)
            try:
                self._read(number, address)
                continue
            except Unsound as fault:
                finding = Finding(fault.check, number, None, fault.expected, fault.got)
            except hdf5.FAILURES as fault:
                text = hdf5.one_line(fault)
                finding = Finding("file", number, None, "an episode that HDF5 can read", text)
            self._findings.append(finding)
            self._have = have
            for name, column in self._columns.items():
                column.used = before[name]
        return self._episodes(), self._findings

    def _read(self, number: int, address: int) -> None:
        """Read one episode, or raise what is wrong with it."""
        path = b"episode_%d" % number
        group = self._group(path, address, b"episode")
        stored = {name: self._locate(path, name, group.links) for name in _REQUIRED}
        rewards = stored["rewards"][0]
        if len(rewards) != 1 or rewards[0] < 1:
            raise Unsound("rewards", "one number a step, and at least one step", f"shape {rewards}")
        steps = rewards[0]
        for name in _REQUIRED:
            self._fill(name, name, steps, stored[name])
        self._read_infos(path, group.links.get(b"infos"), steps)
        told = group.numbers.get(b"total_steps", steps)
        if told != steps:
            raise Unsound("total_steps", f"{steps} (the rewards of the episode)", str(told))
        self._told["number"].append(number)
        self._told["length"].append(steps)
        for key in ("seed", "component"):
            self._told[key].append(group.numbers.get(key.encode()))

    def _read_infos(self, path: bytes, address: int | None, steps: int) -> None:
        """Read those of our own infos that every episode so far had."""
        wanted = [name for name, column in _INFOS.items() if column in self._have]
        there = self._group(path + b"/infos", address, b"infos").links if wanted and address is not None else {}
        for name in wanted:
            column = _INFOS[name]
            if name.encode() not in there:
                self._have.remove(column)
                continue
            try:
                self._fill(f"infos/{name}", column, steps, self._locate(path + b"/infos", name, there))
            except Unsound:
                if self._ours:
                    raise
                self._have.remove(column)  # some other package's info of the same name

    def _group(self, path: bytes, address: int, kind: bytes) -> Group:
        """What a group holds."""
        header = os.pread(self._raw, HEADER_BYTES, address)
        twin = self._names.find(kind, header)
        if twin is not None:
            (linked, numbered), values = twin
            count = len(linked)
            return Group(
                dict(zip(linked, values[:count], strict=True)),
                dict(zip(numbered, values[count:], strict=True)),
            )
        group = hdf5.open_group(self._file, path)
        found = hdf5.links(group)
        links = {name: to for name, to in found.items() if to is not None}
        if len(links) < len(found):  # it could lead anywhere on this machine
            raise Unsound("links", f"{kind.decode()} to hold its data itself", "a soft or external link")
        told = {name: hdf5.attribute(group, name) for name in _NUMBERS}
        numbers = {name: value for name, value in told.items() if value is not None}
        fields = [link_field(header, *link) for link in links.items()]
        fields += [attribute_field(header, *number) for number in numbers.items()]
        self._names.learn(kind, header, fields, (tuple(links), tuple(numbers)))
        return Group(links, numbers)

    def _locate(self, path: bytes, name: str, links: dict[bytes, int]) -> _Located:
        """Shape of a dataset in a group, and how to read it."""
        key = name.encode()
        if key not in links:
            raise Unsound(name, "a dataset", "none")
        header = os.pread(self._raw, HEADER_BYTES, links[key])
        twin = self._shapes.find(key, header)
        if twin is not None:
            return twin[0], twin[1][0]
        kind = np.bool_ if name in ("terminations", "truncations") else np.float32
        try:
            stored = hdf5.open_stored(self._file, path + b"/" + key, kind)
        except ValueError as fault:
            raise Unsound(name, "numbers stored in this file", hdf5.one_line(fault)) from None
        if stored.offset is None:
            return stored.shape, stored
        size = int(np.prod(stored.shape)) * np.dtype(kind).itemsize
        self._shapes.learn(key, header, [data_field(header, stored.offset, size)], stored.shape)
        return stored.shape, stored.offset

    def _fill(self, name: str, column: str, steps: int, located: _Located) -> None:
        """Check a dataset's shape and read it."""
        shape, source = located
        target = self._columns[column]
        rows = steps if column in _STEP else steps + 1
        if shape != (rows, *target.width):
            why = "" if column in _STEP else f" (one row more than the {steps} steps)"
            raise Unsound(name, f"shape {(rows, *target.width)}{why}", f"{shape}")
        self._take(name, target, rows, source)

    def _take(self, name: str, target: Column, rows: int, source: int | hdf5.Stored) -> None:
        """Read the rows of one array of an episode."""
        self._claim(name, rows * target.row_bytes, source)
        array = target.extend(rows)
        if isinstance(source, hdf5.Stored):
            source.read_into(array)
        else:
            self._read_at(name, array, source)

    def _claim(self, name: str, size: int, source: int | hdf5.Stored) -> None:
        """See that an array of so many bytes can lie in the file, beside all others.

        Links to one array from thousands of episodes would have a small file fill any memory.
        """
        if isinstance(source, int) and not 0 <= source <= self._size - size:
            raise Unsound(name, f"{size} bytes at {source}", f"a file of {self._size}")
        self._unclaimed -= size if isinstance(source, int) else source.handle.get_storage_size()
        if self._unclaimed < 0:
            raise Unsound(name, "arrays that share no bytes", f"more in all than the {self._size} bytes of the file")

    def _read_at(self, name: str, array: npt.NDArray[Any], place: int) -> None:
        """Fill an array with the bytes at a place of the file."""
        done = os.preadv(self._raw, [array.data], place)
        while 0 < done < array.nbytes:  # Linux reads no more than 2 GiB at once
            more = os.preadv(self._raw, [array.data.cast("B")[done:]], place + done)
            if more == 0:
                break
            done += more
        if done != array.nbytes:
            raise Unsound(name, f"{array.nbytes} bytes at {place}", f"{done}")

    def _episodes(self) -> Episodes:
        """What was read."""
        arrays: dict[str, Any] = {name: column.finish() for name, column in self._columns.items()}
        for name in _INFOS.values():
            if name not in self._have:
                arrays[name] = None
        return Episodes(
            **arrays,
            lengths=np.array(self._told["length"], np.int64),
            seeds=_all_or_none(self._told["seed"]),
            components=_all_or_none(self._told["component"]),
            numbers=np.array(self._told["number"], np.int64),
        )


_Located = tuple[tuple[int, ...], "int | hdf5.Stored"]


def _all_or_none(values: list[int | None]) -> Ints | None:
    """Numbers that every episode has."""
    known = [value for value in values if value is not None]
    return np.array(known, np.int64) if len(known) == len(values) and known else None
