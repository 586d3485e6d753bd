"""How much of the space of states and actions a dataset visits, and how its channels are distributed.

Schweighofer et al. 2022 (arXiv 2111.04714) define SACo, the state-action coverage, as the number of unique
state-action pairs of a dataset over that of a reference dataset. Continuous pairs are all unique, so here they
are counted on a grid, and the reference is as many uniform pairs: what random actions give in these tasks,
whose states then stay uniform. How many cells n uniform pairs visit is known: K (1 - (1 - 1/K)^n) of K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from smeoffline.sme.arrays import Doubles, Floats, Ints

CHANNEL_BINS = 20  # of one channel
MOST_BINS, FEWEST_BINS = 10, 2  # a channel, of the joint grid
PAIRS_A_CELL = 10  # so many pairs for each cell, where the fewest bins allow it: else all pairs are unique
EXACT_CODES = 2**62  # cells that are numbered; of more, 64-bit hashes are counted
MERGE_CODES = 2**22  # kept unsorted at most: bounds memory by what is visited


@dataclass(frozen=True)
class Coverage:
    """Coverage of a dataset.

    Attributes:
        bins: Of each channel, on the joint grid.
        cells: Of that grid visited by a (state, action).
        expected_cells: Visited by as many uniform pairs, in expectation.
        states: By state channel, the share of a uniform distribution that is covered: the sum over 20 bins of
            min(share of the data, 1/20), in [1/20, 1]; 1 is uniform.
        actions: The same by action channel.
    """

    bins: int
    cells: int
    expected_cells: float
    states: tuple[float, ...]
    actions: tuple[float, ...]

    @property
    def state_action(self) -> float:
        """Visited cells over those of as many uniform pairs: SACo on the grid."""
        return self.cells / self.expected_cells

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {
            "state_action": self.state_action,
            "cells": self.cells,
            "expected_cells": self.expected_cells,
            "bins": self.bins,
            "states": list(self.states),
            "actions": list(self.actions),
        }


class Grid:
    """Counts what a dataset visits, part by part.

    Args:
        low: (d,) lower bound of each channel, state channels first.
        high: (d,) upper bound, above `low`.
        states: How many of them are state channels.
        pairs: (state, action) pairs to come; decides how fine the joint grid is.
    """

    def __init__(self, low: Doubles, high: Doubles, states: int, pairs: int) -> None:
        self._low, self._range, self._states = low, high - low, states
        self.bins = joint_bins(len(low), pairs)
        self.histogram: Ints = np.zeros((len(low), CHANNEL_BINS), np.int64)
        self.pairs = 0
        self._weights = _weights(self.bins, len(low))
        self._codes: list[Any] = []

    def add(self, values: Floats) -> None:
        """Count pairs (n, d); those that are not finite are left out."""
        values = values[np.isfinite(values).all(axis=1)]
        unit = (values - self._low) / self._range
        self.pairs += len(unit)
        channels = np.arange(unit.shape[1]) * CHANNEL_BINS
        bins = (_bin(unit, CHANNEL_BINS) + channels).ravel()
        self.histogram += np.bincount(bins, minlength=self.histogram.size).reshape(self.histogram.shape)
        self._codes.append(np.unique((_bin(unit, self.bins).astype(np.uint64) * self._weights).sum(axis=1)))
        if sum(map(len, self._codes)) > MERGE_CODES:
            self._codes = [self._visited()]

    def _visited(self) -> Any:
        """Codes of all cells seen, each once."""
        return np.unique(np.concatenate(self._codes))

    def coverage(self) -> Coverage | None:
        """What was counted; None where nothing was."""
        if self.pairs == 0:
            return None
        shares = self.histogram / self.pairs
        covered = np.minimum(shares, 1 / CHANNEL_BINS).sum(axis=1)
        return Coverage(
            bins=self.bins,
            cells=len(self._visited()),
            expected_cells=expected_cells(self.bins, len(self._low), self.pairs),
            states=tuple(covered[: self._states].tolist()),
            actions=tuple(covered[self._states :].tolist()),
        )


def joint_bins(channels: int, pairs: int) -> int:
    """Bins a channel of the joint grid: the most, from 2 to 10, that leave ten pairs for each cell."""
    most = FEWEST_BINS
    while most < MOST_BINS and (most + 1) ** channels * PAIRS_A_CELL <= pairs:
        most += 1
    return most


def expected_cells(bins: int, channels: int, pairs: int) -> float:
    """Cells of a grid that uniform pairs visit, in expectation: K (1 - (1 - 1/K)^n)."""
    log_cells = channels * math.log(bins)
    if log_cells > 600:  # K overflows, and no two pairs meet
        return float(pairs)
    cells = math.exp(log_cells)
    return -cells * math.expm1(pairs * math.log1p(-1 / cells)) if cells > 1 else 1.0


def _weights(bins: int, channels: int) -> Any:
    """(d,) uint64: what a cell's bins are multiplied with, so that their sum is its own number or a hash."""
    if bins**channels <= EXACT_CODES:
        return np.array([bins**j for j in range(channels)], np.uint64)
    return np.random.default_rng(0).integers(0, 2**64, channels, dtype=np.uint64)


def _bin(unit: Doubles, bins: int) -> Ints:
    """The bin of each number in [0, 1]; what lies outside is in the nearest."""
    return np.clip(unit * bins, 0, bins - 1).astype(np.int64)
