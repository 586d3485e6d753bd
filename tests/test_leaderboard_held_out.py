"""Held-out tasks: of the public kind, decided by the salt alone, and out of reach of the public seeds."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from boards import SUITE, tiny

from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.held_out import LONGEST, Salt, held_out, transitions
from smeoffline.bench.suite import Suite
from smeoffline.data.generate import generate_recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.errors import BenchmarkError
from smeoffline.sme.model import Sme
from smeoffline.sme.task import Task
from smeoffline.train.transitions import Transitions

SALT = Salt(b"0123456789abcdef0123456789abcdef")
TASKS = [Task(), Task(state_dim=3, action_dim=5), Task(complexity=4), Task(state_dim=200, action_dim=150, complexity=2)]


def stream(seed=0):
    """A stream of a seed."""
    return np.random.Generator(np.random.PCG64(seed))


def arrays(data):
    """All arrays of transitions, by name."""
    return {field.name: getattr(data, field.name) for field in dataclasses.fields(data)}


@pytest.mark.parametrize("task", TASKS, ids=lambda t: f"{t.state_dim}-{t.action_dim}-{t.complexity}")
def test_a_task_of_a_stream_is_of_the_published_kind(task):
    """Its draws have the published shapes, types and constraints: orthogonal layers, rows that sum to 1."""
    drawn, published = Sme(task, stream()), task.build()
    for name in ("initial_state", "weights", "bias", "signs"):
        ours, theirs = getattr(drawn, name), getattr(published, name)
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        assert not np.array_equal(ours, theirs) or name == "signs"
    assert (drawn.weights >= 0).all()
    np.testing.assert_allclose(drawn.weights.sum(axis=1), 1, atol=1e-5)
    for ours, theirs in zip(drawn.network.layers, published.network.layers, strict=True):
        assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
        matrix = ours.numpy() / math.sqrt(12)
        short = matrix if len(matrix) <= matrix.shape[1] else matrix.T
        np.testing.assert_allclose(short @ short.T, np.eye(len(short)), atol=1e-5)


def test_orthogonal_layers_favor_no_direction():
    """Over many draws each entry of a layer has mean 0 and the published variance, 12 / N_s."""
    task = Task(state_dim=4, action_dim=2)
    layers = np.stack([Sme(task, stream(i)).network.layers[0].numpy() for i in range(2000)])
    np.testing.assert_allclose(layers.mean(axis=0), 0, atol=0.15)  # five standard errors
    np.testing.assert_allclose((layers**2).mean(axis=0), 3, atol=0.35)


def test_the_same_stream_gives_the_same_task_and_another_another():
    """A task is decided by its stream, not by the task's seed."""
    states = stream(9).random((50, 8), dtype=np.float32)
    one, other = Sme(Task(seed=1), stream(5)), Sme(Task(seed=2), stream(5))
    np.testing.assert_array_equal(one.optimal_action(states), other.optimal_action(states))
    np.testing.assert_array_equal(one.signs, other.signs)
    assert not np.allclose(one.optimal_action(states), Sme(Task(), stream(6)).optimal_action(states), atol=0.05)


def test_the_published_tasks_are_as_they_were():
    """Without a stream a task is drawn from its seed, as before (parity with sme-rl has its own test)."""
    np.testing.assert_array_equal(Sme(Task()).bias, Task().build().bias)


def test_a_salt_decides_task_offsets_and_episodes():
    """The same salt gives the same data; another salt, dataset or seed gives other tasks, errors and episodes."""
    place, neighbor = tiny().places[:2]
    one, again = (transitions(held_out(place, SALT)) for _ in range(2))
    for name, array in arrays(one).items():
        np.testing.assert_array_equal(array, getattr(again, name))
    salts = [SALT, Salt(SALT.secret + b"!")]
    rollouts = [held_out(place, salts[0]), held_out(place, salts[1]), held_out(neighbor, salts[0])]
    rollouts.append(Rollout.prepare(place.recipe))
    for values in (
        [r.sme.bias.tobytes() for r in rollouts],
        [r.actors[0]._offset.tobytes() for r in rollouts],
        [transitions(r).observations.tobytes() for r in rollouts],
    ):
        assert len(set(values)) == len(rollouts)


def test_the_name_of_a_draw_tells_nothing_of_the_salt():
    """It is the same for one salt, differs between salts, and the salt is not in what is printed of it."""
    assert SALT.draw == Salt(SALT.secret).draw != Salt(SALT.secret + b"!").draw
    assert SALT.secret.decode() not in repr(SALT) + SALT.draw


@pytest.mark.parametrize("lines", ["", "task.kill_threshold = 0.5", "task.reward_every = 3", "task.shaping = 0.5"])
def test_data_in_memory_are_those_of_the_dataset(lines):
    """What an entrant gets for a public dataset is what training reads of it, array by array."""
    suite = Suite.from_toml(SUITE.replace("[[datasets]]\n", f"[[datasets]]\n{lines}\n", 1), name="tiny")
    recipe = Board(suite).places[0].recipe
    made = generate_recipe(recipe)
    stored = Transitions.from_dataset(store.read(made.dataset_id))
    for name, array in arrays(transitions(Rollout.prepare(recipe))).items():
        np.testing.assert_array_equal(array, getattr(stored, name), err_msg=name)
        assert array.dtype == getattr(stored, name).dtype


@pytest.mark.parametrize(
    ("content", "told"),
    [(None, "can't be read"), (b"short", "expected 16 to"), (b" " * 40, "got 0"), (b"x" * (LONGEST + 1), "got more")],
)
def test_a_salt_that_is_no_secret_is_refused(content, told, tmp_path):
    """A missing, short, empty or endless salt is one line that says how to make one."""
    path = tmp_path / "salt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BenchmarkError, match=told) as caught:
        Salt.read(path)
    assert "openssl rand" in str(caught.value)
