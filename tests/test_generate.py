"""Generate: a recipe becomes a Minari dataset with everything known about it, whole or not at all."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import minari
import numpy as np
import pytest
import torch

import smeoffline as so
from smeoffline.data import generate as module
from smeoffline.data.behavior import Behavior
from smeoffline.data.generate import Generated, generate, generate_recipe
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.reference import reference_returns, references
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.data.storage.episodes import content_sha256
from smeoffline.errors import DatasetError, DatasetExistsError, SpecError
from smeoffline.sme.machine import platform_tag
from smeoffline.sme.task import Task

TASK = Task(state_dim=3, action_dim=2, episode_length=10)
MIX = ((Behavior("bias", 0.3, "probit", 0.3), 0.75), (Behavior("random"), 0.25))
RECIPES = {
    "biased": Recipe(TASK, (Component(Behavior(nu=0.1)),), episodes=20),
    "mixture": Recipe(TASK, tuple(Component(b, s) for b, s in MIX), episodes=300, seed=4),
    "killed": Recipe(
        replace(TASK, kill_threshold=0.7, reward_every=3), (Component(Behavior("bias", 0.1, "ou", 0.2)),), 30
    ),
    "shaped": Recipe(replace(TASK, shaping=0.5), (Component(Behavior("weights", 0.2, "uniform", 0.2)),), 20),
    "one step": Recipe(replace(TASK, episode_length=1), (Component(Behavior(sigma=0.3)),), episodes=5),
    "three steps": Recipe(replace(TASK, episode_length=3), (Component(Behavior()),), episodes=5),
}


def files_under(root: Path) -> list[str]:
    """Every file below a folder, and every folder but namespaces."""
    return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.name != "namespace_metadata.json")


def flat(recipe: Recipe) -> dict[str, np.ndarray | None]:
    """What the recipe rolls, as the store gives it back."""
    blocks = list(Rollout.prepare(recipe).blocks(1))

    def joined(name: str, extra: int) -> np.ndarray | None:
        if getattr(blocks[0], name) is None:
            return None
        return np.concatenate(
            [getattr(block, name)[i, : length + extra] for block in blocks for i, length in enumerate(block.lengths)]
        )

    one_more = {"observations": 1, "optimal_actions": 1, "log_densities": 1}
    names = ("observations", "actions", "rewards", "terminations", "truncations", *list(one_more)[1:])
    arrays = {name: joined(name, one_more.get(name, 0)) for name in names}
    for name in ("lengths", "seeds", "components"):
        arrays[name] = np.concatenate([getattr(block, name) for block in blocks])
    return arrays


# --- what is written ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_what_is_stored_is_what_was_rolled(name):
    """Read back, a dataset is the recipe's episodes bit for bit, in order, with their seeds and behaviors."""
    recipe = RECIPES[name]
    made = generate_recipe(recipe)
    dataset, expected = store.read(made.dataset_id), flat(recipe)
    for array, values in expected.items():
        found = getattr(dataset, array)
        if values is None or (array == "components" and len(recipe.mix) == 1):
            assert found is None
        else:
            assert found.dtype == values.dtype
            assert found.tobytes() == values.tobytes(), array
    assert made.transitions == len(dataset.rewards) == expected["lengths"].sum()
    assert made.episodes == recipe.episodes == len(dataset.lengths)
    assert made.path == dataset.path


@pytest.mark.parametrize("name", RECIPES)
def test_minari_opens_it(name):
    """Stock `minari.load_dataset` gives T+1 observations and T of all else for every episode, as stored."""
    recipe = RECIPES[name]
    made, expected = generate_recipe(recipe), flat(recipe)
    dataset = minari.load_dataset(made.dataset_id)
    assert (dataset.total_episodes, dataset.total_steps) == (recipe.episodes, made.transitions)
    assert dataset.spec.observation_space.shape == (recipe.task.state_dim + 2,)
    assert dataset.spec.action_space.shape == (recipe.task.action_dim,)
    start = 0
    for i, episode in enumerate(dataset.iterate_episodes()):
        length = expected["lengths"][i]
        assert episode.actions.shape == (length, recipe.task.action_dim)
        observations = expected["observations"][start + i : start + i + length + 1]
        np.testing.assert_array_equal(episode.observations, observations)
        for key in ("actions", "rewards", "terminations", "truncations"):
            np.testing.assert_array_equal(getattr(episode, key), expected[key][start : start + length])
        best = expected["optimal_actions"][start + i : start + i + length + 1]
        np.testing.assert_array_equal(episode.infos["optimal_action"], best)
        assert ("log_density" in episode.infos) == (expected["log_densities"] is not None)
        start += length


def test_a_single_step_comes_back_exactly():
    """At T=1 each episode is one whole transition (s0, a0, r0, s1), truncated and not terminal."""
    made = generate_recipe(RECIPES["one step"])
    sme = RECIPES["one step"].task.build()
    episodes = list(minari.load_dataset(made.dataset_id).iterate_episodes())
    assert len(episodes) == 5
    for episode in episodes:
        assert episode.observations.shape == (2, 5)
        assert episode.actions.shape == (1, 2)
        assert (episode.truncations.tolist(), episode.terminations.tolist()) == ([True], [False])
        s0, s1 = episode.observations[:, :-2]
        np.testing.assert_allclose(sme.transition(s0[None], episode.actions)[0], s1, atol=2e-5)


def test_rewards_can_be_recomputed_from_the_dataset_alone():
    """From a dataset and the task in its metadata, r_t follows from o_t and a_t for every step."""
    made = generate_recipe(replace(RECIPES["mixture"], name="mine/data-v0"))
    dataset = store.read(made.dataset_id)
    sme = Task.from_dict(dataset.provenance["task"]).build()
    starts = np.cumsum(dataset.lengths + 1) - (dataset.lengths + 1)
    last = starts + dataset.lengths
    before = np.delete(dataset.observations, last, axis=0)
    rewards = sme.reward(sme.score(dataset.actions, sme.optimal_action(before[:, :-2])))
    np.testing.assert_allclose(dataset.rewards, rewards, atol=1e-4)
    after = np.delete(dataset.observations, starts, axis=0)
    np.testing.assert_allclose(after[:, :-2], sme.transition(before[:, :-2], dataset.actions), atol=1e-4)


RECOVER = """
import sys, json, numpy, minari
dataset = minari.load_dataset(sys.argv[1])
assert not any(name.startswith("smeoffline") for name in sys.modules)
env = dataset.recover_environment()
episode = dataset[3]
seed = int(json.loads(sys.argv[2]))
observation, _ = env.reset(seed=seed)
assert observation.tobytes() == episode.observations[0].tobytes(), (observation, episode.observations[0])
observation, reward, terminated, truncated, _ = env.step(episode.actions[0])
numpy.testing.assert_allclose(observation, episode.observations[1], atol=1e-4)
numpy.testing.assert_allclose(reward, episode.rewards[0], atol=1e-3)
print(env.spec.id, env.unwrapped.task.shaping, env.unwrapped.task.state_dim)
"""


def test_minari_recovers_the_environment_without_us():
    """A process that never imported this package gets the environment from Minari, and replays the data."""
    made = generate_recipe(RECIPES["shaped"])
    seed = store.read(made.dataset_id).seeds[3]
    done = subprocess.run(
        [sys.executable, "-W", "error::UserWarning:smeoffline", "-c", RECOVER, made.dataset_id, str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["smeoffline/SME-v0", "0.5", "3"]


# --- the same bytes -------------------------------------------------------------------------------


def test_the_same_arguments_give_the_same_hash():
    """Twice, and with any workers, a recipe has one sha256; another seed, length or task another."""
    recipe = RECIPES["mixture"]
    hashes = {generate_recipe(recipe, workers=n, overwrite=True).sha256 for n in (None, None, 1, 2)}
    assert len(hashes) == 1
    others = [
        replace(recipe, seed=5),
        replace(recipe, episodes=299),
        replace(recipe, task=replace(TASK, seed=2)),
        replace(recipe, mix=(Component(recipe.mix[0].behavior),)),
    ]
    assert len(hashes | {generate_recipe(other).sha256 for other in others}) == 5


def test_the_hash_is_that_of_the_episodes():
    """The reported, the stored and the recomputed content hash are one, and the name is no part of it."""
    recipe = RECIPES["killed"]
    made = generate_recipe(recipe)
    digests = [digest for block in Rollout.prepare(recipe).blocks(2) for digest in block.digests]
    assert made.sha256 == content_sha256(digests)
    assert store.read(made.dataset_id).provenance["sha256"] == made.sha256
    assert generate_recipe(replace(recipe, name="mine/copy-v3")).sha256 == made.sha256


def test_seed_zero_is_stored_as_zero():
    """Seed 0 is a seed like any other: stored as 0, and the same dataset each time (Minari#172)."""
    one = generate(TASK, Behavior(nu=0.1), episodes=3, seed=0, dataset_id="one/a-v0")
    two = generate(TASK, Behavior(nu=0.1), episodes=3, dataset_id="two/a-v0")
    three = generate(TASK, Behavior(nu=0.1), episodes=3, seed=1, dataset_id="three/a-v0")
    assert one.sha256 == two.sha256 != three.sha256
    stored = store.read("one/a-v0").provenance["dataset"]["seed"]
    assert stored == 0
    assert type(stored) is int
    assert store.read("three/a-v0").provenance["dataset"]["seed"] == 1


@pytest.mark.parametrize("name", RECIPES)
def test_provenance_regenerates_the_dataset(name):
    """The recipe in a dataset's metadata is the one it was made from, and makes the same bytes again."""
    made = generate_recipe(RECIPES[name])
    told = store.read(made.dataset_id).provenance
    again = Recipe.from_dict({key: told[key] for key in ("task", "behavior", "dataset")})
    assert again == RECIPES[name]
    assert generate_recipe(again, overwrite=True).sha256 == made.sha256


# --- what is said about it --------------------------------------------------------------------------


@pytest.mark.parametrize("name", RECIPES)
def test_metadata_is_complete(name):
    """Minari's own fields and the object `smeoffline` hold all that the design lists."""
    recipe = RECIPES[name]
    made = generate_recipe(recipe)
    raw = json.loads((made.path / "data" / "metadata.json").read_text())
    assert raw["dataset_id"] == made.dataset_id == recipe.dataset_id
    assert (raw["total_episodes"], raw["total_steps"]) == (made.episodes, made.transitions)
    assert raw["description"].startswith("Synthetic Monitoring Environment")
    assert recipe.mix[0].behavior.base in raw["algorithm_name"]
    rollout = Rollout.prepare(recipe)
    assert (raw["ref_min_score"], raw["ref_max_score"]) == reference_returns(rollout)
    assert raw["ref_min_score"] < raw["ref_max_score"]
    ours = raw["smeoffline"]
    rows = references(rollout).to_dict()
    assert ours == {
        "schema": store.SCHEMA,
        **recipe.to_dict(),
        "scores": rows,
        "sha256": made.sha256,
        "platform": platform_tag(),
        "versions": ours["versions"],
    }
    assert ours["versions"]["smeoffline"] == so.__version__
    for package in ("torch", "numpy", "scipy", "gymnasium", "minari", "h5py"):
        assert ours["versions"][package] == importlib.metadata.version(package)
    kwargs = json.loads(raw["env_spec"])["kwargs"]
    assert kwargs == recipe.task.to_dict()


def test_metadata_names_no_place(tmp_path):
    """A dataset can be given away: its metadata names no folder of the machine that made it."""
    made = generate_recipe(RECIPES["biased"])
    text = (made.path / "data" / "metadata.json").read_text()
    assert str(made.path).startswith(str(tmp_path))
    assert str(tmp_path) not in text
    assert str(Path.cwd()) not in text


def test_the_result_is_json_with_every_documented_field():
    """`to_dict` gives plain JSON values under the names that the command prints."""
    made = generate_recipe(RECIPES["biased"])
    record = made.to_dict()
    assert json.loads(json.dumps(record)) == record
    documented = {
        "dataset_id", "path", "episodes", "transitions", "behavior_score", "imitation_score", "headroom",
        "sha256", "seconds",
    }  # fmt: skip
    rows = {
        "clone_mean_score", "clone_median_score", "clone_shrunk_score", "random_score", "optimal_score", "approximate",
    }  # fmt: skip
    assert set(record) == documented | rows
    assert record["headroom"] == 1 - record["imitation_score"]
    assert record["path"] == str(made.path)
    assert made.seconds > 0
    assert len(made.sha256) == 64
    assert isinstance(made, Generated)


def test_several_behaviors_are_given_with_their_shares():
    """A list of (behavior, share) is a mixture; each episode's behavior is stored with it."""
    made = generate(TASK, MIX, episodes=300, seed=4)
    assert made.dataset_id == RECIPES["mixture"].dataset_id
    assert made.references.approximate
    components = store.read(made.dataset_id).components
    assert (components == 0).mean() == pytest.approx(0.75, abs=5 * np.sqrt(0.75 * 0.25 / 300))
    told = store.read(made.dataset_id).provenance["behavior"]
    assert [part["share"] for part in told] == [0.75, 0.25]


def test_without_a_behavior_the_optimum_acts():
    """`generate(task)` is a dataset of optimal actions: every reward is 1."""
    made = generate(TASK, episodes=4)
    assert (store.read(made.dataset_id).rewards == 1).all()
    assert made.behavior_score == pytest.approx(1, abs=1e-6)


def test_the_papers_behavior_scores_as_the_paper_says():
    """nu 0.1 at complexity 50 acts with a score of 0.95 to 1.0, told and by its stored actions."""
    made = generate(Task(complexity=50), Behavior(nu=0.1), episodes=8)
    assert made.dataset_id == "sme/s8a4-c50-bias-nu0p1-n8-v0"
    assert 0.95 < made.behavior_score < 1.0
    dataset = store.read(made.dataset_id)
    before = np.delete(dataset.optimal_actions, np.cumsum(dataset.lengths + 1) - 1, axis=0)
    acted = 1 - np.abs(dataset.actions - before).mean()
    assert acted == pytest.approx(made.behavior_score, abs=0.005)


# --- progress -----------------------------------------------------------------------------------------


def test_progress_grows_to_the_total():
    """Progress is called in the caller's thread, grows with every block, and ends at all transitions."""
    calls = []
    recipe = replace(RECIPES["biased"], episodes=1000)

    def progress(done: int, total: int) -> None:
        assert threading.current_thread() is threading.main_thread()
        calls.append((done, total))

    generate_recipe(recipe, workers=2, progress=progress)
    assert [total for _, total in calls] == [10_000] * 4
    assert [done for done, _ in calls] == [2560, 5120, 7680, 10_000]


def test_progress_fills_the_bar_where_episodes_were_killed():
    """The total is what there could be; the last call says that all there was is done."""
    calls = []
    made = generate_recipe(RECIPES["killed"], progress=lambda *call: calls.append(call))
    assert made.transitions < 300
    assert calls == [(made.transitions, 300), (made.transitions, made.transitions)]
    assert made.transitions < 300


# --- whole or not at all --------------------------------------------------------------------------------


def test_an_existing_id_is_refused_before_any_work(minari_root, monkeypatch):
    """A taken id is refused at once and the dataset stays; `overwrite` replaces it."""
    recipe = RECIPES["biased"]
    made = generate_recipe(recipe)
    before = (made.path / "data" / "main_data.hdf5").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(Rollout, "prepare", lambda _: pytest.fail("rolled for an id that is taken"))
        with pytest.raises(DatasetExistsError, match=made.dataset_id):
            generate_recipe(recipe)
    assert (made.path / "data" / "main_data.hdf5").read_bytes() == before
    other = generate_recipe(replace(recipe, seed=9, name=recipe.dataset_id), overwrite=True)
    assert other.sha256 != made.sha256
    assert store.read(made.dataset_id).provenance["sha256"] == other.sha256
    assert files_under(minari_root)[-2:] == [
        f"{made.dataset_id}/data/main_data.hdf5",
        f"{made.dataset_id}/data/metadata.json",
    ]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "two", 10_000])
def test_impossible_workers_are_refused(workers, minari_root):
    """A number of workers that cannot be is refused by name, before anything is made."""
    with pytest.raises(SpecError, match="generate: workers"):
        generate_recipe(RECIPES["biased"], workers=workers)
    assert files_under(minari_root) == []


@pytest.mark.parametrize("name", ["", "no version", "a b-v0", "../up-v0", "x/y", "/abs-v0", "a-v0/", "a-v-1"])
def test_an_id_that_minari_forbids_is_refused(name, minari_root):
    """An id that Minari would not take is refused in one line, and leaves nothing."""
    with pytest.raises(DatasetError) as caught:
        generate_recipe(replace(RECIPES["biased"], name=name))
    assert "\n" not in str(caught.value)
    assert files_under(minari_root) == []
    assert files_under(minari_root.parent) == ["minari"]


@pytest.mark.parametrize("where", ["references", "metadata", "content_sha256", "reference_returns"])
def test_a_failure_leaves_nothing_and_the_retry_works(where, minari_root, monkeypatch):
    """What goes wrong after the episodes leaves nothing that blocks the next call (case 19)."""
    recipe = RECIPES["biased"]

    def fail(*_: object) -> None:
        raise ArithmeticError(where)

    with monkeypatch.context() as patch:
        patch.setattr(module, where, fail)
        with pytest.raises(ArithmeticError, match=where):
            generate_recipe(recipe)
    assert files_under(minari_root) in ([], ["sme"])
    assert generate_recipe(recipe).path.is_dir()


def test_a_failed_overwrite_keeps_the_old_dataset(monkeypatch):
    """Until the new dataset is whole, the old one of the same id stays as it is."""
    recipe = RECIPES["biased"]
    made = generate_recipe(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(module, "references", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            generate_recipe(replace(recipe, seed=1, name=made.dataset_id), overwrite=True)
    assert store.read(made.dataset_id).provenance["sha256"] == made.sha256
    assert [p.name for p in made.path.parent.iterdir() if p.name != "namespace_metadata.json"] == [made.path.name]


def test_an_interrupt_leaves_nothing_and_returns_at_once(minari_root, monkeypatch):
    """Ctrl-C in the middle: no file is left, few blocks are finished, and no thread works on."""
    rolled = []
    original = Rollout.block

    def slow(self: Rollout, seeds: np.ndarray) -> object:
        rolled.append(len(seeds))
        time.sleep(0.05)
        return original(self, seeds)

    def interrupt(done: int, _: int) -> None:
        if done > 2 * 2560:
            raise KeyboardInterrupt

    recipe = replace(RECIPES["mixture"], episodes=256 * 60)
    recipe.task.build().optimal_action(np.zeros((100, 3), np.float32))  # starts the threads that stay
    before, threads = set(threading.enumerate()), torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(Rollout, "block", slow)
        with pytest.raises(KeyboardInterrupt) as caught:
            generate_recipe(recipe, workers=2, progress=interrupt)
    assert caught.tb is not None  # still held, as an interactive session holds it
    assert set(threading.enumerate()) == before
    assert len(rolled) <= 3 + 2 * 2
    assert files_under(minari_root) in ([], ["sme"])
    assert torch.get_num_threads() == threads
    again = generate_recipe(replace(recipe, episodes=3, name=recipe.dataset_id), overwrite=False)
    assert again.path.is_dir()
