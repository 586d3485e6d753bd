"""Scores of policies whose answers are known without training."""

from __future__ import annotations

import json

import numpy as np
import pytest

from smeoffline.data.behavior import Behavior
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.reference import references
from smeoffline.data.rollout import Rollout
from smeoffline.errors import PolicyError, SpecError
from smeoffline.score.evaluate import Evaluation, distance_curve, evaluate_policy
from smeoffline.sme.task import Task

PROBES = 2000
TASK = Task(complexity=2, episode_length=20)
NOISY = Recipe(TASK, (Component(Behavior(nu=0.3, sigma=0.3)),))


def evaluate(policy, recipe=NOISY, **kwargs) -> Evaluation:
    """An evaluation on few probes."""
    return evaluate_policy(policy, recipe, n_probes=PROBES, **kwargs)


def optimum(task=TASK):
    """The optimal policy of a task."""
    sme = task.build()
    return lambda observations: sme.optimal_action(observations[:, :-2])


def intended(recipe):
    """The recipe's behavior without its exploration, as a policy."""
    rollout = Rollout.prepare(recipe)
    sme, (actor,) = rollout.sme, rollout.actors
    return lambda o: actor.intend(o, sme.preactivation(o[:, :-2]))[1]


def test_the_optimum_scores_one_everywhere():
    """The optimal policy has score 1 on every kind of state, return T, no regret, and closes the whole gap."""
    found = evaluate(optimum())
    for name in ("score_wd", "score_ood", "score_data", "score_rollout", "gap_closed", "normalized_improvement"):
        assert getattr(found, name) == pytest.approx(1.0, abs=1e-5), name
    assert found.return_rollout == pytest.approx(TASK.episode_length, abs=1e-3)
    assert found.action_regret == pytest.approx(0.0, abs=1e-5)
    assert found.reward_regret == pytest.approx(0.0, abs=1e-4)


def test_the_behaviors_own_intention_scores_as_its_reference_row():
    """Without exploration the behavior's policy scores behavior_score, and improves on nothing."""
    recipe = Recipe(TASK, (Component(Behavior(nu=0.3)),))
    found = evaluate(intended(recipe), recipe)
    assert found.score_wd == pytest.approx(found.behavior_score, abs=1e-6)
    assert found.improvement == pytest.approx(0.0, abs=1e-6)
    assert found.rl_gain == pytest.approx(0.0, abs=1e-6)


def test_median_cloning_of_a_probit_behavior_scores_as_the_intention():
    """The median of probit exploration is what the base means to do."""
    found = evaluate(intended(NOISY))
    assert found.score_wd == pytest.approx(found.clone_median_score, abs=1e-6)
    assert found.improvement > 0


def test_worse_than_the_behavior_is_negative():
    """Nothing is clipped: a policy that does the opposite of the optimum has negative gains."""
    best = optimum()
    found = evaluate(lambda o: np.where(best(o) > 0.5, 0.0, 1.0).astype(np.float32))
    assert found.improvement < -0.3
    assert found.normalized_improvement < -1
    assert found.rl_gain < found.improvement
    assert found.gap_closed < -1


def test_definitions_hold_between_the_numbers():
    """The derived numbers follow from the others as they are defined."""
    found = evaluate(lambda o: np.full((len(o), 4), 0.5, np.float32))
    assert found.action_regret == 1 - found.score_wd
    assert found.imitation_score == max(found.clone_mean_score, found.clone_median_score)
    assert found.headroom == pytest.approx(1 - found.imitation_score)
    assert found.improvement == found.score_wd - found.behavior_score
    assert found.normalized_improvement == found.improvement / (1 - found.behavior_score)
    assert found.rl_gain == found.score_wd - found.imitation_score
    assert found.gap_closed == found.rl_gain / found.headroom
    rows = references(Rollout.prepare(NOISY))
    assert found.behavior_score == pytest.approx(rows.behavior_score, abs=0.01)


def test_without_headroom_there_is_no_gain_to_speak_of():
    """Where imitation reaches the optimum, rl_gain and gap_closed are null; improvement is not."""
    recipe = Recipe(TASK, (Component(Behavior(base="optimal", explore="gaussian", sigma=0.3)),))
    found = evaluate(optimum(), recipe)
    assert found.headroom < 0.02
    assert found.rl_gain is None
    assert found.gap_closed is None
    assert found.improvement > 0.1


def test_without_room_normalized_improvement_is_null():
    """Where the behavior is optimal, improvement is not divided by nothing."""
    found = evaluate(optimum(), Recipe(TASK, (Component(Behavior(base="optimal")),)))
    assert found.normalized_improvement is None
    assert found.improvement == pytest.approx(0.0, abs=1e-5)


@pytest.mark.parametrize(
    "task",
    [
        Task(episode_length=1),
        Task(episode_length=7, reward_every=3),
        Task(episode_length=9, kill_threshold=0.3),
        Task(episode_length=9, shaping=0.5),
        Task(state_dim=1, action_dim=1, complexity=3, episode_length=3),
        Task(state_dim=3, action_dim=6, episode_length=3),
    ],
    ids=str,
)
def test_every_kind_of_task_is_scored(task):
    """All numbers are finite for tasks of every kind, and the optimum beats a constant."""
    recipe = Recipe(task, (Component(Behavior(nu=0.3, sigma=0.3)),))
    best = evaluate(optimum(task), recipe)
    worse = evaluate(lambda o: np.full((len(o), task.action_dim), 0.3, np.float32), recipe)
    assert best.score_rollout == pytest.approx(1.0, abs=1e-5)
    assert best.score_wd > worse.score_wd
    assert best.return_rollout > worse.return_rollout
    json.dumps(worse.to_dict(), allow_nan=False)


def test_killed_episodes_count_the_steps_they_had():
    """With a kill threshold, score_rollout averages over the steps taken, of which there may be one an episode."""
    task = Task(episode_length=50, kill_threshold=0.9)
    recipe = Recipe(task, (Component(Behavior(nu=0.3)),))
    found = evaluate(lambda o: np.zeros((len(o), 4), np.float32), recipe)
    assert found.return_rollout < 1
    assert 0 < found.score_rollout < 1


def test_twice_is_the_same_and_another_seed_is_not():
    """An evaluation depends on its arguments alone."""
    policy = intended(NOISY)
    assert evaluate(policy) == evaluate(policy)
    assert evaluate(policy, seed=1) != evaluate(policy)


def test_more_probes_only_sharpen():
    """Two numbers of probes agree within sampling error."""
    policy = intended(NOISY)
    few, many = (evaluate_policy(policy, NOISY, n_probes=n) for n in (1000, 8000))
    assert few.score_wd == pytest.approx(many.score_wd, abs=0.01)
    assert (few.probes, many.probes) == (1000, 8000)


def test_the_curve_covers_all_probes_and_their_mean():
    """The distance curve's weighted mean is score_ood, and no probe is lost."""
    found = evaluate(lambda o: np.full((len(o), 4), 0.5, np.float32))
    assert sum(point.n for point in found.ood_curve) == PROBES
    mean = sum(point.n * point.score for point in found.ood_curve) / PROBES
    assert mean == pytest.approx(found.score_ood, abs=1e-6)
    assert [point.distance for point in found.ood_curve] == [round(0.05 + 0.1 * i, 6) for i in range(10)]


def test_an_empty_bin_has_no_score():
    """A bin without probes says so instead of inventing a number."""
    curve = distance_curve(np.float32([0.05, 0.1, 1.0]), np.float32([0.5, 0.7, 0.2]))
    assert [(p.n, p.score) for p in (curve[0], curve[1], curve[9])] == [
        (2, pytest.approx(0.6)),
        (0, None),
        (1, pytest.approx(0.2)),
    ]


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (lambda o: np.zeros((len(o), 3), np.float32), "shape"),
        (lambda o: np.zeros(len(o), np.float32), "shape"),
        (lambda o: np.full((len(o), 4), np.nan, np.float32), "finite"),
        (lambda o: np.full((len(o), 4), 1.5, np.float32), "1.5"),
        (lambda o: np.full((len(o), 4), -0.5, np.float32), "-0.5"),
        (lambda o: np.full((len(o), 4), "a"), "finite"),
    ],
    ids=["channels", "one-dimensional", "nan", "above", "below", "text"],
)
def test_a_policy_that_returns_nonsense_is_refused(policy, said):
    """Wrong shapes and values are one clear line, never a score."""
    with pytest.raises(PolicyError, match=said) as caught:
        evaluate(policy)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("name", "value"), [("n_probes", 0), ("n_probes", 1.5), ("seed", -1), ("seed", 2**32)])
def test_numbers_out_of_range_are_refused(name, value):
    """Probes and seed are validated, and named."""
    with pytest.raises(SpecError, match=name.removeprefix("n_")):
        evaluate_policy(optimum(), NOISY, **{name: value})
