"""Reference rows: what needs no training to know, against brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from smeoffline.data.acting import Actor, intend_at
from smeoffline.data.behavior import Behavior
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.reference import Mixture, References, reference_returns, references, shrunk
from smeoffline.data.rollout import Rollout
from smeoffline.sme import probes
from smeoffline.sme.task import Task

TASK = Task(state_dim=5, action_dim=3, complexity=2)
SIGMAS = {"none": 0.0, "probit": 0.5, "gaussian": 0.4, "uniform": 0.6, "ou": 0.4}
SINGLE = [
    Behavior("random"),
    *(
        Behavior(base, 0.0 if base == "optimal" else 0.4, explore, sigma)
        for base in ("bias", "weights", "optimal")
        for explore, sigma in SIGMAS.items()
    ),
]
MIXES = {f"{b.base}-{b.explore}": (Component(b),) for b in SINGLE} | {
    "two biases": (Component(Behavior(nu=0.8), 0.7), Component(Behavior(nu=0.8), 0.3)),
    "every kind": (
        Component(Behavior("bias", 0.5, "probit", 0.4), 3 / 9),
        Component(Behavior("weights", 0.4, "gaussian", 0.3), 2 / 9),
        Component(Behavior("optimal", explore="uniform", sigma=0.3), 1 / 9),
        Component(Behavior("bias", 0.7), 2 / 9),
        Component(Behavior("random"), 1 / 9),
    ),
}
PROBES, DRAWS = 100, 6000


def prepared(mix, **fields) -> Rollout:
    """A rollout of the small task."""
    return Rollout.prepare(Recipe(replace(TASK, **fields), mix))


def drawn(rollout: Rollout, states: np.ndarray) -> np.ndarray:
    """(DRAWS, PROBES, N_a) actions at each probe, each draw by a behavior of the mix."""
    stream = np.random.default_rng(1)
    z = rollout.sme.preactivation(states)
    shares = np.array([c.share for c in rollout.recipe.mix])
    # a probe's draws are shared out exactly, so that what is left to chance is the noise alone
    counts = np.diff(np.round(np.concatenate([[0], np.cumsum(shares)]) * DRAWS).astype(int))
    parts = []
    for actor, n in zip(rollout.actors, counts, strict=True):
        u, m = intend_at(actor, states, z)
        kind = actor.exploration
        noise = kind.prepare(kind.draw(stream, n * len(states), u.shape[1])[np.newaxis])[0]
        rows = np.tile(u, (n, 1)), np.tile(m, (n, 1))
        parts.append(kind.act(*rows, noise).reshape(n, *u.shape))
    return np.concatenate(parts)


@pytest.mark.parametrize("name", MIXES)
def test_rows_are_what_sampling_finds(name):
    """Behavior, both clones and random actions score what the mean over many sampled actions says."""
    rollout = prepared(MIXES[name])
    states = probes.within(TASK.state_dim, PROBES, seed=3)
    rows = references(rollout, states)
    optimal = rollout.sme.optimal_action(states)
    actions = drawn(rollout, states)
    scores = 1 - np.abs(actions - optimal).mean(axis=(1, 2))
    assert rows.behavior_score == pytest.approx(scores.mean(), abs=1e-5 + 5 * scores.std() / np.sqrt(DRAWS))
    mean_score = 1 - np.abs(actions.mean(axis=0) - optimal).mean()
    assert rows.clone_mean_score == pytest.approx(mean_score, abs=0.004)
    uniform = np.random.default_rng(2).random((2000, *optimal.shape))
    assert rows.random_score == pytest.approx(1 - np.abs(uniform - optimal).mean(), abs=0.002)


@pytest.mark.parametrize("name", MIXES)
def test_clones_are_the_best_of_their_kind(name):
    """The mean clone is the mean of sampled actions, and the median clone halves them."""
    rollout = prepared(MIXES[name])
    states = probes.within(TASK.state_dim, PROBES, seed=3)
    z = rollout.sme.preactivation(states)
    mixture = Mixture.at(rollout.actors, [c.share for c in rollout.recipe.mix], states, z)
    mean, median = mixture.mean(), mixture.median()
    assert ((mean >= 0) & (mean <= 1) & (median >= 0) & (median <= 1)).all()
    actions = drawn(rollout, states)
    found = actions.mean(axis=0)
    error = actions.std(axis=0) / np.sqrt(DRAWS)
    np.testing.assert_array_less(np.abs(found - mean), 6 * error + 2e-4)
    # half of the draws on either side, atoms counted on both
    slack = 5 * 0.5 / np.sqrt(DRAWS) + 1e-3
    assert ((actions <= median + 1e-6).mean(axis=0) >= 0.5 - slack).all()
    assert ((actions >= median - 1e-6).mean(axis=0) >= 0.5 - slack).all()


@pytest.mark.parametrize("name", MIXES)
def test_imitation_is_the_better_clone(name):
    """imitation is the larger of the two clones' scores, headroom what it leaves, and no row is above 1."""
    rows = references(prepared(MIXES[name]), probes.within(TASK.state_dim, 200))
    assert rows.imitation_score == max(rows.clone_mean_score, rows.clone_median_score)
    assert rows.headroom == 1 - rows.imitation_score
    assert rows.clone_shrunk_score >= rows.imitation_score - 1e-12
    scores = rows.to_dict()
    assert set(scores) == {
        "behavior_score",
        "clone_mean_score",
        "clone_median_score",
        "clone_shrunk_score",
        "imitation_score",
        "headroom",
        "optimal_score",
        "random_score",
        "approximate",
    }
    assert scores["optimal_score"] == 1
    assert all(0 <= scores[key] <= 1 for key in scores if key.endswith("_score"))
    assert rows.headroom >= 0


@given(
    actions=arrays(np.float64, (7, 3), elements=st.floats(0, 1)),
    optimal=arrays(np.float64, (7, 3), elements=st.floats(0, 1)),
)
def test_shrinking_takes_the_best_factor(actions, optimal):
    """No factor between 0 and 1 brings the actions closer to the optimal ones, and all deviations have the same."""
    found = shrunk(actions, optimal)
    error = np.abs(found - optimal).mean()
    for factor in np.linspace(0, 1, 101):
        assert error <= np.abs(0.5 + factor * (actions - 0.5) - optimal).mean() + 1e-12
    off = np.abs(actions - 0.5) > 1e-6
    factors = (found - 0.5)[off] / (actions - 0.5)[off]
    assert np.ptp(factors) < 1e-6 if off.any() else (found == actions).all()
    assert ((factors >= -1e-9) & (factors <= 1 + 1e-9)).all()


def test_a_constant_is_a_shrunk_clone():
    """Where a large constant error meets optimal actions near 1/2 (C = 2), shrinking closes a third of the gap."""
    rows = references(Rollout.prepare(Recipe(Task(complexity=2), (Component(Behavior("bias", 0.5, "probit", 0.5)),))))
    assert rows.clone_shrunk_score > 0.89  # what the constant action 1/2 scores in this task
    assert (rows.clone_shrunk_score - rows.imitation_score) / rows.headroom > 1 / 3


def test_approximate_clones_say_so():
    """Rows are marked approximate for noise correlated in time and for mixtures, and only there."""
    marked = {name: references(prepared(mix), probes.within(5, 50)).approximate for name, mix in MIXES.items()}
    assert {name for name, approximate in marked.items() if approximate} == {
        "bias-ou",
        "weights-ou",
        "optimal-ou",
        "two biases",
        "every kind",
    }


def test_a_mixture_of_one_behavior_is_that_behavior():
    """A behavior that is listed twice (same error, drawn once each) has the rows of its own where nu is 0."""
    one = Behavior("optimal", explore="gaussian", sigma=0.4)
    alone = references(prepared((Component(one),)))
    twice = references(prepared((Component(one, 0.3), Component(one, 0.7))))
    for name in ("behavior_score", "clone_mean_score", "clone_median_score", "random_score"):
        assert getattr(twice, name) == pytest.approx(getattr(alone, name), abs=1e-9)


def test_the_median_of_a_mixture_is_its_majority():
    """Of two deterministic behaviors, least-absolute cloning gives the one with the larger share."""
    rollout = prepared(MIXES["two biases"])
    states = probes.within(TASK.state_dim, 50)
    z = rollout.sme.preactivation(states)
    median = Mixture.at(rollout.actors, [0.7, 0.3], states, z).median()
    np.testing.assert_allclose(median, intend_at(rollout.actors[0], states, z)[1], atol=1e-6)


# --- the numbers of the design ------------------------------------------------------------------------


@pytest.mark.parametrize("complexity", [1, 10, 50])
def test_exploration_alone_leaves_no_headroom(complexity):
    """`optimal` + gaussian 0.3 at (8, 4): behavior 0.806, mean clone 0.958, median clone 1."""
    mix = (Component(Behavior("optimal", explore="gaussian", sigma=0.3)),)
    rows = references(Rollout.prepare(Recipe(Task(complexity=complexity), mix)))
    assert rows.behavior_score == pytest.approx(0.806, abs=0.0025)
    assert rows.clone_mean_score == pytest.approx(0.958, abs=0.0025)
    assert rows.clone_median_score == pytest.approx(1, abs=1e-6)
    assert rows.headroom == pytest.approx(0, abs=1e-6)


def test_base_error_alone_is_its_own_clone():
    """Without exploration both clones are the behavior itself: headroom, and no information."""
    rows = references(Rollout.prepare(Recipe(Task(), (Component(Behavior("bias", 0.3)),))))
    assert rows.clone_mean_score == pytest.approx(rows.behavior_score, abs=1e-6)
    assert rows.clone_median_score == pytest.approx(rows.behavior_score, abs=1e-6)
    assert rows.headroom > 0.02


def test_error_and_exploration_leave_headroom():
    """`bias` 0.3 + probit 0.3 at (8, 4, C=1): cloning beats the behavior and stays below the optimum."""
    rows = references(Rollout.prepare(Recipe(Task(), (Component(Behavior("bias", 0.3, "probit", 0.3)),))))
    assert rows.behavior_score < rows.imitation_score - 0.01
    assert rows.headroom > 0.02


def test_random_actions_at_the_papers_size():
    """A uniform a* against a uniform action: E|U - c| = c^2 - c + 1/2 has mean 1/3, a score of about 2/3."""
    rows = references(Rollout.prepare(Recipe(Task(complexity=10), (Component(Behavior("random")),))))
    assert rows.random_score == pytest.approx(2 / 3, abs=0.005)
    assert rows.behavior_score == pytest.approx(rows.random_score, abs=1e-6)
    assert rows.clone_mean_score == rows.clone_median_score


def test_rows_hold_no_more_than_they_say():
    """The dataclass and its JSON agree."""
    rows = References(0.8, 0.9, 0.95, 0.97, 0.6, False)
    assert rows.to_dict() == {
        "behavior_score": 0.8,
        "clone_mean_score": 0.9,
        "clone_median_score": 0.95,
        "clone_shrunk_score": 0.97,
        "random_score": 0.6,
        "imitation_score": 0.95,
        "headroom": pytest.approx(0.05),
        "optimal_score": 1.0,
        "approximate": False,
    }


# --- returns --------------------------------------------------------------------------------------------


def returns(recipe: Recipe) -> np.ndarray:
    """The undiscounted return of every episode."""
    blocks = Rollout.prepare(recipe).blocks(1)
    return np.concatenate(
        [
            [block.rewards[i, :length].sum(dtype=np.float64) for i, length in enumerate(block.lengths)]
            for block in blocks
        ]
    )


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"reward_every": 7},
        {"min_reward": 0.3},
        {"kill_threshold": 0.1},
        {"kill_threshold": 0.2, "reward_every": 3},
        {"shaping": 0.5},
        {"shaping": 0.5, "discount": 0.5},
        {"kill_threshold": 0.1, "shaping": 0.5},
    ],
    ids=lambda fields: "-".join(f"{k}{v}" for k, v in fields.items()) or "plain",
)
def test_reference_returns_are_those_of_episodes(fields):
    """The stored minimum and maximum are the mean returns of random and of optimal episodes of the task."""
    task = replace(TASK, complexity=1, episode_length=20, **fields)
    recipe = Recipe(task, (Component(Behavior(nu=0.1)),))
    low, high = reference_returns(Rollout.prepare(recipe))
    for behavior, expected in ((Behavior("random"), low), (Behavior("optimal"), high)):
        # other episodes than those behind the references
        found = returns(Recipe(task, (Component(behavior),), episodes=1024, seed=77))
        error = found.std() * np.sqrt(1 / 1024 + 1 / 256)
        assert expected == pytest.approx(found.mean(), abs=5 * error + 1e-6)


def test_no_behavior_beats_the_maximum():
    """Without shaping the maximum is T exactly, and no episode of any behavior returns more."""
    task = replace(TASK, episode_length=20)
    for behavior in SINGLE:
        recipe = Recipe(task, (Component(behavior),), episodes=64)
        low, high = reference_returns(Rollout.prepare(recipe))
        assert high == 20.0
        assert 0 <= low < high
        assert returns(recipe).max() <= high + 1e-5


@pytest.mark.parametrize("fields", [{"kill_threshold": 0.3}, {"shaping": 0.5}])
def test_reference_returns_do_not_depend_on_the_behavior(fields):
    """References belong to the task and the dataset's seed: every behavior's dataset states the same ones."""
    task = replace(TASK, episode_length=10, **fields)
    stated = {
        reference_returns(Rollout.prepare(Recipe(task, (Component(behavior),), episodes=n)))
        for behavior in (Behavior(), Behavior("random"), Behavior("weights", 0.3, sigma=0.2))
        for n in (1, 300)
    }
    assert len(stated) == 1


@pytest.mark.parametrize("kind", EXPLORATIONS)
def test_every_exploration_is_tested_here(kind):
    """A kind that is added to the registry gets its reference rows checked."""
    assert kind in SIGMAS
    assert isinstance(Rollout.prepare(Recipe(TASK)).actors[0], Actor)
