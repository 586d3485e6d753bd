from __future__ import annotations

import numpy as np
import pytest
from train_data import dataset

from smeoffline.sme.task import Task
from smeoffline.train.run import train


@pytest.mark.timeout(600)
def test_bc_solves_an_easy_task(tmp_path):
    """BC on optimal actions in [0, 1] reaches a score above 0.98, with actions at neither bound (case 9)."""
    task = Task(state_dim=2, action_dim=2, complexity=1, seed=1)
    sme = task.build()
    lengths = (20,) * 200
    rng = np.random.default_rng(0)
    states = rng.random((20 * 200 + 200, 2), dtype=np.float32)
    best = sme.optimal_action(states)
    observations = np.concatenate([states, np.zeros_like(states)], axis=1)  # constant channels (case 12)
    acted = np.delete(best, np.arange(20, len(best), 21), axis=0)
    data = dataset(lengths, killed=(), observation_dim=4, action_dim=2, observations=observations, actions=acted)
    policy = train(data, algo="bc", steps=2500, out=tmp_path).act
    probes = rng.random((2000, 2), dtype=np.float32)
    actions = policy(np.concatenate([probes, np.zeros_like(probes)], axis=1))
    assert sme.score(actions, sme.optimal_action(probes)).mean() > 0.98
    assert ((actions > 0.001) & (actions < 0.999)).mean() > 0.99
