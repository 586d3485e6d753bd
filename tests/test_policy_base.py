"""Base `policy`: an ONNX file acts, with or without exploration."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch
from torch import nn

from smeoffline.data.action_box import ActionBox
from smeoffline.data.audit.inspection import inspect
from smeoffline.data.behavior import Behavior, file_sha256
from smeoffline.data.generate import generate
from smeoffline.data.policy_file import load_policy
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.reference import references
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.errors import PolicyError, SpecError
from smeoffline.sme.task import Task
from smeoffline.train.export import export_policy

TASK = Task(state_dim=3, action_dim=2, episode_length=10)


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A small policy in a file, its weights drawn from a seed."""
    generator = torch.Generator().manual_seed(0)
    layer = nn.Linear(5, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(2, 5, generator=generator))
        layer.bias.zero_()
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    sample = np.random.default_rng(0).random((8, 5), dtype=np.float32)
    export_policy(nn.Sequential(layer, nn.Sigmoid()), path, sample=sample, box=ActionBox.unit(2), metadata={})
    return path


def recipe(policy_file, **behavior) -> Recipe:
    """Five episodes of the file."""
    return Recipe(TASK, (Component(Behavior(base="policy", policy=str(policy_file), **behavior)),), episodes=5)


def test_the_file_acts_on_what_it_observes(policy_file):
    """Without exploration each stored action is the policy's at the stored observation, bookkeeping included."""
    (block,) = Rollout.prepare(recipe(policy_file)).blocks()
    policy = load_policy(policy_file)
    for i in range(5):
        assert np.allclose(block.actions[i], policy(block.observations[i, :-1]), atol=1e-6)


def test_exploration_scatters_around_the_file(policy_file):
    """With probit exploration the policy is the median, and the density of each action is stored."""
    rows = references(Rollout.prepare(recipe(policy_file, sigma=0.3)))
    plain = references(Rollout.prepare(recipe(policy_file)))
    assert rows.clone_median_score == pytest.approx(plain.behavior_score, abs=1e-6)
    assert rows.behavior_score != pytest.approx(plain.behavior_score, abs=1e-3)
    (block,) = Rollout.prepare(recipe(policy_file, sigma=0.3)).blocks()
    assert block.log_densities is not None


def test_a_dataset_of_a_file_is_sound_and_names_it_by_hash(policy_file):
    """It generates, inspects without a fault, and its metadata and id hold the file's hash."""
    made = generate(TASK, Behavior(base="policy", policy=str(policy_file), sigma=0.2), episodes=4)
    assert inspect(made.dataset_id).ok
    digest = file_sha256(policy_file)
    assert f"policy-{digest[:6]}-probit0p2" in made.dataset_id
    provenance = store.read(made.dataset_id).provenance
    assert provenance is not None
    assert provenance["behavior"][0]["policy_sha256"] == digest


def test_the_spec_survives_json_without_the_file(policy_file):
    """A spec read back needs no file until something acts."""
    spec = recipe(policy_file)
    fields = spec.to_dict()
    fields["behavior"][0]["policy"] = "gone.onnx"
    back = Recipe.from_dict(fields)
    assert back.dataset_id == spec.dataset_id
    with pytest.raises(PolicyError, match=r"gone\.onnx"):
        Rollout.prepare(back)


def test_where_the_file_lies_does_not_matter(policy_file, tmp_path):
    """A copy elsewhere gives the same id, also within a mixture."""
    copy = shutil.copy(policy_file, tmp_path / "other.onnx")
    assert recipe(copy).dataset_id == recipe(policy_file).dataset_id
    mixes = [(Component(recipe(p).mix[0].behavior, 0.5), Component(Behavior(nu=0.3), 0.5)) for p in (copy, policy_file)]
    assert Recipe(TASK, mixes[0]).dataset_id == Recipe(TASK, mixes[1]).dataset_id


def test_a_file_that_changed_is_refused(policy_file, tmp_path):
    """The hash of the spec is compared when the file is loaded."""
    copy = tmp_path / "policy.onnx"
    copy.write_bytes(policy_file.read_bytes())
    spec = recipe(copy)
    copy.write_bytes(policy_file.read_bytes() + b"\0")
    with pytest.raises(PolicyError, match="changed"):
        Rollout.prepare(spec)


def test_other_dimensions_are_refused(policy_file):
    """A policy for another task is one clear line."""
    other = Recipe(Task(state_dim=4, action_dim=2), recipe(policy_file).mix)
    with pytest.raises(PolicyError, match="expected 6 observation channels, got a policy for 5"):
        Rollout.prepare(other)


@pytest.mark.parametrize(
    "fields",
    [
        {"base": "policy"},
        {"base": "policy", "policy": ""},
        {"base": "policy", "policy": 3},
        {"base": "policy", "policy": "x.onnx", "policy_sha256": "abc"},
        {"base": "policy", "policy": "x.onnx", "policy_sha256": 7},
        {"base": "policy", "policy": "x.onnx", "policy_sha256": "0" * 64, "nu": 0.1},
        {"base": "bias", "policy": "x.onnx"},
        {"base": "optimal", "policy_sha256": "0" * 64},
    ],
    ids=str,
)
def test_a_policy_goes_with_its_base_alone(fields):
    """A missing file, one for another base, a hash of another form, and nu are refused."""
    with pytest.raises(SpecError, match="policy"):
        Behavior.from_dict(fields)


def test_a_file_that_is_missing_is_refused_at_once(tmp_path):
    """The hash is computed when the behavior is described."""
    with pytest.raises(PolicyError, match=r"nothing\.onnx"):
        Behavior(base="policy", policy=str(tmp_path / "nothing.onnx"))
