"""See that a data file holds nothing but sound episodes, without reading their numbers."""

from __future__ import annotations

from smeoffline.data.storage import hdf5
from smeoffline.data.storage.columns import Column
from smeoffline.data.storage.reading import EpisodeReader, Group, Unsound

# All that an episode may hold. Minari reads whatever is among the infos, from wherever it is stored.
_EPISODE = {b"observations", b"actions", b"rewards", b"terminations", b"truncations", b"infos"}
_INFOS = {b"optimal_action", b"log_density"}


class EpisodeScan(EpisodeReader):
    """An `EpisodeReader` that reads no numbers: its result has lengths, seeds and components, and empty arrays.

    Links to elsewhere, data kept outside the file, unknown codings, shapes that don't align, arrays that share
    bytes and objects that no episode has are findings.
    """

    def _group(self, path: bytes, address: int, kind: bytes) -> Group:
        group = super()._group(path, address, kind)
        allowed = _EPISODE if kind == b"episode" else _INFOS
        if not allowed.issuperset(group.links):
            name = min(set(group.links) - allowed).decode(errors="replace")
            raise Unsound("objects", "the arrays of an episode and no other", ascii(name)[:80])
        return group

    def _take(self, name: str, target: Column, rows: int, source: int | hdf5.Stored) -> None:
        self._claim(name, rows * target.row_bytes, source)
