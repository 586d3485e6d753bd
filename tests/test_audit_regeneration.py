"""`inspect` against the seeds: every kind of behavior regenerates, and any edit is found at its episode and step."""

from __future__ import annotations

import dataclasses

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from stored import data_file
from test_audit import MIXED, TASKS, edit_metadata, generate
from torch import nn

import smeoffline as so
from smeoffline.data.action_box import ActionBox
from smeoffline.data.audit import inspection as audit
from smeoffline.data.audit import regeneration
from smeoffline.data.behavior import BASES, WITHOUT_NU
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.storage import store
from smeoffline.sme.machine import platform_tag
from smeoffline.train.export import export_policy

EPISODES, STEPS = 12, 7
KINDS = [(base, explore) for base in BASES for explore in EXPLORATIONS if base != "random" or explore == "none"]
PLATFORM = {"machine": "another"}


@pytest.fixture(scope="module")
def policy_file(tmp_path_factory):
    """A small policy in a file, its weights drawn from a seed."""
    layer = nn.Linear(10, 4)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        layer.weight.copy_(torch.randn(4, 10, generator=generator))
    path = tmp_path_factory.mktemp("policy") / "policy.onnx"
    sample = np.random.default_rng(0).random((8, 10), dtype=np.float32)
    export_policy(nn.Sequential(layer, nn.Sigmoid()), path, sample=sample, box=ActionBox.unit(4), metadata={})
    return path


def behavior(base, explore, policy_file):
    """One of each kind."""
    fields = {} if base in WITHOUT_NU else {"nu": 0.3}
    if base == "policy":
        fields["policy"] = str(policy_file)
    if explore != "none":
        fields |= {"explore": explore, "sigma": 0.3}
    return so.Behavior(base=base, **fields)


def stored(name="sme/t-v0"):
    """A dataset, and its recipe made ready."""
    dataset = store.read(name)
    recipe = so.Recipe.from_dict({key: dataset.provenance[key] for key in ("task", "behavior", "dataset")})
    return dataset, regeneration.Regeneration(recipe, recipe.task.build())


@pytest.mark.parametrize(("base", "explore"), KINDS)
def test_every_kind_of_behavior_regenerates(base, explore, policy_file):
    """Step by step and, on one platform, byte for byte, for every base with every exploration."""
    generate(behavior(base, explore, policy_file))
    dataset, ready = stored()
    assert list(regeneration.step_findings(dataset, ready)) == []
    assert list(regeneration.byte_findings(dataset, ready)) == []
    found = so.inspect("sme/t-v0")
    assert found.ok
    assert found.description["rolled_out_again"] == (0 if base == "policy" else EPISODES)


@pytest.mark.parametrize(("base", "explore"), KINDS)
def test_an_action_of_another_behavior_is_found_for_every_kind(base, explore, policy_file):
    """An action that its behavior would not take with its noise is found where it stands."""
    folder = generate(behavior(base, explore, policy_file))
    with h5py.File(data_file(folder), "r+") as file:
        actions = file["episode_5/actions"]
        actions[4, 2] += 0.01 if actions[4, 2] < 0.5 else -0.01
    dataset, ready = stored()
    found = [(f.check, f.episode, f.step) for f in regeneration.step_findings(dataset, ready)]
    assert ("behavior action", 5, 4) in found


@pytest.mark.parametrize("task", TASKS)
def test_mixtures_on_every_task_regenerate(task):
    """Delayed, killed, shaped and long or short: each episode's own behavior is found in its stream."""
    generate(MIXED, **TASKS[task])
    dataset, ready = stored()
    assert list(regeneration.step_findings(dataset, ready)) == []
    assert list(regeneration.byte_findings(dataset, ready)) == []
    assert set(dataset.components) == {0, 1, 2}


EDITS = {
    "reward": ("rewards", "reward"),
    "next observation": ("observations", "next observation"),
    "optimal action": ("infos/optimal_action", "optimal action"),
    "action": ("actions", "behavior action"),
    "density": ("infos/log_density", "log density"),
    "nan": ("rewards", "rewards"),
    "termination": ("terminations", "termination"),
    "truncation": ("truncations", "truncation"),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """One dataset that every example below edits and mends; it lives outside the tests' own roots."""
    root = tmp_path_factory.mktemp("sound")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        return generate()


@settings(max_examples=4)
@given(episode=st.integers(0, EPISODES - 1), step=st.integers(0, STEPS - 1))
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_found_wherever_it_lands(edit, sound, episode, step):
    """Whatever is changed in an episode is named with that episode and step, and no other episode is."""
    name, check = EDITS[edit]
    path = data_file(sound)
    before = path.read_bytes()
    with h5py.File(path, "r+") as file:
        values = file[f"episode_{episode}/{name}"]
        row = step + 1 if name == "observations" else step
        where = (row, 0) if values.ndim == 2 else row
        if values.dtype == bool:
            values[where] = not values[where]
        else:
            move = {"nan": np.nan, "density": 1.0}.get(edit, 0.01 if values[where] < 0.5 else -0.01)
            values[where] += move
    try:
        found = so.inspect(sound)
    finally:
        path.write_bytes(before)
    assert not found.ok
    assert (check, episode, step) in {(f.check, f.episode, f.step) for f in found.findings}
    assert {f.episode for f in found.findings} <= {episode, None}


def test_a_missing_step_is_found():
    """An episode that is shorter than the task's ends too early, and differs from the one rolled out again."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        group = file["episode_4"]
        for name in ("observations", "actions", "rewards", "terminations", "truncations", "infos/optimal_action",
                     "infos/log_density"):  # fmt: skip
            kept = group[name][:-1]
            del group[name]
            group[name] = kept
        group.attrs["total_steps"] = STEPS - 1
    edit_metadata(folder, lambda raw: raw.update(total_steps=raw["total_steps"] - 1))
    found = {(f.check, f.episode, f.step) for f in so.inspect("sme/t-v0").findings}
    assert {("end", 4, STEPS - 2), ("content hash", None, None)} <= found
    dataset, ready = stored()
    assert [(f.check, f.episode, f.step) for f in regeneration.byte_findings(dataset, ready)] == [
        ("bytes", 4, STEPS - 1)
    ]


def test_a_copied_episode_is_found():
    """An episode in the place of another is no new data, and not what its seed gives."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_8"]
        file.copy("episode_3", "episode_8")
    found = so.inspect("sme/t-v0")
    assert ("duplicate", 8, 0) in {(f.check, f.episode, f.step) for f in found.findings}
    assert ("seed", 8, None) in {(f.check, f.episode, f.step) for f in found.findings}
    assert found.description["duplicates"] == 1


def test_equal_episodes_that_their_seeds_give_are_no_fault(monkeypatch):
    """In a tiny task two seeds may start alike; that is counted, and no fault."""
    generate(so.Behavior(), state_dim=1, action_dim=1, episode_length=1)
    monkeypatch.setattr(audit, "episode_digests", lambda episodes: [b""] * len(episodes.lengths))
    found = so.inspect("sme/t-v0")
    assert found.description["duplicates"] == EPISODES - 1
    assert {f.check for f in found.findings} == {"content hash"}


def test_an_exchanged_component_is_found():
    """Which behavior acted is drawn from the episode's stream, too."""
    folder = generate(MIXED)
    with h5py.File(data_file(folder), "r+") as file:
        attrs = file["episode_5"].attrs
        attrs["component"] = (int(attrs["component"]) + 1) % 3
    assert [(f.check, f.episode) for f in so.inspect("sme/t-v0").findings] == [("component", 5)]


@pytest.mark.parametrize("has", [True, False])
def test_densities_are_where_they_are_known_and_nowhere_else(has):
    """A density that is missing, or of a behavior that has none, is found."""
    folder = generate(so.Behavior(sigma=0.3, explore="probit" if has else "gaussian"))
    with h5py.File(data_file(folder), "r+") as file:
        for i in range(EPISODES):
            infos = file[f"episode_{i}/infos"]
            if has:
                del infos["log_density"]
            else:
                infos["log_density"] = np.zeros(STEPS + 1, np.float32)
    assert ("log density", None) in {(f.check, f.episode) for f in so.inspect("sme/t-v0").findings}


def test_on_another_platform_steps_are_compared_and_bytes_are_not():
    """Equal bytes are expected only under an equal tag; what is not compared is said."""
    folder = generate()
    edit_metadata(folder, lambda raw: raw["smeoffline"].update(platform=PLATFORM))
    with h5py.File(data_file(folder), "r+") as file:
        rewards = file["episode_2/rewards"]
        rewards[3] = np.nextafter(rewards[3], np.float32(9), dtype=np.float32)
    found = so.inspect("sme/t-v0")
    assert [f.check for f in found.findings] == ["content hash"]
    assert found.description["rolled_out_again"] == 0
    assert any(reason.startswith("bytes: generated on another platform") for reason in found.unchecked)
    assert regeneration.same_platform(platform_tag())
    assert not regeneration.same_platform(PLATFORM)
    assert not regeneration.same_platform(None)


def test_without_the_policy_file_the_rest_is_checked(policy_file, tmp_path):
    """What only the file could tell is said to be unchecked; the other behaviors of the mixture are compared."""
    copy = tmp_path / "policy.onnx"
    copy.write_bytes(policy_file.read_bytes())
    mix = [(so.Behavior(base="policy", policy=str(copy)), 0.5), (so.Behavior(nu=0.3), 0.5)]
    folder = generate(mix)
    copy.unlink()
    found = so.inspect("sme/t-v0")
    assert found.ok
    assert any("policy.onnx" in reason for reason in found.unchecked)
    components = store.read("sme/t-v0").components
    for component, faults in ((0, False), (1, True)):
        number = int(np.flatnonzero(components == component)[0])
        with h5py.File(data_file(folder), "r+") as file:
            actions = file[f"episode_{number}/actions"]
            actions[2, 0] += 0.01 if actions[2, 0] < 0.5 else -0.01
        checks = {(f.check, f.episode) for f in so.inspect("sme/t-v0").findings}
        assert (("behavior action", number) in checks) == faults
        assert ("next observation", number) in checks


def test_bytes_of_any_choice_of_episodes_can_be_compared():
    """Episodes are told by their own number, whichever are rolled out again, in whatever order."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_6/optimal"] = 0  # what is not ours is not compared
        values = file["episode_6/infos/optimal_action"]
        values[STEPS, 0] = np.nextafter(values[STEPS, 0], np.float32(9), dtype=np.float32)
    dataset, ready = stored()
    for chosen, told in (([1, 6, 3], [6]), ([6], [6]), ([11, 0], [])):
        found = regeneration.byte_findings(dataset, ready, np.array(chosen))
        assert [f.episode for f in found] == told


def test_a_task_too_long_to_roll_out_is_compared_by_step(monkeypatch):
    """An audit takes seconds, also of a dataset whose episodes would take minutes."""
    monkeypatch.setattr(audit, "LONGEST_SAMPLE", 6)
    generate()
    found = so.inspect("sme/t-v0")
    assert found.ok
    assert any("too long to roll out" in reason for reason in found.unchecked)


def test_the_sample_is_spread_over_the_dataset():
    """Whole blocks of episodes, the first and the last among them, and never more than there are."""
    chosen = audit._sample(so.Task(), 10_000)
    assert (chosen[0], chosen[-1], len(chosen)) == (0, 9999, 512)
    assert np.diff(chosen).max() <= 20
    assert list(audit._sample(so.Task(episode_length=7), 5)) == [0, 1, 2, 3, 4]
    assert len(audit._sample(so.Task(), 0)) == 0


def test_findings_are_plain_data():
    """A program can take each apart."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/infos/log_density"][3] += 1
    (finding, _) = so.inspect("sme/t-v0").findings
    assert set(dataclasses.asdict(finding)) == {"check", "episode", "step", "expected", "got"}
    assert float(finding.got) == pytest.approx(float(finding.expected) + 1, abs=1e-3)
