"""The flag rule: entries that submit the optimum, or blends with it, against entries that do not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from boards import EXPLORED, INFORMED, UNINFORMED, blend, tiny

from smeoffline.bench.leaderboard.flags import (
    CONTROL_GAP,
    NO_HEADROOM,
    NO_INFORMATION,
    OUTSIDE_SCORE,
    flags,
    kind,
    lead_flags,
)
from smeoffline.bench.leaderboard.flags import (
    INFORMED as KIND_INFORMED,
)
from smeoffline.bench.leaderboard.scoring import score_actions
from smeoffline.bench.suite import Suite
from smeoffline.data.behavior import Behavior
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.reference import references
from smeoffline.data.rollout import Rollout
from smeoffline.score.statistics import Estimate
from smeoffline.sme import probes
from smeoffline.sme.model import score
from smeoffline.sme.task import Task


def flagged(actions):
    """The reasons' first words for an entry of these actions."""
    return [flag.split(":")[0] for flag in flags(score_actions(tiny(), actions), tiny().datasets)]


def test_the_optimum_is_flagged_for_every_reason():
    """Who submits the optimum gains on the control, and is right where nothing tells what is."""
    assert sorted(flagged(blend(1.0))) == ["control", "outside"]


@pytest.mark.parametrize("share", [0.15, 0.3, 0.5, 0.9])
def test_a_blend_with_the_optimum_is_flagged(share):
    """A share of the optimum on every dataset shows on the control, down to little more than the rule's bound."""
    assert "control" in flagged(blend(share, noise=0.0))


def test_a_blend_that_spares_the_control_is_flagged_outside():
    """Who leaves the control alone, but submits the optimum elsewhere, is right where nobody can be."""
    assert flagged(blend(1.0, control=0.0)) == ["outside"]


@pytest.mark.parametrize("control", [-0.9, -0.2, 0.0, 0.05])
def test_an_honest_entry_is_not_flagged(control):
    """Closing most of the gap where rewards tell is no reason, nor is failing on the control."""
    assert flagged(blend(0.8, control=control, deep=0.0)) == []


def test_what_the_rule_does_not_catch():
    """A blend that spares both controls passes: the page says so, and only held-out tasks tell."""
    assert flagged(blend(0.9, control=0.0, deep=0.5)) == []


def test_one_lucky_seed_is_no_reason():
    """The control has to be gained on in each seed, and on average by the bound or more."""
    scores = dict(score_actions(tiny(), blend(0.0)))
    seeds = scores[UNINFORMED]

    def closing(*gaps):
        changed = tuple(dataclasses.replace(s, gap_closed=g) for s, g in zip(seeds, gaps, strict=True))
        return flags({**scores, UNINFORMED: changed}, tiny().datasets)

    assert closing(0.5, -0.01) == ()
    assert closing(CONTROL_GAP - 0.02, CONTROL_GAP + 0.01) == ()
    assert len(closing(CONTROL_GAP - 0.02, CONTROL_GAP + 0.03)) == 1


def test_outside_counts_only_where_the_optimum_is_deep():
    """At C = 1 a good fit may well go on outside the cube; at C = 10 none does."""
    scores = score_actions(tiny(), blend(0.5, control=0.0, deep=0.5))

    def outside(dataset):
        changed = tuple(dataclasses.replace(s, score_ood=OUTSIDE_SCORE) for s in scores[dataset])
        return flags({**scores, dataset: changed}, tiny().datasets)

    assert outside(INFORMED) == ()
    assert len(outside(EXPLORED)) == 1


def test_a_lead_on_the_public_tasks_is_flagged_where_its_interval_is_clear():
    """Only what is clearly better on public tasks than on held-out ones is flagged."""
    assert len(lead_flags(Estimate(0.3, 0.1, 0.5, 6))) == 1
    for lead in (None, Estimate(0.3, None, None, 1), Estimate(0.3, 0.04, 0.5, 6), Estimate(-0.3, -0.5, -0.1, 6)):
        assert lead_flags(lead) == ()


@pytest.mark.parametrize(
    ("behaviors", "expected"),
    [
        ([Behavior(nu=0.3)], NO_INFORMATION),
        ([Behavior(base="weights", nu=0.3)], NO_INFORMATION),
        ([Behavior(base="optimal")], NO_INFORMATION),
        ([Behavior(base="optimal", explore="gaussian", sigma=0.3)], NO_HEADROOM),
        ([Behavior(sigma=0.3)], NO_HEADROOM),
        ([Behavior(nu=0.3, sigma=0.3)], KIND_INFORMED),
        ([Behavior(base="random")], KIND_INFORMED),
        ([Behavior(nu=0.3), Behavior(nu=0.1)], KIND_INFORMED),
        ([Behavior(base="optimal", sigma=0.3), Behavior(sigma=0.1)], NO_HEADROOM),
    ],
)
def test_the_kind_of_a_dataset_follows_from_its_behaviors(behaviors, expected):
    """What can be learnt from a dataset is told by its recipe."""
    assert kind(Recipe(Task(), tuple(Component(b, 1 / len(behaviors)) for b in behaviors))) == expected


def test_v1_has_what_its_rules_promise():
    """Twelve datasets that can teach and two controls; delayed rewards, shaping, a mixture, a small one, two bases."""
    recipes = Suite.load("v1").datasets
    kinds = [kind(recipe) for recipe in recipes]
    assert (kinds.count(KIND_INFORMED), kinds.count(NO_HEADROOM), kinds.count(NO_INFORMATION)) == (12, 1, 1)
    assert any(recipe.task.reward_every > 1 for recipe in recipes)
    assert sum(recipe.task.shaping > 0 for recipe in recipes) == 2
    assert any(len(recipe.mix) > 1 for recipe in recipes)
    assert sum(recipe.mix[0].behavior.base == "weights" for recipe in recipes) == 5
    assert any(recipe.episodes == 10 for recipe in recipes)
    slow = Suite.load("v1-slow")
    assert {recipe.dataset_id for recipe in slow.datasets} <= {recipe.dataset_id for recipe in recipes}


def test_v1_cannot_be_won_by_shrinking():
    """On each ranked dataset a constant is far below imitation, and shrinking closes at most an eighth of the gap."""
    suite = Suite.load("v1")
    recipes = {cell.recipe.dataset_id: cell.recipe for cell in suite.cells() if kind(cell.recipe) == KIND_INFORMED}
    assert len(recipes) == 12 * suite.seeds
    for name, recipe in recipes.items():
        rollout, states = Rollout.prepare(recipe), probes.within(recipe.task.state_dim, 2000)
        rows = references(rollout, states)
        optimal = rollout.sme.optimal_action(states)
        constant = float(score(np.full_like(optimal, 0.5), optimal).mean())
        assert (constant - rows.imitation_score) / rows.headroom < -1 / 3, name
        assert rows.clone_shrunk_score - rows.imitation_score <= rows.headroom / 8, name
