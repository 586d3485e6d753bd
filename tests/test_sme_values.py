"""The exact values of the optimum, checked by acting it out."""

from __future__ import annotations

import numpy as np
import pytest

from smeoffline.errors import SpecError
from smeoffline.sme.env import SMEEnv
from smeoffline.sme.episode import shaping_reward
from smeoffline.sme.task import Task
from smeoffline.sme.values import optimal_advantage, optimal_value

DIMS = {"state_dim": 4, "action_dim": 2, "complexity": 3, "seed": 2}


def starts(n: int = 50) -> np.ndarray:
    """(n, 4) uniform states."""
    return np.random.default_rng(0).random((n, 4), dtype=np.float32)


def act_out(sme, states: np.ndarray, steps: int):
    """Follow the optimum.

    Returns:
        Discounted sum of what the steps pay (shaping included), and the states reached.
    """
    task, total = sme.task, np.zeros(len(states))
    for t in range(steps):
        actions = sme.optimal_action(states)
        following = sme.transition(states, actions)
        rewards = sme.reward(sme.score(actions, sme.optimal_action(states))).astype(float)
        killed = rewards < task.kill_threshold
        assert not killed.any()
        total += task.discount**t * (rewards + shaping_reward(sme, states, following, killed))
        states = following
    return total, states


@pytest.mark.parametrize("extra", [{}, {"kill_threshold": 1.0}, {"min_reward": 0.99}, {"discount": 0.0}])
def test_the_value_at_each_time_is_the_return_of_acting_out_the_optimum(extra):
    """V*(s, t) equals the discounted rewards of the optimum over the T - t steps that are left."""
    sme = Task(**DIMS, episode_length=20, **extra).build()
    for t in (0, 1, 7, 19, 20):
        earned, _ = act_out(sme, starts(), 20 - t)
        got = optimal_value(sme, starts(), np.full(50, t))
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, earned, rtol=1e-12, atol=0)


def test_the_value_agrees_with_an_episode_of_the_environment():
    """Acting out the optimum in the env from reset to truncation returns V*(s, 0), and no step kills it."""
    env = SMEEnv(**DIMS, episode_length=15, kill_threshold=1.0, discount=0.9)
    observation, _ = env.reset(seed=0)
    expected = optimal_value(env.sme, observation[np.newaxis, :-2], np.zeros(1, np.int64))[0]
    total, truncated, t = 0.0, False, 0
    while not truncated:
        action = env.sme.optimal_action(observation[np.newaxis, :-2])[0]
        observation, reward, terminated, truncated, _ = env.step(action)
        assert not terminated
        total += 0.9**t * reward
        t += 1
    assert t == 15
    assert total == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("shaping", [0.0, 0.5])
def test_the_bootstrapped_value_is_what_the_steps_pay_plus_the_value_at_the_end(shaping):
    """V*(s_0) = n steps of the optimum + g^n V*(s_n); shaping subtracts L Psi(s) from it."""
    sme = Task(**DIMS, discount=0.9, shaping=shaping).build()
    value = optimal_value(sme, starts())
    for steps in (1, 30):
        earned, reached = act_out(sme, starts(), steps)
        np.testing.assert_allclose(value, earned + 0.9**steps * optimal_value(sme, reached), rtol=0, atol=1e-5)
    np.testing.assert_allclose(value, 10 - shaping * sme.potential(starts()), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shaping", [0.0, 0.5])
def test_the_advantage_is_q_minus_v(shaping):
    """A*(s, a) = r - 1 equals (what the step pays + g V*(s')) - V*(s) for any action, shaped or not."""
    sme = Task(**DIMS, discount=0.9, shaping=shaping).build()
    states = starts()
    actions = np.random.default_rng(1).random((50, 2), dtype=np.float32)
    optimal = sme.optimal_action(states)
    actions[25:] += np.float32(0.8) * (optimal[25:] - actions[25:])  # half near the optimum: they earn
    earned = sme.reward(sme.score(actions, optimal))
    assert 0 < np.mean(earned > 0) < 1
    following = sme.transition(states, actions)
    paid = earned + shaping_reward(sme, states, following, np.zeros(50, np.bool_)).astype(float)
    q = paid + 0.9 * optimal_value(sme, following)
    got = optimal_advantage(sme, states, actions)
    np.testing.assert_allclose(got, q - optimal_value(sme, states), rtol=0, atol=1e-5)
    np.testing.assert_allclose(got, earned - 1.0, rtol=0, atol=1e-7)
    np.testing.assert_array_equal(optimal_advantage(sme, states, optimal), 0)


@pytest.mark.parametrize(
    ("fields", "call", "text"),
    [
        ({"reward_every": 2}, lambda sme: optimal_value(sme, starts(2)), "expected reward_every 1"),
        (
            {"shaping": 0.5},
            lambda sme: optimal_value(sme, starts(2), np.zeros(2, np.int64)),
            "with shaping give no steps",
        ),
        (
            {},
            lambda sme: optimal_value(sme, starts(2), np.array([0, 101])),
            r"steps must be whole numbers in \[0, 100\]",
        ),
        (
            {},
            lambda sme: optimal_value(sme, starts(2), np.array([-1, 0])),
            r"steps must be whole numbers in \[0, 100\]",
        ),
        (
            {"reward_every": 2},
            lambda sme: optimal_advantage(sme, starts(2), np.zeros((2, 2))),
            "expected reward_every 1 and kill_threshold 0, got 2 and 0",
        ),
        (
            {"kill_threshold": 0.1},
            lambda sme: optimal_advantage(sme, starts(2), np.zeros((2, 2))),
            "expected reward_every 1 and kill_threshold 0, got 1 and 0.1",
        ),
    ],
)
def test_values_are_refused_where_they_would_not_be_exact(fields, call, text):
    """Where the closed form does not hold the answer is an error that says why, not a wrong number."""
    with pytest.raises(SpecError, match=text):
        call(Task(**DIMS, **fields).build())


@pytest.mark.parametrize(
    ("states", "steps", "text"),
    [
        (starts(2)[:, :3], None, r"states: expected shape \(B, 4\), got \(2, 3\)"),
        (starts(2), np.zeros(3, np.int64), r"expected steps of shape \(2,\), got \(3,\)"),
        (starts(2), np.zeros((2, 1), np.int64), r"expected steps of shape \(2,\), got \(2, 1\)"),
        (starts(2), np.array([0.5, 1.0]), "whole numbers"),
    ],
    ids=["states", "too many steps", "a column of steps", "half a step"],
)
def test_values_check_what_they_are_given(states, steps, text):
    """States of another width, and steps that are not one whole number a state, are refused."""
    with pytest.raises(ValueError, match=text):
        optimal_value(Task(**DIMS).build(), states, steps)


def test_unsigned_steps_do_not_wrap_around():
    """Steps of an unsigned type give the values of the same numbers."""
    sme = Task(**DIMS, episode_length=20).build()
    signed = optimal_value(sme, starts(2), np.array([3, 20]))
    np.testing.assert_array_equal(optimal_value(sme, starts(2), np.array([3, 20], np.uint8)), signed)
