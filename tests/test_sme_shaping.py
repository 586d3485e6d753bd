"""Shaping is potential-based, so it changes what each step pays and never what is best."""

from __future__ import annotations

import numpy as np
import pytest

from smeoffline.sme.env import SMEEnv
from smeoffline.sme.episode import shaping_reward
from smeoffline.sme.task import Task


def test_the_potential_is_the_signed_sum_of_cosines():
    """Psi(s) = sum_j sign_j cos(pi s_j), at the corners, the center and anywhere else."""
    sme = Task(state_dim=3, action_dim=1, seed=2).build()
    assert set(sme.signs.tolist()) == {-1.0, 1.0}  # both occur in this task
    states = np.float32([[0, 0, 0], [1, 1, 1], [0.5, 0.5, 0.5], [0.1, 0.7, 0.4]])
    expected = (np.cos(np.pi * states.astype(np.float64)) * sme.signs).sum(axis=1)
    np.testing.assert_allclose(sme.potential(states), expected, rtol=0, atol=1e-6)
    assert sme.potential(states).dtype == np.float32


def test_shaping_reward_and_its_terminal_case():
    """L (g Psi(s') - Psi(s)), and -L Psi(s) where s' is terminal."""
    sme = Task(state_dim=2, action_dim=1, shaping=0.5, discount=0.9).build()
    states = np.float32([[0.2, 0.3], [0.2, 0.3]])
    following = np.float32([[0.9, 0.4], [0.9, 0.4]])
    before, after = sme.potential(states).astype(float), sme.potential(following).astype(float)
    got = shaping_reward(sme, states, following, np.array([False, True]))
    expected = [0.5 * (0.9 * after[0] - before[0]), 0.5 * (0.0 - before[1])]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def twin_episodes(fields: dict[str, float], noise: float, seed: int):
    """One episode acted twice, unshaped and shaped, with the same actions from the same start.

    Returns:
        The two lists of rewards, the states visited (steps + 1), whether the last step killed the episode.
    """
    shaped_env, plain_env = SMEEnv(**fields), SMEEnv(**{**fields, "shaping": 0.0})
    rng = np.random.default_rng(seed)
    observation, _ = plain_env.reset(seed=seed)
    np.testing.assert_array_equal(observation, shaped_env.reset(seed=seed)[0])
    states, plain, shaped, over = [observation[:-2]], [], [], False
    while not over:
        optimal = plain_env.sme.optimal_action(observation[np.newaxis, :-2])[0]
        action = np.clip(optimal + noise * rng.standard_normal(optimal.shape), 0, 1).astype(np.float32)
        observation, reward, terminated, truncated, _ = plain_env.step(action)
        same, shaped_reward, *flags, _ = shaped_env.step(action)
        np.testing.assert_array_equal(observation, same)
        assert flags == [terminated, truncated]
        states.append(observation[:-2])
        plain.append(reward)
        shaped.append(shaped_reward)
        over = terminated or truncated
    return plain, shaped, np.array(states), terminated


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("reward_every", [1, 5])
def test_the_discounted_shaping_telescopes(reward_every, killed):
    """Over n steps it sums to L (g^n Psi(s_n) - Psi(s_0)), for every n and k; Psi is 0 after a kill."""
    fields = {
        "state_dim": 4,
        "action_dim": 2,
        "episode_length": 23,
        "reward_every": reward_every,
        "kill_threshold": 0.7 if killed else 0.0,
        "shaping": 0.5,
        "discount": 0.9,
    }
    ends = []
    for seed in range(5):
        plain, shaped, states, was_killed = twin_episodes(fields, noise=0.1, seed=seed)
        ends.append(was_killed)
        potentials = Task(**fields).build().potential(states).astype(float)
        if was_killed:
            potentials[-1] = 0.0
        sums = np.cumsum(0.9 ** np.arange(len(plain)) * (np.array(shaped) - np.array(plain)))
        n = np.arange(1, len(plain) + 1)
        np.testing.assert_allclose(sums, 0.5 * (0.9**n * potentials[1:] - potentials[0]), rtol=0, atol=1e-5)
    assert any(ends) == killed  # the case under test did occur


def small_case(kill_threshold: float):
    """A one-channel task on a grid of states: the optimum and 20 other actions in each.

    Returns:
        Next state (S, A) as an index into the grid, plain and shaped rewards (S, A), terminal (S, A),
        potentials (S,). Action 0 is the optimum.
    """
    sme = Task(state_dim=1, action_dim=1, shaping=2.0, discount=0.9, kill_threshold=kill_threshold, seed=3).build()
    grid = np.linspace(0, 1, 101, dtype=np.float32)[:, np.newaxis]
    optimal = sme.optimal_action(grid)
    others = np.linspace(0, 1, 20, dtype=np.float32)
    actions = np.concatenate([optimal, np.repeat(others[np.newaxis], len(grid), axis=0)], axis=1)
    shape = actions.shape
    flat = actions.reshape(-1, 1)
    states = np.repeat(grid, shape[1], axis=0)
    rewards = sme.reward(sme.score(flat, np.repeat(optimal, shape[1], axis=0)))
    following = np.rint(sme.transition(states, flat)[:, 0] * 100).astype(int)
    terminal = rewards < np.float32(kill_threshold)
    shaping = shaping_reward(sme, states, grid[following], terminal)
    return (
        following.reshape(shape),
        rewards.reshape(shape).astype(float),
        (rewards + shaping).reshape(shape).astype(float),
        terminal.reshape(shape),
        sme.potential(grid).astype(float),
    )


def action_values(following, rewards, terminal, discount: float):
    """Q* of a deterministic finite task by value iteration."""
    values = np.zeros(len(rewards))
    for _ in range(400):
        q = rewards + discount * np.where(terminal, 0.0, values[following])
        values = q.max(axis=1)
    return q


@pytest.mark.parametrize("kill_threshold", [0.0, 0.8])
def test_value_iteration_finds_the_same_optimum_with_and_without_shaping(kill_threshold):
    """On a grid Q* shifts by -L Psi(s) and the optimum stays best, while greed on reward alone misses it."""
    following, plain, shaped, terminal, potentials = small_case(kill_threshold)
    q_plain = action_values(following, plain, terminal, 0.9)
    q_shaped = action_values(following, shaped, terminal, 0.9)
    np.testing.assert_allclose(q_shaped, q_plain - 2.0 * potentials[:, np.newaxis], rtol=0, atol=1e-4)
    for q in (q_plain, q_shaped):
        np.testing.assert_allclose(q[:, 0], q.max(axis=1), rtol=0, atol=1e-4)
    np.testing.assert_allclose(q_plain.max(axis=1), 10.0, rtol=0, atol=1e-6)
    greedy = shaped.argmax(axis=1)
    assert np.mean(greedy != 0) > 0.5
    regret = q_shaped.max(axis=1) - q_shaped[np.arange(len(greedy)), greedy]
    assert np.mean(regret) > 0.1
