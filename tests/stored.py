"""Small datasets for the tests of the store: random blocks, and a shorthand to write them."""

from __future__ import annotations

import numpy as np
from gymnasium.envs.registration import EnvSpec

from smeoffline.data.storage import store
from smeoffline.data.storage.episodes import EpisodeBlock

OBSERVATION_DIM, ACTION_DIM = 5, 2
ID = "sme/mine-v0"
SPEC = EnvSpec("CartPole-v1", entry_point="gymnasium.envs.classic_control:CartPoleEnv").to_json()


def block(lengths, *, widths=(OBSERVATION_DIM, ACTION_DIM), steps=None, densities=False, seed=0):
    """Random episodes of these lengths, padded to `steps` with NaN that must never be stored."""
    rng = np.random.default_rng(seed)
    lengths = np.asarray(lengths, np.int64)
    n, steps = len(lengths), int(lengths.max()) if steps is None else steps

    def floats(rows, *width):
        array = rng.random((n, rows, *width), dtype=np.float32)
        array[np.arange(rows) >= lengths[:, np.newaxis] + (rows - steps)] = np.nan
        return array

    last = np.arange(steps) == lengths[:, np.newaxis] - 1
    killed = rng.random(n) < 0.5
    log_densities = floats(steps + 1) if densities else None
    return EpisodeBlock.of(
        observations=floats(steps + 1, widths[0]),
        actions=floats(steps, widths[1]),
        rewards=floats(steps),
        terminations=last & killed[:, np.newaxis],
        truncations=last & ~killed[:, np.newaxis],
        optimal_actions=floats(steps + 1, widths[1]),
        log_densities=log_densities,
        lengths=lengths,
        seeds=rng.integers(0, 2**63, n, dtype=np.int64),
        components=rng.integers(0, 3, n),
    )


def write(*blocks, dataset_id=ID, widths=(OBSERVATION_DIM, ACTION_DIM), more=None, **options):
    """Write blocks as one dataset; returns its folder."""
    with store.create(
        dataset_id, observation_dim=widths[0], action_dim=widths[1], env_spec_json=SPEC, **options
    ) as writer:
        for one in blocks:
            writer.write(one)
        return writer.commit({} if more is None else more)


def flat(blocks, name):
    """What `read` must give for an array of blocks: the valid rows of all episodes, one after the other."""
    extra = 1 if name in ("observations", "optimal_actions", "log_densities") else 0
    return np.concatenate([getattr(b, name)[i, : b.lengths[i] + extra] for b in blocks for i in range(len(b))])


def data_file(folder):
    """The HDF5 file of a dataset's folder."""
    return folder / "data" / "main_data.hdf5"


def same_bits(a, b):
    """Equal in type, shape and every bit (so that -0.0 is not 0.0)."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
