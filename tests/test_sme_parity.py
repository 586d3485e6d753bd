"""The same (N_s, N_a, C, seed) is the same task as in the published package `sme-rl` 0.1.0.

Compared one step at a time: rounding doubles at every step, so whole trajectories part after some 20 steps.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from smeoffline.sme import network
from smeoffline.sme.env import SMEEnv
from smeoffline.sme.task import Task

ATOL = 1e-4
REFERENCE = Path(__file__).parent / "data" / "sme_rl_0.1.0.npz"
TASKS = (
    "s1a1c3seed2",
    "s2a1c1seed0",
    "s2a2c5seed7",
    "s4a2c10seed3",
    "s8a4c1seed1",
    "s8a4c10seed1",
    "s8a4c50seed1",
)
# Inferred from the arrays (data/README.md says how); the last test of this file checks them.
SETTINGS = {
    "plain": {},
    "every5": {"reward_every": 5},
    "min": {"min_reward": 0.5},
    "kill": {"kill_threshold": 0.65},
    "every5kill": {"reward_every": 5, "kill_threshold": 0.65},
}
STATIC = ("states", "actions", "optimal_actions", "next_states", "ood_states", "ood_optimal_actions")
ROLLOUT = ("observations", "actions", "rewards", "terminations", "truncations")


@pytest.fixture(scope="module")
def golden():
    """All arrays of the reference file."""
    with np.load(REFERENCE, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def spec(name: str) -> dict[str, int]:
    """The fields that a task's name in the reference stands for."""
    numbers = re.fullmatch(r"s(\d+)a(\d+)c(\d+)seed(\d+)", name).groups()
    return dict(zip(("state_dim", "action_dim", "complexity", "seed"), map(int, numbers), strict=True))


def close(got, expected) -> None:
    """Equal shapes, and values within the tolerance of the parity requirement."""
    np.testing.assert_allclose(got, expected, rtol=0, atol=ATOL, strict=True)


def test_the_tests_of_this_file_compare_every_array(golden):
    """Every array of the reference is named by the tables above, and every name in them is there."""
    rollouts = [f"rollout_{setting}_{part}" for setting in SETTINGS for part in ROLLOUT]
    assert set(golden) == {f"{task}/{array}" for task in TASKS for array in (*STATIC, *rollouts)}


@pytest.mark.parametrize("name", TASKS)
def test_optimal_actions_and_transitions(name, golden):
    """Optimal actions in and out of the cube and next states agree with the published ones."""
    sme = Task(**spec(name)).build()
    close(sme.optimal_action(golden[f"{name}/states"]), golden[f"{name}/optimal_actions"])
    close(sme.optimal_action(golden[f"{name}/ood_states"]), golden[f"{name}/ood_optimal_actions"])
    close(sme.transition(golden[f"{name}/states"], golden[f"{name}/actions"]), golden[f"{name}/next_states"])


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("name", TASKS)
def test_rollouts_step_by_step(name, setting, golden):
    """From each stored observation and action the env gives the stored next one, reward and flags."""
    observations, actions, rewards, terminations, truncations = (
        golden[f"{name}/rollout_{setting}_{part}"] for part in ROLLOUT
    )
    env = SMEEnv(**spec(name), episode_length=12, **SETTINGS[setting])
    env.reset(seed=0)
    for t, action in enumerate(actions):
        # The state is set to the stored one; what was accrued, and the time, are the env's own account.
        env._state = np.ascontiguousarray(observations[t : t + 1, :-2])
        observation, reward, terminated, truncated, _ = env.step(action)
        close(observation, observations[t + 1])
        assert reward == pytest.approx(rewards[t], rel=0, abs=ATOL)
        assert (terminated, truncated) == (terminations[t], truncations[t])


@pytest.mark.parametrize("name", TASKS)
def test_the_draws_are_the_published_ones_in_the_published_order(name, golden):
    """W, b and every layer are what torch's generator gives in the published order; the signs come after."""
    task = Task(**spec(name))
    sme = task.build()
    torch_stream = torch.Generator().manual_seed(task.seed)
    initial = torch.rand((1, task.state_dim), generator=torch_stream)
    weights = torch.rand((task.action_dim, task.state_dim), generator=torch_stream)
    bias = torch.rand(task.state_dim, generator=torch_stream)
    np.testing.assert_array_equal(sme.initial_state, initial[0].numpy())
    np.testing.assert_array_equal(sme.weights, (weights / weights.sum(dim=1, keepdim=True)).numpy())
    np.testing.assert_array_equal(sme.bias, bias.numpy())
    widths = [task.state_dim] + [128] * (task.complexity - 1) + [task.action_dim]
    assert len(sme.network.layers) == task.complexity
    for layer, columns, rows in zip(sme.network.layers, widths[:-1], widths[1:], strict=True):
        drawn = torch.nn.init.orthogonal_(torch.empty(rows, columns), generator=torch_stream)
        # Ours is drawn on one thread; the last bits of a QR differ between thread counts.
        np.testing.assert_allclose(layer.numpy(), (drawn * np.sqrt(12)).numpy(), rtol=0, atol=2e-5)
    # What the published package draws next is the first observation of its rollouts; ours are the signs.
    next_draw = torch.rand(task.state_dim, generator=torch_stream).numpy()
    np.testing.assert_array_equal(next_draw, golden[f"{name}/rollout_plain_observations"][0, :-2])
    np.testing.assert_array_equal(sme.signs, np.where(next_draw < 0.5, -1, 1))


@pytest.mark.parametrize("name", TASKS)
def test_the_shaping_signs_leave_the_task_as_it_was(name):
    """A shaped task has the weights of the unshaped one, and both have the same signs."""
    plain, shaped = Task(**spec(name)).build(), Task(**spec(name), shaping=0.5).build()
    np.testing.assert_array_equal(plain.weights, shaped.weights)
    np.testing.assert_array_equal(plain.bias, shaped.bias)
    np.testing.assert_array_equal(plain.signs, shaped.signs)
    for a, b in zip(plain.network.layers, shaped.network.layers, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert set(np.unique(plain.signs)) <= {-1.0, 1.0}


def test_signs_are_fair():
    """Over many seeds the signs are -1 about as often as 1."""
    signs = np.concatenate([Task(state_dim=8, seed=seed).build().signs for seed in range(100)])
    assert abs(signs.mean()) < 4 / np.sqrt(len(signs))


@pytest.mark.parametrize(
    ("dims", "shapes"),
    [
        ((8, 4, 1), [(4, 8)]),
        ((8, 4, 3), [(128, 8), (128, 128), (4, 128)]),
        ((200, 4, 2), [(200, 200), (4, 200)]),
        ((3, 300, 3), [(300, 3), (300, 300), (300, 300)]),
    ],
)
def test_hidden_width_is_the_largest_of_the_dimensions_and_128(dims, shapes):
    """Layers have the published shapes, also where a dimension exceeds 128."""
    assert network.layer_shapes(*dims) == shapes


def test_the_inferred_settings_lie_within_what_the_data_allow(golden):
    """The bounds that data/README.md gives for k, min_reward and D follow from the arrays."""
    killed: dict[str, list[float]] = {"kill": [], "every5kill": []}
    kept: dict[str, list[float]] = {"kill": [], "every5kill": []}
    unpaid, paid = [], []
    for name in TASKS:
        sme = Task(**spec(name)).build()
        for setting in SETTINGS:
            observations, actions, rewards, terminations, _ = (
                golden[f"{name}/rollout_{setting}_{part}"] for part in ROLLOUT
            )
            states = observations[:-1, :-2]
            earned = sme.reward(sme.score(actions, sme.optimal_action(states)))
            if setting in killed:
                killed[setting] += list(earned[terminations])
                kept[setting] += list(earned[~terminations])
            if setting == "min":
                unpaid += list(earned[rewards == 0])
                paid += list(earned[rewards > 0])
            if setting == "every5":
                assert np.flatnonzero(rewards).tolist() == [4, 9, 11]
    for setting, low, high in (("kill", 0.6146, 0.6587), ("every5kill", 0.6338, 0.6511)):
        assert max(killed[setting]) == pytest.approx(low, abs=1e-4)
        assert min(kept[setting]) == pytest.approx(high, abs=1e-4)
        assert max(killed[setting]) < SETTINGS[setting]["kill_threshold"] <= min(kept[setting])
    assert max(unpaid) == pytest.approx(0.4576, abs=1e-4)
    assert min(paid) == pytest.approx(0.5003, abs=1e-4)
    assert max(unpaid) <= SETTINGS["min"]["min_reward"] < min(paid)
