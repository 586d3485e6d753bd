"""Everything that touches h5py: Minari's layout written, and its objects opened, at the low level.

    episode_<i>             attributes id, seed, total_steps, and component where several behaviors act
      observations          (T+1, D) float32    actions        (T, A) float32    rewards (T,) float32
      terminations          (T,) bool           truncations    (T,) bool
      infos/optimal_action  (T+1, A) float32    infos/log_density (T+1,) float32, where it is known

Datasets are contiguous: they load, sample, filter, split, combine and delete in Minari. What fails there
is `update_episodes` with the id of an existing episode, which extends chunked datasets in place.
No times are stored: the same content gives the same bytes.
"""

from __future__ import annotations

import itertools
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from h5py import h5a, h5d, h5f, h5g, h5l, h5o, h5p, h5s, h5t, h5z

from smeoffline.data.storage.episodes import EpisodeBlock
from smeoffline.errors import DatasetError

# What h5py raises when HDF5 or the file fails; its own mistakes in calling look the same.
FAILURES = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)

_META_BLOCK = 2**16  # metadata is written in pieces of this size: 10% faster than in HDF5's 2 kB
_CACHE_BYTES = 2**20  # of metadata kept in memory, fixed: it neither grows with the episodes nor slows them
_TEMPLATE_BYTES = 2**25  # of templates kept (one per episode length) before they are made anew
_FILE_NUMBERS = itertools.count()  # HDF5 takes two files in memory of one name for the same file
_FLOAT = h5t.py_create(np.dtype(np.float32))
_BOOL = h5t.py_create(np.dtype(np.bool_))  # the enum by which h5py, and so Minari, stores a numpy bool
_INT = h5t.py_create(np.dtype(np.int64))
_MAX_DEFLATE = 1100  # what deflate can expand a byte to, at most: bounds what a small file may claim to hold
# Filters that are built in; any other would have HDF5 load code from outside.
_FILTERS = {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32, h5z.FILTER_LZF}


def _memory_type(array: npt.NDArray[Any]) -> Any:
    """The HDF5 type of the arrays that we store."""
    return _BOOL if array.dtype == np.bool_ else _FLOAT


def _untimed(kind: Any) -> Any:
    """A creation property list that stores no time."""
    created = h5p.create(kind)
    created.set_obj_track_times(False)
    return created


def _access() -> Any:
    """Access properties: closing a file closes all that is open in it, and so gives up its lock."""
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    # One fixed version for both bounds: what any HDF5 since 1.8 can read, whatever version writes it.
    access.set_libver_bounds(h5f.LIBVER_V18, h5f.LIBVER_V18)
    return access


def episode_arrays(block: EpisodeBlock, i: int) -> dict[bytes, npt.NDArray[Any]]:
    """The valid part of each array of one episode, by its path in the file, in the order of writing."""
    steps = int(block.lengths[i])
    arrays: dict[bytes, npt.NDArray[Any]] = {
        b"observations": block.observations[i, : steps + 1],
        b"actions": block.actions[i, :steps],
        b"rewards": block.rewards[i, :steps],
        b"terminations": block.terminations[i, :steps],
        b"truncations": block.truncations[i, :steps],
        b"infos/optimal_action": block.optimal_actions[i, : steps + 1],
    }
    if block.log_densities is not None:
        arrays[b"infos/log_density"] = block.log_densities[i, : steps + 1]
    return arrays


class _Templates:
    """Episodes kept open in a small file in memory, one per set of shapes.

    Creating an object costs more than its bytes. Filling a template and copying it with all its objects in
    one call is twice as fast as creating each object of each episode.
    """

    def __init__(self, attributes: tuple[bytes, ...]) -> None:
        self._attributes = attributes
        self._known: dict[tuple[tuple[int, ...], ...], tuple[bytes, list[Any], list[Any]]] = {}
        access = _access()
        access.set_fapl_core(2**16, False)
        self._file = h5f.create(b"templates-%d" % next(_FILE_NUMBERS), h5f.ACC_TRUNC, fapl=access)
        self._bytes = 0
        self._number = np.zeros((), np.int64)

    @property
    def full(self) -> bool:
        """Whether the memory that templates may take is used up."""
        return self._bytes > _TEMPLATE_BYTES

    def copy(self, arrays: dict[bytes, npt.NDArray[Any]], numbers: list[int], to: Any, name: bytes) -> None:
        """Fill the template of these shapes and copy it into another file."""
        key = tuple(array.shape for array in arrays.values())
        if key not in self._known:
            self._known[key] = self._make(arrays)
        template, attributes, datasets = self._known[key]
        for attribute, number in zip(attributes, numbers, strict=True):
            self._number[()] = number
            attribute.write(self._number, _INT)
        for dataset, array in zip(datasets, arrays.values(), strict=True):
            dataset.write(h5s.ALL, h5s.ALL, array, _memory_type(array))
        h5o.copy(self._file, template, to, name)

    def _make(self, arrays: dict[bytes, npt.NDArray[Any]]) -> tuple[bytes, list[Any], list[Any]]:
        """Create the objects of one episode; returns its name and what to fill."""
        name, untimed = b"%d" % len(self._known), _untimed(h5p.GROUP_CREATE)
        group, scalar = h5g.create(self._file, name, gcpl=untimed), h5s.create(h5s.SCALAR)
        attributes = [h5a.create(group, attribute, _INT, scalar) for attribute in self._attributes]
        h5g.create(group, b"infos", gcpl=untimed)
        created = _untimed(h5p.DATASET_CREATE)
        created.set_layout(h5d.CONTIGUOUS)
        created.set_alloc_time(h5d.ALLOC_TIME_EARLY)
        created.set_fill_time(h5d.FILL_TIME_NEVER)
        datasets = [
            h5d.create(group, path, _memory_type(array), h5s.create_simple(array.shape), created)
            for path, array in arrays.items()
        ]
        self._bytes += sum(array.nbytes for array in arrays.values())
        return name, attributes, datasets

    def close(self) -> None:
        self._file.close()


class EpisodeWriter:
    """A new HDF5 file that episodes are appended to.

    Args:
        path: The file; it must not exist.
        components: Whether to store which behavior acted.

    Attributes:
        path: As given.
        episodes: How many were appended.

    Raises:
        OSError, RuntimeError: HDF5 can't write, here and in the methods.
    """

    def __init__(self, path: Path, *, components: bool) -> None:
        self.path = path
        self._attributes = (b"id", b"seed", b"total_steps", *((b"component",) if components else ()))
        access = _access()
        access.set_meta_block_size(_META_BLOCK)
        cache = access.get_mdc_config()
        cache.set_initial_size, cache.initial_size, cache.min_size = True, _CACHE_BYTES, _CACHE_BYTES
        cache.incr_mode = cache.decr_mode = cache.flash_incr_mode = 0
        access.set_mdc_config(cache)
        self._file = h5f.create(os.fsencode(path), h5f.ACC_EXCL, fcpl=_untimed(h5p.FILE_CREATE), fapl=access)
        self._templates = _Templates(self._attributes)
        self.episodes = 0

    def append(self, block: EpisodeBlock) -> None:
        """Write the episodes of a block after those already written."""
        for i in range(len(block)):
            if self._templates.full:
                self._templates.close()
                self._templates = _Templates(self._attributes)
            arrays = episode_arrays(block, i)
            numbers = [self.episodes, int(block.seeds[i]), int(block.lengths[i]), int(block.components[i])]
            name = b"episode_%d" % self.episodes
            self._templates.copy(arrays, numbers[: len(self._attributes)], self._file, name)
            self.episodes += 1

    def close(self) -> None:
        """Write what is still in memory and close; safe to call again."""
        self._templates.close()
        self._file.close()


@dataclass(frozen=True)
class Stored:
    """A dataset in a file, checked to be something that can be read safely.

    Attributes:
        shape: Its shape.
        offset: Where its bytes lie in the file, if they lie there just as in memory; else None.
        handle: The open h5py object.
    """

    shape: tuple[int, ...]
    offset: int | None
    handle: Any

    def read_into(self, array: npt.NDArray[Any]) -> None:
        """Read all of it, converted to the array's type (float64 to float32).

        Args:
            array: C-contiguous, of this shape.
        """
        self.handle.read(h5s.ALL, h5s.ALL, array, _memory_type(array))


def open_file(path: Path) -> Any:
    """Open a file for reading.

    Raises:
        DatasetError: It is missing, no HDF5 file, cut off, or being written.
    """
    access = h5p.create(h5p.FILE_ACCESS)
    access.set_fclose_degree(h5f.CLOSE_STRONG)
    try:
        return h5f.open(os.fsencode(path), h5f.ACC_RDONLY, fapl=access)
    except FAILURES as fault:
        raise unreadable(path, fault) from None


def unreadable(path: Path, fault: Exception) -> DatasetError:
    """What HDF5 says to a reading, in one line, with what to do."""
    text, again = one_line(fault), "copy it again, or generate the dataset again"
    if not path.is_file():
        reason = "no such file; generate the dataset again"
    elif "unable to lock file" in text:
        reason = "another process is writing it; wait until that has finished"
    elif "truncated file" in text:
        reason = f"it is cut off; {again}"
    else:
        inner = re.search(r"\(([^()]*)\)?", text)  # HDF5 gives the deepest reason in parentheses
        reason = f"{inner[1] if inner else text}; {again}"
    return DatasetError(f"{path}: cannot be read as HDF5: {reason}")


def one_line(fault: Exception) -> str:
    """An exception's text without its line breaks."""
    return " ".join(str(fault).split())


def links(group: Any) -> dict[bytes, int | None]:
    """The links in a group or file: the address of each object's header, None for a link to elsewhere."""
    found: dict[bytes, int | None] = {}

    def note(name: bytes, info: Any) -> None:
        found[name] = info.u if info.type == h5l.TYPE_HARD else None

    group.links.iterate(note, info=True)
    return found


def root_links(file: Any, path: Path) -> dict[bytes, int | None]:
    """The links in the root of a file; its path is for the message.

    Raises:
        DatasetError: The file is damaged there.
    """
    try:
        return links(file)
    except FAILURES as fault:
        raise unreadable(path, fault) from None


open_group = h5g.open


def attribute(group: Any, name: bytes) -> int | None:
    """A whole number kept in an attribute, or None where there is none."""
    if not h5a.exists(group, name):
        return None
    number = np.zeros((), np.int64)
    h5a.open(group, name).read(number, _INT)
    return int(number)


def open_stored(group: Any, name: bytes, kind: type[np.generic]) -> Stored:
    """Open a dataset and check that reading it is safe.

    Args:
        group: Where it is.
        name: Its name there.
        kind: np.float32 or np.bool_, what it will be read as.

    Raises:
        ValueError: It isn't: told as what it is.
    """
    handle = h5d.open(group, name)
    created, stored_type = handle.get_create_plist(), handle.get_type()
    filters = {created.get_filter(i)[0] for i in range(created.get_nfilters())}
    if created.get_layout() not in (h5d.CONTIGUOUS, h5d.CHUNKED, h5d.COMPACT) or created.get_external_count():
        raise ValueError("data kept outside the file")
    if filters - _FILTERS:
        raise ValueError(f"data coded by a filter that is not built in (number {max(filters - _FILTERS)})")
    numeric = (h5t.FLOAT, h5t.INTEGER)
    if kind is np.bool_ and not stored_type.equal(_BOOL):
        raise ValueError("values that are not booleans")
    if kind is np.float32 and stored_type.get_class() not in numeric:
        raise ValueError("values that are not numbers")
    claimed = handle.get_space().get_simple_extent_npoints() * stored_type.get_size()
    if claimed > handle.get_storage_size() * (_MAX_DEFLATE if filters else 1):
        raise ValueError(f"{handle.get_storage_size()} stored bytes for {claimed}")
    plain = stored_type.equal(_BOOL if kind is np.bool_ else _FLOAT)
    return Stored(handle.shape, handle.get_offset() if plain and not filters else None, handle)
