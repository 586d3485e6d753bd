"""Small datasets and settings for the tests of the train room."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data.action_box import ActionBox
from smeoffline.data.storage.store import Dataset
from smeoffline.train.algorithms import ALGORITHMS, Algorithm, Setting, resolve_settings
from smeoffline.train.trainer import Learner, Trainer, setting_defaults
from smeoffline.train.transitions import Transitions

D, A = 6, 3
NAMES = tuple(ALGORITHMS)


def dataset(
    lengths: tuple[int, ...] = (10,) * 20,
    killed: tuple[int, ...] = (1, 4),
    *,
    seed: int = 0,
    observation_dim: int = D,
    action_dim: int = A,
    metadata: dict[str, Any] | None = None,
    **arrays: Any,
) -> Dataset:
    """Episodes of random numbers; those in `killed` terminate, the others are cut; arrays may be replaced."""
    rng = np.random.default_rng(seed)
    n, episodes = sum(lengths), len(lengths)
    last = np.cumsum(lengths) - 1
    terminations, truncations = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    dead = np.isin(np.arange(episodes), killed)
    terminations[last[dead]], truncations[last[~dead]] = True, True
    values: dict[str, Any] = {
        "observations": rng.random((n + episodes, observation_dim), dtype=np.float32),
        "actions": rng.random((n, action_dim), dtype=np.float32),
        "rewards": rng.random(n, dtype=np.float32),
        "terminations": terminations,
        "truncations": truncations,
        "optimal_actions": rng.random((n + episodes, action_dim), dtype=np.float32),
    }
    return Dataset(
        id="sme/small-v0",
        path=Path("sme/small-v0"),
        metadata=metadata if metadata is not None else {},
        provenance={"sha256": f"content of seed {seed}"} if metadata is None else None,
        log_densities=None,
        lengths=np.array(lengths, np.int64),
        seeds=None,
        components=None,
        numbers=np.arange(episodes),
        **{**values, **arrays},
    )


def small_settings(algorithm: Algorithm) -> dict[str, Setting]:
    """Settings that make any algorithm fast, and let the reward reach its policy within a few steps."""
    wanted: dict[str, Setting] = {"batch_size": 8, "hidden_units": (16, 16), "n_action_samples": 4}
    wanted |= {"warmup_steps": 3, "target_update_interval": 2}
    defaults = setting_defaults(algorithm)
    return resolve_settings(algorithm, {k: v for k, v in wanted.items() if k in defaults}, defaults)


def small_trainer(name: str, *, seed: int = 0, data: Dataset | None = None, **settings: Setting) -> Trainer:
    """A trainer of an algorithm of the table on a small dataset."""
    algorithm = ALGORITHMS[name]
    data = data if data is not None else dataset()
    learner = Learner(
        algorithm,
        data.observations.shape[1],
        ActionBox.of(data),
        {**small_settings(algorithm), **settings},
        seed,
    )
    return Trainer(learner, Transitions.from_dataset(data), seed)


def weights(trainer: Trainer) -> dict[str, np.ndarray]:
    """Copies of all weights, by name."""
    return {
        f"{name}.{key}": value.detach().numpy().copy()
        for name, network in trainer.learner.networks.items()
        for key, value in network.state_dict().items()
    }


def same_bits(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> bool:
    """Whether two sets of weights are the same to the last bit."""
    return one.keys() == other.keys() and all(one[k].tobytes() == other[k].tobytes() for k in one)
