"""Training is exactly d3rlpy's, exactly repeatable and exactly resumable, whatever the algorithm."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import torch
from train_data import NAMES, A, D, dataset, same_bits, small_settings, small_trainer, weights

from smeoffline.data.storage.store import Dataset
from smeoffline.train.algorithms import ALGORITHMS
from smeoffline.train.checkpoint import load_checkpoint, save_checkpoint
from smeoffline.train.trainer import TorchStream, _config, d3rlpy
from smeoffline.train.transitions import Transitions, returns_to_go

STEPS = 6


@functools.cache
def trained(name: str, steps: int) -> dict[str, np.ndarray]:
    """The weights after some steps in one go."""
    trainer = small_trainer(name)
    trainer.advance(steps)
    return weights(trainer)


def d3rlpy_weights(name: str, stored: Dataset, batches: list[np.ndarray]) -> dict[str, np.ndarray]:
    """The weights that a user of d3rlpy gets from its public `update`, with its own action scaler.

    Args:
        name: The algorithm.
        stored: The dataset.
        batches: Row numbers of each.
    """
    algorithm, library = ALGORITHMS[name], d3rlpy()
    config = _config(algorithm, small_settings(algorithm))
    zeros, ones = np.zeros(A, np.float32), np.ones(A, np.float32)
    config.action_scaler = library.preprocessing.MinMaxActionScaler(minimum=zeros, maximum=ones)
    algo = config.create("cpu:0")
    data = Transitions.from_dataset(stored)
    ends = np.cumsum(stored.lengths)
    if name == "prdc":
        algo._nbsr.fit(np.concatenate([data.observations * config.beta, data.actions * 2 - 1], axis=1))

    def transition(i: int):
        last = ends[data.episodes[i]] - 1
        return library.dataset.Transition(
            observation=data.observations[i],
            action=data.actions[i],
            reward=data.rewards[i : i + 1],
            next_observation=data.next_observations[i],
            next_action=data.actions[i + 1] if i < last else zeros,
            terminal=float(data.terminals[i]),
            interval=1,
            rewards_to_go=data.rewards[i : last + 1, np.newaxis],
        )

    with TorchStream(0).use():
        algo.create_impl((D,), A)
        for rows in batches:
            batch = library.dataset.TransitionMiniBatch.from_transitions([transition(i) for i in rows])
            algo.update(batch)
    return {
        f"{module}.{key}": value.numpy()
        for module, network in algo.impl.modules.get_torch_modules().items()
        for key, value in network.state_dict().items()
    }


@pytest.mark.parametrize("name", NAMES)
def test_our_updates_are_d3rlpys(name):
    """The same batches through d3rlpy's public `update` give the same weights to the last bit."""
    stored = dataset()
    rows = np.arange(200)
    if name == "rebrac":
        rows = rows[~Transitions.from_dataset(stored).timeouts]
    indices = np.random.default_rng(0)
    batches = [rows[indices.integers(len(rows), size=8)] for _ in range(STEPS)]
    theirs, ours = d3rlpy_weights(name, stored, batches), trained(name, STEPS)
    if name == "calql":  # d3rlpy sums returns-to-go in float32, we in float64
        assert all(np.allclose(ours[key], theirs[key], atol=1e-6) for key in theirs)
    else:
        assert same_bits(ours, theirs)


@pytest.mark.parametrize("name", NAMES)
def test_resuming_is_exact(name, tmp_path):
    """Half the steps, a checkpoint file and the other half equal all steps, bit for bit (case 14)."""
    first, second = small_trainer(name), small_trainer(name)
    first.advance(STEPS)
    save_checkpoint(tmp_path, first.state())
    second.load_state(load_checkpoint(tmp_path))
    assert second.step == STEPS
    second.advance(2 * STEPS)
    assert same_bits(weights(second), trained(name, 2 * STEPS))


@pytest.mark.parametrize("name", NAMES)
def test_looking_changes_nothing(name):
    """Acting, asking for values and torch's global generator leave training as it was (case 15)."""
    watched = small_trainer(name)
    observations, actions = np.full((5, D), 0.5, np.float32), np.full((5, A), 0.5, np.float32)
    for step in range(1, STEPS + 1):
        watched.advance(step)
        watched.learner.act(observations)
        watched.learner.values(observations, actions)
        torch.rand(3)
    assert same_bits(weights(watched), trained(name, STEPS))


@pytest.mark.parametrize("name", NAMES)
def test_another_seed_gives_other_weights(name):
    """The seed reaches the initial weights and the batches."""
    other = small_trainer(name, seed=1)
    other.advance(STEPS)
    assert not same_bits(weights(other), trained(name, STEPS))


def test_the_callers_generator_and_threads_are_left_alone():
    """Training restores torch's global generator and thread count, on which it does not depend."""
    torch.manual_seed(5)  # noqa: TID251 - the caller's
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    trainer = small_trainer("sac")
    trainer.advance(3)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.manual_seed(6)  # noqa: TID251 - the caller's
    again = small_trainer("sac")
    again.advance(3)
    assert same_bits(weights(trainer), weights(again))


def test_training_uses_one_thread():
    """Inside a stream torch computes on one thread, so that processes beside each other scale."""
    with TorchStream(0).use():
        assert torch.get_num_threads() == 1


def test_neighbors_belong_to_one_learner():
    """Two PRDC learners on different data search each its own, where d3rlpy's class shares one search."""
    one = small_trainer("prdc", data=dataset(seed=0))
    other = small_trainer("prdc", data=dataset((4,) * 9, seed=1))
    assert one.learner.impl._nbsr is not other.learner.impl._nbsr
    assert one.learner.impl._nbsr.n_samples_fit_ == 200
    assert other.learner.impl._nbsr.n_samples_fit_ == 36


def test_rebrac_alone_drops_the_rows_without_a_next_action():
    """Only rebrac leaves out the last step of a truncated episode; the last of a terminated one stays."""
    stored = dataset((4, 4, 4), killed=(1,))
    assert len(small_trainer("rebrac", data=stored)._batches) == 10
    assert len(small_trainer("td3", data=stored)._batches) == 12


def test_calql_gets_returns_and_the_others_none():
    """Cal-QL's batches hold the discounted returns-to-go of their rows."""
    stored = dataset()
    data = Transitions.from_dataset(stored)
    batch = small_trainer("calql", data=stored)._batches.gather(torch.tensor([0, 5, 19]))
    np.testing.assert_allclose(batch.returns_to_go[:, 0].numpy(), returns_to_go(data, 0.99)[[0, 5, 19]])
    assert not small_trainer("cql", data=stored)._batches.gather(torch.tensor([0])).returns_to_go.any()


def test_scaling_is_of_the_space_not_of_the_data():
    """Actions that span [0.2, 0.4] are scaled as actions in [0, 1], and observations not at all (case 9)."""
    stored = dataset()
    narrow = dataset(actions=0.2 + 0.2 * stored.actions)
    batch = small_trainer("bc", data=narrow)._batches.gather(torch.arange(200))
    np.testing.assert_allclose(batch.actions.numpy(), 2 * narrow.actions - 1, atol=1e-6)
    np.testing.assert_array_equal(batch.observations.numpy(), Transitions.from_dataset(narrow).observations)


def test_a_constant_channel_trains():
    """A constant observation channel, as the accrued reward at k=1, gives finite losses (case 12)."""
    stored = dataset()
    observations = stored.observations.copy()
    observations[:, -1] = 0
    losses = small_trainer("iql", data=dataset(observations=observations)).advance(STEPS)
    assert np.isfinite([list(step.values()) for step in losses]).all()


def test_critics_can_be_asked():
    """The values of every critic are there for diagnostics: Q of each critic, V where there is one."""
    observations, actions = np.full((5, D), 0.5, np.float32), np.full((5, A), 0.5, np.float32)
    values = small_trainer("iql").learner.values(observations, actions)
    assert {name: v.shape for name, v in values.items()} == {"q_funcs": (2, 5), "value_func": (5,)}
    assert small_trainer("bc").learner.values(observations, actions) == {}
    batch = np.float32(2) * torch.from_numpy(actions) - 1
    trainer = small_trainer("td3")
    with torch.no_grad():
        expected = trainer.learner.impl.predict_value(torch.from_numpy(observations), batch)
    np.testing.assert_allclose(trainer.learner.values(observations, actions)["q_funcs"].mean(0), expected, rtol=1e-5)
