"""`inspect`: a dataset as generated has no findings; whatever is changed in it is found at its place."""

from __future__ import annotations

import json
import warnings

import h5py
import numpy as np
import pytest
from minari import create_dataset_from_buffers
from minari.data_collector import EpisodeBuffer
from stored import data_file

import smeoffline as so
from smeoffline.data.audit import inspection as audit
from smeoffline.data.audit import replay
from smeoffline.data.storage import store
from smeoffline.errors import DatasetNotFoundError

TASKS = {
    "plain": {},
    "every 3": {"reward_every": 3},
    "every 100": {"reward_every": 100},
    "killed": {"kill_threshold": 0.5},
    "killed, every 2": {"kill_threshold": 0.5, "reward_every": 2},
    "minimum": {"min_reward": 0.6},
    "shaped": {"shaping": 0.5, "kill_threshold": 0.3, "reward_every": 2},
    "one step": {"episode_length": 1},
    "deep": {"complexity": 3},
    "wide": {"state_dim": 3, "action_dim": 5},
    "single": {"state_dim": 1, "action_dim": 1},
}
MIXED = [(b, 1 / 3) for b in (so.Behavior(nu=0.3), so.Behavior(base="optimal"), so.Behavior(base="random"))]
NOISY = so.Behavior(base="bias", nu=0.3, sigma=0.3)


def generate(behavior=NOISY, **task):
    """A small dataset; returns its folder."""
    fields = {"episode_length": 7} | task
    return so.generate(so.Task(**fields), behavior, episodes=12, dataset_id="sme/t-v0", overwrite=True).path


def findings():
    """(check, episode, step) of all findings."""
    return [(f.check, f.episode, f.step) for f in so.inspect("sme/t-v0").findings]


def edit_metadata(folder, change):
    """Change the metadata file with a function of the JSON object."""
    path = folder / "data" / "metadata.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def long_episode(folder):
    """The last episode of three steps or more."""
    with h5py.File(data_file(folder)) as file:
        return max(i for i in range(12) if len(file[f"episode_{i}/rewards"]) >= 3)


@pytest.mark.parametrize("behavior", [NOISY, MIXED], ids=["noisy", "mixed"])
@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_a_dataset_as_generated_has_no_findings(task, behavior):
    """Every reward, transition, optimal action, flag and channel is recomputed, for every kind of task."""
    generate(behavior, **task)
    found = so.inspect("sme/t-v0")
    assert found.findings == ()
    assert found.ok is True


@pytest.mark.parametrize("task", ["plain", "killed, every 2", "shaped"])
@pytest.mark.parametrize("step", [0, 1, -1])
@pytest.mark.parametrize(
    ("name", "change", "check"),
    [
        ("rewards", 0.01, "reward"),
        ("rewards", -0.01, "reward"),
        ("observations", 0.01, "next observation"),
        ("infos/optimal_action", 0.01, "optimal action"),
    ],
)
def test_a_changed_number_is_found_at_its_place(task, step, name, change, check):
    """One number moved by 0.01 is a finding of its own check at its episode and step, and of the hash."""
    folder = generate(**TASKS[task])
    episode = long_episode(folder)
    with h5py.File(data_file(folder), "r+") as file:
        values = file[f"episode_{episode}"][name]
        row = range(len(values))[step]
        where = (row, 0) if values.ndim == 2 else row
        values[where] += change if name == "rewards" or values[where] < 0.5 else -change
    found = findings()
    # a changed observation contradicts the step that led to it; the first, which none did, the one from it
    at = max(row - 1, 0) if name == "observations" else row
    assert (check, episode, at) in found
    assert {f[1] for f in found} == {episode, None}
    assert ("content hash", None, None) in found
    assert not so.inspect("sme/t-v0").ok


def test_a_changed_action_is_found():
    """An action that was not the one taken contradicts the reward and the next state of its step, alone."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        actions = file["episode_5/actions"]
        actions[4, 2] = 1 - actions[4, 2]
    assert findings()[:2] == [("reward", 5, 4), ("next observation", 5, 4)]


def test_rewards_shifted_by_one_are_found():
    """r_t pays for a_t: rewards moved by one step contradict the recomputed ones."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        rewards = file["episode_3/rewards"]
        rewards[:] = np.roll(rewards[:], 1)
    assert ("reward", 3) in {f[:2] for f in findings()}


@pytest.mark.parametrize(("name", "value"), [("actions", 1.5), ("actions", -0.1), ("observations", 1.5)])
def test_a_value_outside_the_cube_is_found(name, value):
    """Actions and observations lie in [0, 1]."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file[f"episode_2/{name}"][3, 0] = value
    assert (name[:-1], 2, 3) in findings()


@pytest.mark.parametrize("channel", [-2, -1])
@pytest.mark.parametrize("row", [0, 3, 7])
def test_a_wrong_bookkeeping_channel_is_found(channel, row):
    """t/T and the accrued reward, lagging one step, are checked in every observation."""
    folder = generate(reward_every=3)
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/observations"][row, channel] += 0.05
    step = row if channel == -2 or row == 0 else row - 1
    assert ("time channel" if channel == -2 else "accrued channel", 2, step) in findings()


@pytest.mark.parametrize(
    ("name", "step", "checks"),
    [
        ("truncations", 2, {("truncation", 2), ("end", 2)}),
        ("truncations", 6, {("truncation", 6), ("end", 6)}),
        ("terminations", 2, {("termination", 2), ("end", 2)}),
        ("terminations", 6, {("termination", 6)}),
    ],
)
def test_a_flipped_flag_is_found(name, step, checks):
    """An episode ends once, is truncated at T and nowhere else, and terminates only where it must."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        flags = file[f"episode_2/{name}"]
        flags[step] = not flags[step]
    assert {(check, step) for check, episode, step in findings() if episode == 2} == checks


def test_a_missing_termination_is_found():
    """Where a step earned less than the threshold the episode must have ended."""
    folder = generate(kill_threshold=0.9)
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/terminations"][-1] = False
        last = len(file["episode_2/rewards"]) - 1
    assert ("termination", 2, last) in findings()


def test_lengths_that_contradict_the_task_are_found():
    """Metadata edited to another episode length contradict the clock and the truncations of every episode."""
    folder = generate()
    edit_metadata(folder, lambda raw: raw["smeoffline"]["task"].update(episode_length=9))
    found = findings()
    assert {("end", i, 6) for i in range(12)}.isdisjoint(found)
    assert {("truncation", i, 6) for i in range(12)} <= set(found)
    assert {("time channel", i, 1) for i in range(12)} <= set(found)


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda ours: ours["task"].update(seed=2), "optimal action"),
        (lambda ours: ours["task"].update(reward_every=2), "reward"),
        (lambda ours: ours["task"].update(state_dim=7), "observation channels"),
        (lambda ours: ours["task"].update(action_dim=5), "action channels"),
        (lambda ours: ours["task"].update(complexity=0), "task"),
        (lambda ours: ours["task"].update(complexty=1), "task"),
        (lambda ours: ours.pop("task"), "task"),
        (lambda ours: ours.update(task=[]), "task"),
        (lambda ours: ours["dataset"].update(episodes=13), "episodes"),
        (lambda ours: ours["dataset"].update(seed=1), "seed"),
        (lambda ours: ours["dataset"].update(seed=-1), "recipe"),
        (lambda ours: ours["dataset"].update(seed=True), "recipe"),
        (lambda ours: ours.pop("dataset"), "recipe"),
        (lambda ours: ours.update(sha256="0" * 64), "content hash"),
        (lambda ours: ours.pop("sha256"), "content hash"),
        (lambda ours: ours["task"].pop("complexity"), "recipe"),
        (lambda ours: ours["behavior"][0].update(nu=0.0), "scores"),
        (lambda ours: ours["behavior"][0].pop("nu"), "recipe"),
        (lambda ours: ours.update(behavior=[{"base": "policy", "policy": "/nowhere.onnx"}]), "recipe"),
        (lambda ours: ours.update(behavior=[]), "recipe"),
        (lambda ours: ours.update(behavior=None), "recipe"),
        (lambda ours: ours.pop("behavior"), "recipe"),
        (lambda ours: ours["scores"].update(headroom=0.5), "scores"),
        (lambda ours: ours["scores"].update(imitation_score="0.5"), "scores"),
        (lambda ours: ours["scores"].update(approximate=True), "scores"),
        (lambda ours: ours.update(scores=None), "scores"),
        (lambda ours: ours.pop("scores"), "scores"),
    ],
)
def test_edited_metadata_are_found(change, check):
    """Metadata that tell of another task, recipe or content than the data are found out."""
    folder = generate()
    edit_metadata(folder, lambda raw: change(raw["smeoffline"]))
    assert check in {f[0] for f in findings()}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda raw: raw.update(ref_min_score=50.0), "returns"),
        (lambda raw: raw.update(ref_max_score=None), "returns"),
        (lambda raw: raw.pop("ref_max_score"), "returns"),
        (
            lambda raw: raw.update(env_spec=raw["env_spec"].replace("smeoffline.sme.env:SMEEnv", "os:system")),
            "env_spec",
        ),
        (lambda raw: raw.update(env_spec=raw["env_spec"].replace('"state_dim": ', '"state_dim": 1')), "env_spec"),
        (lambda raw: raw.pop("env_spec"), "env_spec"),
        (lambda raw: raw.update(env_spec="["), "env_spec"),
    ],
)
def test_what_minari_would_believe_is_checked_too(change, check):
    """The environment that Minari would recover, and its reference returns, are those of the recipe."""
    folder = generate()
    edit_metadata(folder, change)
    assert check in {f[0] for f in findings()}


def test_an_exchanged_seed_is_found():
    """The seed of an episode is that of the recipe, and gives its first state."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2"].attrs["seed"] = 1
    assert findings() == [("seed", 2, None)]
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        one, other = file["episode_2"], file["episode_3"]
        for name in ("observations", "actions", "rewards", "infos/optimal_action", "infos/log_density"):
            one[name][...] = other[name][...]
    assert findings() == [
        ("first observation", 2, 0),
        ("behavior action", 2, 0),
        ("log density", 2, 0),
        ("duplicate", 3, 0),
        ("content hash", None, None),
    ]


def test_a_change_below_the_tolerance_is_found_by_its_bits():
    """One bit anywhere differs from the episode rolled out again, and changes the content hash."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        rewards = file["episode_2/rewards"]
        rewards[3] = np.nextafter(rewards[3], np.float32(9), dtype=np.float32)
    assert findings() == [("bytes", 2, 3), ("content hash", None, None)]


def test_a_density_after_the_last_action_is_found():
    """The entry after an episode's last action is 0."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/infos/log_density"][-1] = 1
    assert findings() == [("log density", 2, 7), ("content hash", None, None)]


def test_optimal_actions_that_are_missing_are_found():
    """A dataset of ours has an optimal action for each observation."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_2/infos/optimal_action"]
    assert ("optimal action", None, None) in findings()


@pytest.mark.parametrize("value", [np.nan, 1e30])
def test_a_number_no_learner_survives_is_the_first_finding(value):
    """NaN or 1e30 is told as that, with episode and step, and causes no other failure."""
    folder = generate(shaping=0.5)
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/actions"][3, 0] = value
        file["episode_2/observations"][4, 0] = value
    assert findings()[:2] == [("observations", 2, 4), ("actions", 2, 3)]


def test_a_broken_episode_does_not_hide_the_others():
    """What is wrong with the shape of one episode leaves the audit of the others, under their own numbers."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_2/rewards"]
        file["episode_9/rewards"][3] += 1
    assert findings() == [("rewards", 2, None), ("reward", 9, 3)]


def test_cutting_into_parts_changes_nothing(monkeypatch):
    """Episodes recomputed in parts of any size give the same findings."""
    folder = generate(**TASKS["killed, every 2"])
    with h5py.File(data_file(folder), "r+") as file:
        for i in (0, 4, 7, 11):
            file[f"episode_{i}/rewards"][-1] += 1
            file[f"episode_{i}/infos/optimal_action"][-1] = 0.5
    whole = findings()
    assert len({f[1] for f in whole}) == 5
    for steps in (1, 10, 30):
        monkeypatch.setattr(replay, "_PART_STEPS", steps)
        assert sorted(findings(), key=str) == sorted(whole, key=str)


def test_findings_of_a_kind_are_limited(monkeypatch):
    """A dataset wrong in every episode is told briefly: some findings of each check, and how many more."""
    monkeypatch.setattr(audit, "TOLD", 3)
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        for i in range(12):
            file[f"episode_{i}/rewards"][2] += 1
    found = [f for f in so.inspect("sme/t-v0").findings if f.check == "reward"]
    assert [(f.episode, f.step) for f in found] == [(0, 2), (1, 2), (2, 2), (None, None)]
    assert found[-1].got == "9 further episodes"


def test_a_finding_reads_as_a_sentence():
    """Expected and got are the numbers; the text names episode, step, check."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        right = file["episode_2/rewards"][3]
        file["episode_2/rewards"][3] += 1
    (finding, _) = so.inspect("sme/t-v0").findings
    assert float(finding.expected) == pytest.approx(right, abs=1e-4)
    assert float(finding.got) == pytest.approx(right + 1, abs=1e-4)
    assert str(finding) == f"episode 2, step 3: reward: expected {finding.expected}, got {finding.got}"


def test_near_a_threshold_both_outcomes_are_accepted():
    """A step reward within 1e-4 of min_reward may have counted or not, depending on the processor."""
    sme = so.Task(min_reward=0.5, kill_threshold=0.5).build()
    state = np.full((1, 8), 0.3, np.float32)
    optimal = sme.optimal_action(state)
    off = np.where(optimal > 0.5, -1, 1).astype(np.float32) * 0.125  # score 0.875: step reward 0.5
    following = sme.transition(state, optimal + off)
    for earned, ok in ((0.0, True), (0.5, True), (0.25, False)):
        part = replay.Part(
            first=0,
            observations=np.concatenate(
                [np.append(state, np.zeros((1, 2)), 1), np.append(following, [[0.01, 0]], 1)]
            ).astype(np.float32),
            actions=optimal + off,
            rewards=np.array([earned], np.float32),
            terminations=np.array([True]),
            truncations=np.array([False]),
            optimal_actions=None,
            log_densities=None,
            lengths=np.array([1]),
        )
        wrong = [m.check for m in replay.Replay(sme, part).mismatches() if len(m.steps)]
        assert wrong == ([] if ok else ["reward"])


def test_the_description_tells_what_a_dataset_is():
    """Task, behavior, sizes, reference scores, hash and versions, as JSON values."""
    generate(complexity=3, shaping=0.5)
    told = so.inspect("sme/t-v0").description
    assert json.loads(json.dumps(told)) == told
    found = store.read("sme/t-v0")
    assert (told["episodes"], told["transitions"], told["complexity"], told["shaping"]) == (12, 84, 3, 0.5)
    assert (told["observation_dim"], told["action_dim"], told["task_seed"]) == (10, 4, 1)
    assert "discount" not in told
    assert told["behavior"] == "bias nu=0.3, probit sigma=0.3"
    assert told["sha256"] == found.provenance["sha256"]
    assert told["mean_return"] == pytest.approx(found.rewards.sum() / 12)
    assert told["recipe"]["task"]["complexity"] == 3
    assert set(told["scores"]) >= {"behavior_score", "headroom"}
    assert "torch" in told["versions"]


def test_the_description_counts_the_episodes_of_each_behavior():
    """Of a mixture, in the order of its recipe, none left out; of a single behavior there is nothing to count."""
    generate(MIXED)
    told = so.inspect("sme/t-v0").description
    components = store.read("sme/t-v0").components
    assert told["behavior_episodes"] == [int((components == i).sum()) for i in range(3)]
    so.generate(so.Task(), MIXED, episodes=1, dataset_id="sme/t-v0", overwrite=True)
    assert sorted(so.inspect("sme/t-v0").description["behavior_episodes"]) == [0, 0, 1]
    generate()
    assert "behavior_episodes" not in so.inspect("sme/t-v0").description


def test_a_foreign_dataset_is_checked_for_structure_alone():
    """A stock Minari dataset has no task: sizes are told, and contradictions in its structure are found."""
    buffer = EpisodeBuffer(
        observations=np.zeros((3, 4), np.float32),
        actions=np.full((2, 1), -5, np.float32),
        rewards=[1.0, 2.0],
        terminations=[False, False],
        truncations=[False, False],
    )
    from gymnasium.spaces import Box

    spaces = {"observation_space": Box(-9, 9, (4,)), "action_space": Box(-9, 9, (1,))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        create_dataset_from_buffers("other/set-v0", [buffer], **spaces)
    found = so.inspect("other/set-v0")
    assert (found.ok, found.dataset_id) == (True, "other/set-v0")
    assert (found.description["transitions"], found.description["smeoffline"]) == (2, False)
    with h5py.File(data_file(store.datasets_root() / "other/set-v0"), "r+") as file:
        file["episode_0/rewards"][1] = np.nan
    assert [(f.check, f.episode, f.step) for f in so.inspect("other/set-v0").findings] == [("rewards", 0, 1)]
    with h5py.File(data_file(store.datasets_root() / "other/set-v0"), "r+") as file:
        file["episode_0/actions"][:] = 1e17
    assert ("actions", 0, 0) in [(f.check, f.episode, f.step) for f in so.inspect("other/set-v0").findings]


def test_nothing_to_inspect_is_told():
    """An unknown id is not found."""
    with pytest.raises(DatasetNotFoundError):
        so.inspect("sme/none-v0")
