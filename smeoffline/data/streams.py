"""Where every random number of a dataset comes from.

A dataset's seed spawns one stream per purpose. An episode's stream is that of its episode seed, which is
what Gymnasium would use: `env.reset(seed=episode_seed)` gives the episode's first state.
"""

from __future__ import annotations

import numpy as np

from smeoffline.sme.arrays import Ints

_EPISODES, _COMPONENT, _FRESH = 0, 1, 2


def _child(seed: int, *path: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=path)))


def episode_seeds(seed: int, episodes: int) -> Ints:
    """(episodes,) int64 in [0, 2^63); the first n are the same for any number of episodes >= n."""
    return _child(seed, _EPISODES).integers(0, 2**63, size=episodes, dtype=np.int64)


def fresh_seeds(seed: int, episodes: int) -> Ints:
    """(episodes,) int64 seeds for evaluation: not those of a dataset of the same seed."""
    return _child(seed, _FRESH).integers(0, 2**63, size=episodes, dtype=np.int64)


def episode_stream(episode_seed: int) -> np.random.Generator:
    """The stream that draws one episode: its initial state, then its behavior, then its noise."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(episode_seed)))


def component_stream(seed: int, component: int) -> np.random.Generator:
    """The stream that draws, once per dataset, the systematic error of one behavior of a recipe."""
    return _child(seed, _COMPONENT, component)
