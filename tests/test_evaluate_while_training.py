"""Evaluating on the way, for real, changes nothing that is trained (case 15)."""

from __future__ import annotations

import pytest

from smeoffline.data.behavior import Behavior
from smeoffline.data.generate import generate
from smeoffline.score.evaluate import evaluate_policy
from smeoffline.score.runs import recipe_of
from smeoffline.sme.task import Task
from smeoffline.train.metrics import read_metrics
from smeoffline.train.run import train


@pytest.mark.parametrize("algo", ["bc", "iql", "td3plusbc", "bcq"])
def test_evaluating_while_training_changes_no_byte(algo, tmp_path):
    """With a full evaluation at every checkpoint, and without any, the policy's file and the losses are equal."""
    made = generate(Task(episode_length=10), Behavior(nu=0.3, sigma=0.3), episodes=5)
    recipe = recipe_of(made.dataset_id)
    scores = []

    def probe(step, policy):
        scores.append((step, evaluate_policy(policy, recipe, n_probes=50).score_wd))

    small = {"batch_size": 8, "hidden_units": (8,)}
    looked = train(
        made.dataset_id, algo=algo, steps=30, settings=small, out=tmp_path / "a", checkpoint_every=10, probe=probe
    )
    blind = train(made.dataset_id, algo=algo, steps=30, settings=small, out=tmp_path / "b", checkpoint_every=10)
    assert [step for step, _ in scores] == [10, 20, 30]
    assert looked.policy.read_bytes() == blind.policy.read_bytes()
    assert [line["losses"] for line in read_metrics(looked.run)] == [line["losses"] for line in read_metrics(blind.run)]
