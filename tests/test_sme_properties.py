"""What the model must hold whatever the task: ranges, uniform states, and the optimum's reward."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from smeoffline.sme.env import SMEEnv
from smeoffline.sme.model import Sme, step_reward, triangle
from smeoffline.sme.task import Task

SMALL = Task(state_dim=3, action_dim=2, complexity=2, seed=5).build()
DIMS = [(8, 4, 1), (8, 4, 50), (1, 1, 1), (2, 5, 3), (6, 1, 10)]


def float32s(low: float, high: float) -> st.SearchStrategy[float]:
    """Float32 values of [low, high], both ends included."""
    return st.floats(low, high, width=32)


def rows(width: int, low: float, high: float, count: int = 4) -> st.SearchStrategy[np.ndarray]:
    """Arrays (count, width) of float32 in [low, high]."""
    return hnp.arrays(np.float32, (count, width), elements=float32s(low, high))


def built(dims: tuple[int, int, int], **fields: float) -> Sme:
    """A task of (N_s, N_a, C), built."""
    return Task(state_dim=dims[0], action_dim=dims[1], complexity=dims[2], **fields).build()


def uniform(seed: int, *shape: int) -> np.ndarray:
    """Float32 uniform in [0, 1)."""
    return np.random.default_rng(seed).random(shape, dtype=np.float32)


# tri


def test_the_triangle_wave_is_the_published_arc_cosine():
    """The published acos(cos(2 pi x)) / pi: 1e-6 off in float64, 2e-4 (its own error) in float32."""
    x = np.linspace(-4, 5, 20_001, dtype=np.float32)
    double = np.arccos(np.cos(2 * np.pi * x.astype(np.float64))) / np.pi
    single = np.arccos(np.cos(np.float32(2 * np.pi) * x)) / np.float32(np.pi)
    assert triangle(x).dtype == np.float32
    np.testing.assert_allclose(triangle(x), double, rtol=0, atol=1e-6)
    np.testing.assert_allclose(triangle(x), single, rtol=0, atol=2e-4)


def test_the_triangle_wave_is_exact_at_the_edges():
    """Whole numbers map to 0 and halves to 1, exactly."""
    whole = np.arange(-3, 4, dtype=np.float32)
    np.testing.assert_array_equal(triangle(whole), 0)
    np.testing.assert_array_equal(triangle(whole + np.float32(0.5)), 1)


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_triangle_wave_never_leaves_the_unit_interval(x):
    """Any finite float32, the tiniest negative and the largest included, maps into [0, 1]."""
    assert 0 <= triangle(np.float32([x]))[0] <= 1


# Ranges


@given(rows(3, 0, 1), rows(2, 0, 1))
def test_states_and_scores_stay_in_the_unit_interval(states, actions):
    """From states and actions in the cube, edges included, everything the model returns is in [0, 1]."""
    optimal = SMALL.optimal_action(states)
    scores = SMALL.score(actions, optimal)
    for values in (SMALL.transition(states, actions), optimal, scores, SMALL.reward(scores)):
        assert values.dtype == np.float32
        assert ((values >= 0) & (values <= 1)).all()


@given(rows(3, -1e6, 1e6), rows(2, -1e6, 1e6))
def test_states_and_actions_out_of_the_cube_lead_back_into_it(states, actions):
    """Out-of-cube states and actions give next states, an optimum and a reward in [0, 1]."""
    optimal = SMALL.optimal_action(states)
    reward = SMALL.reward(SMALL.score(actions, optimal))
    for values in (SMALL.transition(states, actions), optimal, reward):
        assert ((values >= 0) & (values <= 1)).all()


@given(float32s(-10, 1), float32s(0, 0.875))
def test_the_step_reward_is_the_papers(score, threshold):
    """r = max(0, 4 (score - 0.75)) where that exceeds min_reward, else 0."""
    raw = max(0.0, 4 * (score - 0.75))
    got = float(step_reward(np.float32([score]), threshold)[0])
    if abs(raw - threshold) < 1e-5:
        assert got == 0 or got == pytest.approx(raw, abs=1e-5)
    else:
        assert got == pytest.approx(raw if raw > threshold else 0.0, abs=1e-5)


def test_a_reward_equal_to_the_threshold_earns_nothing():
    """The comparison with min_reward is strict: at the threshold 0, just above it the reward."""
    at = np.float32(0.875)  # a step reward of 0.5, exactly
    assert step_reward(np.array([at]), 0.5)[0] == 0
    assert step_reward(np.array([np.nextafter(at, np.float32(1))]), 0.5)[0] > 0.5


def test_the_score_is_one_minus_the_mean_distance():
    """Known values: the same action scores 1, opposite corners 0, one of two channels off by 0.5 is 0.75."""
    actions = np.float32([[0.3, 0.6], [0, 0], [0.5, 1]])
    optimal = np.float32([[0.3, 0.6], [1, 1], [1, 1]])
    np.testing.assert_array_equal(SMALL.score(actions, optimal), np.float32([1, 0, 0.75]))


@given(
    task=st.builds(
        Task,
        state_dim=st.just(2),
        action_dim=st.just(2),
        episode_length=st.integers(1, 9),
        reward_every=st.integers(1, 12),
        min_reward=float32s(0, 0.875),
        kill_threshold=float32s(0, 1),
        seed=st.integers(0, 3),
    ),
    actions=rows(2, 0, 1, count=9),
    seed=st.integers(0, 2**32),
)
def test_observations_never_leave_their_space(task, actions, seed):
    """Whatever k, D and T, every observation is in the space and no step pays more than k."""
    env = SMEEnv(**task.to_dict())
    observation, _ = env.reset(seed=seed)
    assert env.observation_space.contains(observation)
    for t, action in enumerate(actions, start=1):
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation)
        assert observation[-2] == np.float32(t / task.episode_length)
        assert 0 <= reward <= task.reward_every
        assert terminated == (np.float32(info["step_reward"]) < np.float32(task.kill_threshold))
        assert truncated == (t == task.episode_length)
        if terminated or truncated:
            break


# The optimum


@pytest.mark.parametrize("dims", DIMS)
def test_the_optimum_earns_one_in_every_state(dims):
    """In the cube, at its corners and beyond it, a* scores 1 and earns 1, whatever min_reward and D allow."""
    sme = built(dims, min_reward=0.99, kill_threshold=1.0)
    corners = np.float32(list(itertools.product((0, 1), repeat=dims[0])))
    states = np.concatenate([uniform(0, 1000, dims[0]), corners, uniform(1, 1000, dims[0]) * 3 - 1])
    optimal = sme.optimal_action(states)
    scores = sme.score(optimal, optimal)
    np.testing.assert_array_equal(scores, 1)
    np.testing.assert_array_equal(sme.reward(scores), 1)
    # Asked for one state at a time, the optimum is the same up to rounding.
    alone = np.concatenate([sme.optimal_action(states[i : i + 1]) for i in range(20)])
    np.testing.assert_allclose(sme.reward(sme.score(alone, optimal[:20])), 1, rtol=0, atol=1e-4)


@pytest.mark.parametrize("dims", DIMS)
def test_every_other_action_earns_less(dims):
    """Moving one channel of the optimum by d lowers the score by d / N_a and the reward by 4 times that."""
    sme = built(dims)
    optimal = sme.optimal_action(uniform(0, 200, dims[0]))
    rng = np.random.default_rng(1)
    moved, shift = optimal.copy(), rng.uniform(0.01, 0.1, 200).astype(np.float32)
    channel = rng.integers(0, dims[1], 200)
    inward = np.where(optimal[np.arange(200), channel] > 0.5, -shift, shift)
    moved[np.arange(200), channel] += inward
    scores = sme.score(moved, optimal)
    np.testing.assert_allclose(scores, 1 - shift / dims[1], rtol=0, atol=1e-6)
    np.testing.assert_allclose(sme.reward(scores), np.maximum(0, 1 - 4 * shift / dims[1]), rtol=0, atol=4e-6)


# Uniform states and near-uniform optimal actions


def worst_uniformity(states: np.ndarray) -> float:
    """The smallest p value of the channels' KS tests against U(0, 1), corrected for their number."""
    return min(1.0, min(stats.kstest(channel, "uniform").pvalue for channel in states.T) * states.shape[1])


def actions_for(kind: str, n: int, width: int, step: int) -> np.ndarray:
    """Actions that don't depend on the state: one for all, or drawn afresh and far from uniform."""
    rng = np.random.default_rng([step, width])
    if kind == "constant":
        return np.repeat(rng.random((1, width)), n, axis=0).astype(np.float32)
    return rng.beta(0.3, 2.0, (n, width)).astype(np.float32)


@pytest.mark.parametrize("kind", ["constant", "skewed"])
@pytest.mark.parametrize("dims", [(8, 4, 1), (1, 1, 1), (2, 5, 1)])
def test_uniform_states_stay_uniform_when_actions_do_not_depend_on_them(dims, kind):
    """After 1 and 8 steps no channel's KS test rejects at 0.1%, and no pair of channels is correlated."""
    sme, n = built(dims), 20_000
    states = uniform(7, n, dims[0])
    for step in range(8):
        states = sme.transition(states, actions_for(kind, n, dims[1], step))
        if step in (0, 7):
            assert worst_uniformity(states) > 1e-3
            if dims[0] > 1:
                correlations = np.corrcoef(states.T)[np.triu_indices(dims[0], 1)]
                assert np.abs(correlations).max() < 4 / np.sqrt(n)


def test_the_uniformity_test_sees_what_a_policy_does():
    """The control: under the optimal policy visited states are not uniform, and the same test says so."""
    sme = built((8, 4, 1))
    states = uniform(7, 20_000, 8)
    for _ in range(3):
        states = sme.transition(states, sme.optimal_action(states))
    assert worst_uniformity(states) < 1e-6


@pytest.mark.parametrize(
    ("dims", "seeds", "distance"),
    [((8, 4, 1), (1, 2, 3), 0.03), ((16, 4, 1), (1, 2, 3), 0.02), ((8, 4, 50), (1,), 0.05)],
)
def test_optimal_actions_of_uniform_states_are_nearly_uniform(dims, seeds, distance):
    """Each action channel's KS distance from uniform is small (not so at every C: at C=2 it is 0.3)."""
    for seed in seeds:
        actions = built(dims, seed=seed).optimal_action(uniform(11, 20_000, dims[0]))
        for channel in actions.T:
            assert stats.kstest(channel, "uniform").statistic < distance
            assert channel.mean() == pytest.approx(0.5, abs=0.01)
            assert channel.std() == pytest.approx(12**-0.5, rel=0.1)


# Bad input


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: SMALL.optimal_action(np.zeros(3)), r"states: expected shape \(B, 3\), got"),
        (lambda: SMALL.optimal_action(np.zeros((2, 4))), r"states: expected shape \(B, 3\), got \(2, 4\)"),
        (lambda: SMALL.potential(np.zeros((2, 4))), r"states: expected shape \(B, 3\), got \(2, 4\)"),
        (lambda: SMALL.transition(np.zeros((2, 3)), np.zeros((2, 3))), r"actions: expected shape \(B, 2\)"),
        (lambda: SMALL.transition(np.zeros((2, 3)), np.zeros((1, 2))), "one action a state, got 2 and 1"),
        (lambda: SMALL.score(np.zeros((2, 3)), np.zeros((2, 2))), r"actions: expected shape \(B, 2\)"),
        (lambda: SMALL.score(np.zeros((2, 2)), np.zeros((2, 1))), r"optimal: expected shape \(B, 2\)"),
        (lambda: SMALL.score(np.zeros((3, 2)), np.zeros((2, 2))), "got 3 and 2"),
        (lambda: SMALL.score(np.zeros((2, 2)), np.zeros((1, 2))), "got 2 and 1"),
    ],
)
def test_wrong_shapes_are_value_errors(call, text):
    """Another shape is refused with both shapes, never broadcast."""
    with pytest.raises(ValueError, match=text):
        call()


def test_no_rows_in_no_rows_out():
    """An empty batch gives empty results of the right widths."""
    states, actions = np.zeros((0, 3)), np.zeros((0, 2))
    assert SMALL.optimal_action(states).shape == (0, 2)
    assert SMALL.transition(states, actions).shape == (0, 3)
    assert SMALL.score(actions, actions).shape == SMALL.potential(states).shape == (0,)
