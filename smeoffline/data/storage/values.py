"""Numbers that no learner survives: NaN, infinity, and absurdly large ones."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from smeoffline.data.storage.episodes import Episodes
from smeoffline.data.storage.findings import Finding
from smeoffline.sme.arrays import Floats, Ints

LIMIT = 1e6  # an observation, action or reward beyond this is a mistake in any task worth learning
_DENSITY_LIMIT = 1e12  # of a log-density: at the largest nu and sigma, 1024 channels of probit come to 1e11
_ROWS = 2**18  # looked at together when the whole is not sound


def out_of_range(episodes: Episodes) -> Iterator[Finding]:
    """The first such number of each array of each episode."""
    lengths = episodes.lengths
    for name in ("observations", "actions", "rewards", "optimal_actions", "log_densities"):
        values = getattr(episodes, name)
        limit = _DENSITY_LIMIT if name == "log_densities" else LIMIT
        if values is None or values.size == 0 or _sound(values, limit):
            continue
        rows = lengths if name in ("actions", "rewards") else lengths + 1
        yield from _faults(name, values.reshape(len(values), -1), limit, rows, episodes.numbers)


def _sound(values: Floats, limit: float) -> bool:
    """Whether all numbers are within the limit; NaN compares false, and min and max pass it on."""
    return bool(values.min() >= -limit and values.max() <= limit)


def _faults(name: str, values: Floats, limit: float, rows: Ints, numbers: Ints) -> Iterator[Finding]:
    """The first bad row of each episode; `rows` are those that each episode has."""
    starts = np.cumsum(rows) - rows
    seen = -1
    for begin in range(0, len(values), _ROWS):
        part = values[begin : begin + _ROWS]
        for row in np.flatnonzero(~(np.abs(part) <= limit).all(axis=1)):
            episode = int(np.searchsorted(starts, begin + row, side="right")) - 1
            if episode == seen:
                continue
            seen = episode
            bad = part[row][~(np.abs(part[row]) <= limit)][0]
            step = int(begin + row - starts[episode])
            yield Finding(name, int(numbers[episode]), step, f"finite numbers, at most {limit:g} in size", f"{bad:g}")
