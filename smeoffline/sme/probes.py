"""Probe states: where scores are taken.

Within-distribution probes are uniform in the cube. Out-of-distribution probes lie at distance d from it,
d ~ U(0, 1], on the shell of the cube grown by d. Drawn from a seed, never mixed, d kept. The
optimum outside the cube is the network's own extrapolation: a diagnostic, not a ranking.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smeoffline.sme.arrays import Floats

DEFAULT_PROBES = 10_000
DEFAULT_SEED = 0
GRID = 2**23
_WITHIN, _OUT = 100, 101  # not the streams of a dataset of the same seed


@dataclass(frozen=True)
class Shell:
    """Out-of-distribution probes.

    Attributes:
        states: (n, N_s) float32 in [-1, 2].
        distances: (n,) float32 in (0, 1], each state's distance from the cube (in the largest channel).
    """

    states: Floats
    distances: Floats


def _stream(seed: int, kind: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(kind,))))


def within(state_dim: int, n: int = DEFAULT_PROBES, seed: int = DEFAULT_SEED) -> Floats:
    """(n, N_s) float32 states, uniform in the cube."""
    return _stream(seed, _WITHIN).random((n, state_dim), dtype=np.float32)


def out_of_distribution(state_dim: int, n: int = DEFAULT_PROBES, seed: int = DEFAULT_SEED) -> Shell:
    """States on shells around the cube: one random channel at -d or 1+d, the others uniform in [-d, 1+d]."""
    stream = _stream(seed, _OUT)
    # In (0, 1], in steps of float32's resolution at 1: 1 + d and 1 + 2d are exact, so no state lies beyond.
    distances = (stream.integers(1, GRID, size=n, endpoint=True) / GRID).astype(np.float32)
    wide = distances[:, np.newaxis]
    states = stream.random((n, state_dim), dtype=np.float32) * (1 + 2 * wide) - wide
    channel = stream.integers(0, state_dim, size=n)
    above = stream.integers(0, 2, size=n).astype(np.bool_)
    states[np.arange(n), channel] = np.where(above, 1 + distances, -distances)
    return Shell(states, distances)
