"""Off-policy evaluation beside true values: identities, easy cases that must come out right, refusals."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command import invoke
from hypothesis import given, settings
from hypothesis import strategies as st

from smeoffline.data.behavior import Behavior
from smeoffline.data.generate import generate
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.errors import DatasetError, PolicyError, SmeofflineError, SpecError
from smeoffline.score.ope.estimate import off_policy
from smeoffline.score.ope.importance import Weighted
from smeoffline.score.ope.methods import Logged
from smeoffline.score.ope.names import METHODS, NEED_DENSITY
from smeoffline.score.ope.notes import notes
from smeoffline.score.ope.records import Estimate, PolicyEstimates, method_scores
from smeoffline.score.ope.targets import find_target, log_density
from smeoffline.sme.task import Task

TASK = Task(state_dim=3, action_dim=1, episode_length=3)
EASY = Behavior(nu=0.6, sigma=0.5)  # of one action channel: weights stay moderate
STEPS = 400


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where this module's datasets lie; every test has an empty root of its own beside."""
    return tmp_path_factory.mktemp("ope")


def made(root, task=TASK, behavior=EASY, episodes=3000, **kwargs):
    """The folder of a new dataset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        return generate(task, behavior, episodes=episodes, seed=0, **kwargs).path


@pytest.fixture(scope="module")
def dataset(root):
    """Short episodes of a behavior that explores widely."""
    return made(root)


@settings(max_examples=30)
@given(st.integers(1, 5), st.integers(1, 6), st.floats(0, 1), st.integers(0, 1000))
def test_weights_of_the_behavior_itself_are_one(episodes, horizon, discount, seed):
    """Every estimator then gives exactly the mean discounted return, and all episodes count."""
    draw = np.random.default_rng(seed)
    rewards, density = draw.random((episodes, horizon)), draw.standard_normal((episodes, horizon))
    weighted = Weighted.of(density, density, rewards, discount)
    mean = (rewards * discount ** np.arange(horizon)).sum(axis=1).mean()
    for found in (weighted.per_decision(), weighted.weighted(), weighted.weighted_per_decision()):
        assert found.value == pytest.approx(mean, rel=1e-12)
    assert weighted.effective_samples() == pytest.approx(episodes)


def test_estimators_by_hand():
    """Two episodes of two steps, worked out on paper."""
    ratios = np.array([[2.0, 1.5], [0.5, 1.0]])  # weights 2, 3 and 0.5, 0.5
    rewards = np.array([[1.0, 0.0], [0.0, 4.0]])
    weighted = Weighted.of(np.log(ratios), np.zeros((2, 2)), rewards, 0.5)
    assert weighted.per_decision().value == pytest.approx((2 * 1 + 0.5 * 0.5 * 4) / 2)
    assert weighted.weighted().value == pytest.approx((3 * 1 + 0.5 * 2) / 3.5)
    assert weighted.weighted_per_decision().value == pytest.approx(2 / 2.5 + 0.5 * 2 / 3.5)
    assert weighted.effective_samples() == pytest.approx(3.5**2 / (9 + 0.25))


def test_a_single_episode_has_no_standard_error():
    """One episode says nothing of how episodes scatter: no estimator claims an error of 0."""
    weighted = Weighted.of(np.ones((1, 2)), np.zeros((1, 2)), np.ones((1, 2)), 1.0)
    for found in (weighted.per_decision(), weighted.weighted(), weighted.weighted_per_decision()):
        assert found.value > 0
        assert found.standard_error is None


def test_weights_beyond_a_float_are_no_number():
    """PDIS says None rather than infinity; the weighted ones, which divide first, still have a value."""
    weighted = Weighted.of(np.full((2, 2), 500.0), np.zeros((2, 2)), np.ones((2, 2)), 1.0)
    assert weighted.per_decision() is None
    assert weighted.weighted().value == pytest.approx(2)
    assert weighted.weighted_per_decision().value == pytest.approx(2)


def test_the_density_of_noisy_policies_is_the_stored_one(dataset):
    """For the behavior as its own target, log-densities computed from float32 actions agree with those stored."""
    read = store.read(dataset)
    rollout = Rollout.prepare(Recipe.from_dict(_tables(read)))
    logged = Logged.of(read, rollout.sme, horizon=3, discount=1.0, seed=0)
    target = find_target("behavior", rollout, EASY.sigma)
    u = target.actor.intended(rollout.sme, logged.data.observations)
    computed = log_density(logged.data.actions, u, EASY.sigma)
    assert np.abs(computed - logged.densities).max() < 2e-2
    assert np.abs(computed - logged.densities).mean() < 1e-4
    weighted = logged.weighted(target.actor)
    assert weighted.effective_samples() == pytest.approx(3000, rel=1e-4)
    assert weighted.per_decision().value == pytest.approx(read.rewards.sum() / 3000, rel=1e-4)


def _tables(read):
    return {key: read.provenance[key] for key in ("task", "behavior", "dataset")}


def test_every_method_finds_the_truth_in_an_easy_case(dataset):
    """Three steps, one action channel, 3,000 episodes: all estimators come near the true values of two policies."""
    found = off_policy(dataset, ["behavior", "optimal"], fqe_steps=STEPS, episodes=2000)
    assert list(found.methods) == list(METHODS)
    behavior, optimal = found.policies
    assert optimal.true > behavior.true + 0.05
    for policy in found.policies:
        for method in NEED_DENSITY:
            estimate = policy.estimates[method]
            room = 4 * np.hypot(estimate.standard_error, policy.standard_error)
            assert abs(estimate.error) < room, (policy.name, method)
            assert room < 0.1
            assert 50 < estimate.effective_samples <= 3000 * (1 + 1e-6)
        for method in ("fqe", "direct"):
            assert abs(policy.estimates[method].error) < 0.06, (policy.name, method)
    assert behavior.estimates["behavior"].error == pytest.approx(0, abs=0.03)
    assert behavior.estimates["pdis"].value == pytest.approx(behavior.estimates["behavior"].value, rel=1e-4)
    for method in ("fqe", "pdis", "wis", "wpdis", "direct"):
        assert found.methods[method].rank_correlation is None  # of two policies
        assert dict(found.methods[method].regret) == {1: 0}
    assert dict(found.methods["behavior"].regret) == {1: None}
    assert found.notes == ()


def test_killed_episodes_keep_their_weight(root):
    """Where steps that earn little end the episode, importance sampling is still right."""
    path = made(root, task=Task(state_dim=3, action_dim=1, episode_length=3, kill_threshold=0.5))
    found = off_policy(path, ["optimal"], methods=["pdis", "wpdis"], episodes=3000)
    (policy,) = found.policies
    for estimate in policy.estimates.values():
        assert abs(estimate.error) < 4 * np.hypot(estimate.standard_error, policy.standard_error)


def test_a_horizon_cuts_data_and_truth_alike(dataset):
    """With horizon 2 and discount 1 the behavior's value is the mean of the first two rewards, and scale is 2."""
    found = off_policy(dataset, ["behavior"], methods=["behavior", "wpdis"], horizon=2, discount=1.0, episodes=1000)
    rewards = store.read(dataset).rewards.reshape(-1, 3)
    (policy,) = found.policies
    assert found.scale == 2
    assert policy.estimates["behavior"].value == pytest.approx(rewards[:, :2].mean(), rel=1e-5)
    assert policy.estimates["wpdis"].value == pytest.approx(rewards[:, :2].mean(), rel=1e-3)
    assert abs(policy.estimates["behavior"].error) < 5 * policy.standard_error


def test_without_noise_a_policy_is_evaluated_as_it_is(dataset):
    """With sigma 0 the optimum's true value is 1, and only methods without weights are used."""
    found = off_policy(dataset, ["optimal"], sigma=0, fqe_steps=STEPS, episodes=50)
    (policy,) = found.policies
    assert policy.true == pytest.approx(1, abs=1e-4)
    assert list(policy.estimates) == ["fqe", "direct", "behavior"]
    assert abs(policy.estimates["direct"].error) < 0.25 < abs(policy.estimates["behavior"].error)


def test_a_callable_is_a_policy_too(dataset):
    """A function of observations is evaluated under its name, with noise like any other."""

    def middle(observations):
        return np.full((len(observations), 1), 0.5, np.float32)

    found = off_policy(dataset, [middle, "optimal"], methods=["wpdis"], episodes=500)
    assert [p.name for p in found.policies] == ["middle", "optimal"]
    estimate = found.policies[0].estimates["wpdis"]
    assert abs(estimate.error) < 5 * np.hypot(estimate.standard_error, found.policies[0].standard_error)


def _policies(values, true):
    return [
        PolicyEstimates(str(i), t, 0.0, {"m": Estimate(v, 0.0, None if v is None else v - t, None)})
        for i, (v, t) in enumerate(zip(values, true, strict=True))
    ]


@pytest.mark.parametrize(
    ("values", "error", "ranks", "regret"),
    [
        ([0.1, 0.2, 0.3, 0.4], 0.0, 1.0, {1: 0.0, 3: 0.0}),
        ([0.4, 0.3, 0.2, 0.1], 0.2, -1.0, {1: 0.3, 3: 0.1}),
        ([0.5, 0.5, 0.5, 0.5], 0.25, None, {1: None, 3: None}),
        ([None, None, None, None], None, None, {1: None, 3: None}),
        ([None, 0.2, 0.3, 0.4], 0.0, 1.0, {1: 0.0, 3: 0.0}),
        ([None, None, 0.3, 0.4], 0.0, None, {1: 0.0, 3: 0.0}),
    ],
)
def test_scores_of_methods(values, error, ranks, regret):
    """Error, rank correlation and regret@k of estimates worked out by hand; constants and two rank nothing."""
    found = method_scores(_policies(values, [0.1, 0.2, 0.3, 0.4]))["m"]
    assert found.mean_absolute_error == (None if error is None else pytest.approx(error))
    assert found.rank_correlation == (None if ranks is None else pytest.approx(ranks))
    assert dict(found.regret) == {k: None if r is None else pytest.approx(r) for k, r in regret.items()}


def _estimated(name, samples=None, **values):
    """A policy with these estimates by method."""
    return PolicyEstimates(name, 0.5, 0.0, {m: Estimate(v, 0.0, None, samples) for m, v in values.items()})


def test_estimates_that_rewards_do_not_allow_are_noted():
    """Each fitted method is told once, with the policies and values concerned; shaped rewards allow anything."""
    policies = [
        _estimated("runs/sme-x--a-s0", fqe=0.5, direct=1.6059),
        _estimated("b", fqe=1.01, direct=-0.4763),
        _estimated("c", fqe=-0.01, direct=0.9),
    ]
    (note,) = notes(policies, horizon=1, fqe_steps=1000, shaped=False)
    assert note.startswith("direct of sme-x--a-s0 (1.6059), b (-0.4763) is outside of what rewards allow")
    assert notes(policies, horizon=1, fqe_steps=1000, shaped=True) == ()


def test_few_effective_episodes_are_noted_once():
    """One note names the methods and the policies; ten episodes are enough for none."""
    policies = [
        _estimated(name, samples, pdis=None, wis=0.5)
        for name, samples in (("runs/sme-x--a-s0", 9.9), ("b", 1.0), ("c", 10.0))
    ]
    (note,) = notes(policies, horizon=1, fqe_steps=1, shaped=False)
    assert note.startswith("pdis, wis of sme-x--a-s0, b rest on fewer than 10 effective episodes")
    assert notes(policies[2:], horizon=1, fqe_steps=1, shaped=False) == ()


def test_the_command_tells_the_same_each_time(dataset):
    """`ope --json` has the documented keys and the same bytes twice; the text has the policies, best first."""
    args = ("ope", dataset, "behavior", "optimal", "--methods", "fqe,wpdis", "--fqe-steps", 20, "--episodes", 50)
    first, second = (invoke(*args, "--json") for _ in range(2))
    assert first.exit_code == 0, first.stderr
    assert first.stdout == second.stdout
    record = json.loads(first.stdout)
    assert set(record) == {
        *("schema", "dataset_id", "discount", "horizon", "scale", "sigma", "fqe_steps", "episodes", "seed"),
        *("policies", "methods", "notes"),
    }
    assert set(record["policies"][0]) == {"name", "true", "standard_error", "estimates"}
    assert set(record["policies"][0]["estimates"]["wpdis"]) == {
        *("value", "standard_error", "error", "effective_samples"),
    }
    assert set(record["methods"]["fqe"]) == {"mean_absolute_error", "rank_correlation", "regret"}
    assert (record["sigma"], record["horizon"], record["discount"]) == (0.5, 3, 0.99)
    (note,) = record["notes"]
    assert "0 of 3 steps" in note
    lines = invoke(*args).stdout.splitlines()
    assert f"note: {note}" in lines
    assert [line.split()[0] for line in lines if line.startswith(("behavior", "optimal"))] == ["optimal", "behavior"]


@pytest.mark.parametrize(
    ("args", "kind", "said"),
    [
        ({"methods": ["wpids"]}, SpecError, "did you mean 'wpdis'"),
        ({"methods": []}, SpecError, "at least one method"),
        ({"methods": ["pdis"], "sigma": 0}, SpecError, "sigma 0"),
        ({"horizon": 4}, SpecError, "horizon"),
        ({"discount": 1.5}, SpecError, "discount"),
        ({"sigma": -1}, SpecError, "sigma"),
        ({"fqe_steps": 0}, SpecError, "fqe_steps"),
        ({"targets": []}, SpecError, "at least one policy"),
        ({"targets": ["optimal", "optimal"]}, SpecError, "twice"),
        ({"targets": ["behaviour"]}, PolicyError, "did you mean 'behavior'"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(dataset, args, kind, said):
    """Each is one clear line, before anything is computed."""
    targets = args.pop("targets", ["optimal"])
    with pytest.raises(kind, match=said) as caught:
        off_policy(dataset, targets, **args)
    assert "\n" not in str(caught.value)


def test_importance_needs_densities(root):
    """Data without densities leave importance sampling out, and say why where it is asked for by name."""
    path = made(root, behavior=Behavior(nu=0.3, explore="gaussian", sigma=0.2), episodes=50)
    found = off_policy(path, ["optimal"], fqe_steps=5, episodes=5)
    assert list(found.methods) == ["fqe", "direct", "behavior"]
    assert found.sigma == 0
    with pytest.raises(SpecError, match="'gaussian'"):
        off_policy(path, ["optimal"], methods=["wis"], sigma=0.3)
    logged = Logged.of(store.read(path), TASK.build(), horizon=3, discount=1.0, seed=0)
    rollout = Rollout.prepare(Recipe(TASK, (Component(EASY),)))
    with pytest.raises(DatasetError, match="log_density"):
        logged.weighted(find_target("optimal", rollout, 0.5).actor)


def test_behavior_is_a_word_only_for_one_behavior():
    """Of a mixture or of random actions nobody can say what they mean to do."""
    for mix in ((Component(EASY, 0.5), Component(Behavior(nu=0.1), 0.5)), (Component(Behavior(base="random")),)):
        with pytest.raises(SmeofflineError, match="single behavior"):
            find_target("behavior", Rollout.prepare(Recipe(TASK, mix)), 0.3)
