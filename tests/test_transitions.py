from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_data import dataset

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import DatasetFaultError, TrainingError
from smeoffline.train.transitions import Transitions, next_actions, returns_to_go

lengths = st.lists(st.integers(1, 7), min_size=1, max_size=6).map(tuple)


def test_a_truncated_episode_trains_on_all_its_steps():
    """An episode of 3 steps that was truncated gives 3 transitions, none of them terminal (case 3)."""
    data = Transitions.from_dataset(dataset((3,), killed=()))
    assert len(data) == 3
    assert data.terminals.tolist() == [False, False, False]
    assert data.timeouts.tolist() == [False, False, True]


def test_a_terminated_episode_ends_terminal():
    """Only the last step of an episode that terminated is terminal, and it is no timeout."""
    data = Transitions.from_dataset(dataset((3, 2), killed=(0,)))
    assert data.terminals.tolist() == [False, False, True, False, False]
    assert data.timeouts.tolist() == [False, False, False, False, True]


def test_an_episode_that_ends_without_a_flag_was_cut():
    """Where the recording just stops, the last step is a timeout, so that its value is bootstrapped."""
    none = np.zeros(3, np.bool_)
    data = Transitions.from_dataset(dataset((3,), terminations=none, truncations=none))
    assert data.timeouts.tolist() == [False, False, True]


def test_the_last_next_observation_is_the_final_state():
    """The next observation of an episode's last step is the stored s_T, not the last observation (case 4)."""
    stored = dataset((3, 2))
    data = Transitions.from_dataset(stored)
    np.testing.assert_array_equal(data.next_observations[2], stored.observations[3])
    np.testing.assert_array_equal(data.next_observations[4], stored.observations[6])
    assert not np.array_equal(data.next_observations[2], data.observations[2])


def test_an_episode_of_one_step():
    """At T=1, (s0, a0, r0, s1) is the one transition."""
    stored = dataset((1,))
    data = Transitions.from_dataset(stored)
    np.testing.assert_array_equal(data.observations, stored.observations[:1])
    np.testing.assert_array_equal(data.next_observations, stored.observations[1:])


@given(lengths, st.integers(0, 3))
def test_every_row_is_its_own_episodes(lengths, killed):
    """Rows pair up step by step inside each episode, none is missing, none crosses a boundary (case 6)."""
    stored = dataset(lengths, killed=(killed,))
    data = Transitions.from_dataset(stored)
    rows, start = [], 0
    for episode, length in enumerate(lengths):
        for t in range(length):
            last = t == length - 1
            rows.append(
                (
                    start + episode + t,
                    start + t,
                    episode,
                    last and episode == killed,
                    last and episode != killed,
                )
            )
        start += length
    assert len(data) == len(rows) == sum(lengths)
    for i, (observation, step, episode, terminal, timeout) in enumerate(rows):
        np.testing.assert_array_equal(data.observations[i], stored.observations[observation])
        np.testing.assert_array_equal(data.next_observations[i], stored.observations[observation + 1])
        np.testing.assert_array_equal(data.actions[i], stored.actions[step])
        assert data.rewards[i] == stored.rewards[step]
        assert (data.episodes[i], data.terminals[i], data.timeouts[i]) == (episode, terminal, timeout)


def test_there_is_no_way_to_the_optimal_action():
    """No field or attribute of the transitions leads to the optimal actions that the dataset has."""
    stored = dataset()
    data = Transitions.from_dataset(stored)
    assert {f.name for f in dataclasses.fields(data)} == {
        "observations", "actions", "rewards", "next_observations", "terminals", "timeouts", "episodes",
    }  # fmt: skip
    assert not hasattr(data, "optimal_actions")
    for field in dataclasses.fields(data):
        assert not np.shares_memory(getattr(data, field.name), stored.optimal_actions)


@given(lengths, st.floats(0, 1))
def test_returns_to_go_are_discounted_sums(lengths, gamma):
    """Each row's return is the discounted sum of its episode's rewards from there on."""
    data = Transitions.from_dataset(dataset(lengths))
    expected = [
        sum(
            gamma ** (j - i) * float(data.rewards[j])
            for j in range(i, len(data))
            if data.episodes[j] == data.episodes[i]
        )
        for i in range(len(data))
    ]
    np.testing.assert_allclose(returns_to_go(data, gamma), expected, rtol=1e-5)


@given(lengths)
def test_next_actions_stay_in_the_episode(lengths):
    """The next action is the one of the row below, and zero in an episode's last row."""
    data = Transitions.from_dataset(dataset(lengths))
    found = next_actions(data)
    for i in range(len(data)):
        expected = np.zeros(3) if data.ends[i] else data.actions[i + 1]
        np.testing.assert_array_equal(found[i], expected)


@pytest.mark.parametrize("name", ["observations", "actions", "rewards"])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_value_that_is_not_finite_is_refused(name, value):
    """NaN or infinity in the data is refused, naming the episode and step (case 10)."""
    stored = dataset((4, 4))
    broken = getattr(stored, name).copy()
    row = 7 if name == "observations" else 6
    broken[row] = value
    with pytest.raises(DatasetFaultError, match=rf"episode 1, step 2: expected finite {name}"):
        Transitions.from_dataset(dataclasses.replace(stored, **{name: broken}))


def test_an_episode_that_goes_on_after_its_end_is_refused():
    """A termination in the middle of an episode is a fault, naming the episode and step."""
    stored = dataset((4, 4))
    flags = stored.terminations.copy()
    flags[5] = True
    with pytest.raises(DatasetFaultError, match=r"episode 1, step 1: .* got 2 more steps"):
        Transitions.from_dataset(dataclasses.replace(stored, terminations=flags))


def test_lengths_that_contradict_the_arrays_are_refused():
    """T observations for T steps, the classic misalignment, is a fault and not a shifted dataset."""
    stored = dataset((4, 4))
    with pytest.raises(DatasetFaultError, match="expected 10 rows for 2 episodes"):
        Transitions.from_dataset(dataclasses.replace(stored, observations=stored.observations[:8]))


def test_our_action_space_is_the_unit_box():
    """A dataset of ours has actions in [0, 1], whatever its actions happen to span."""
    assert ActionBox.of(dataset()) == ActionBox((0.0,) * 3, (1.0,) * 3)


def test_the_action_space_of_another_dataset_is_read():
    """The bounds of a dataset that is not ours come from its metadata."""
    space = '{"type": "Box", "shape": [3], "low": [-2.0, -2.0, 0.0], "high": [2.0, 2.0, 4.0]}'
    box = ActionBox.of(dataset(metadata={"action_space": space}))
    assert box == ActionBox((-2.0, -2.0, 0.0), (2.0, 2.0, 4.0))
    np.testing.assert_allclose(box.to_unit_interval(np.array([[-2, 0, 4]], np.float32)), [[-1, 0, 1]])


@pytest.mark.parametrize(
    ("space", "message"),
    [
        ('{"type": "Discrete", "n": 3}', "a Discrete space"),
        ("{}", "no readable action_space"),
        ("not json", "no readable action_space"),
        ('{"type": "Box", "low": [-Infinity, 0, 0], "high": [1, 1, 1]}', "finite bounds"),
        ('{"type": "Box", "low": [-3e38, 0, 0], "high": [3e38, 1, 1]}', "finite bounds"),
        ('{"type": "Box", "low": [1, 0, 0], "high": [1.000000000001, 1, 1]}', "finite bounds"),
        ('{"type": "Box", "low": [[0], [0, 0]], "high": [1, 1, 1]}', "to be numbers"),
        ('{"type": "Box", "low": "none", "high": [1, 1, 1]}', "to be numbers"),
        ('{"type": "Box", "low": [0, 0], "high": [1, 1]}', "bounds for 3 action channels, got 2"),
    ],
)
def test_an_action_space_that_no_policy_can_fill_is_refused(space, message):
    """Discrete, unknown or unbounded actions are refused in one line that says what is needed."""
    with pytest.raises(TrainingError, match=message):
        ActionBox.of(dataset(metadata={"action_space": space}))


def test_an_action_outside_the_space_is_refused():
    """One action of 1e30 is refused, naming the episode and step, before a loss is infinite (case 10)."""
    stored = dataset((4, 4))
    actions = stored.actions.copy()
    actions[6, 1] = 1e30
    with pytest.raises(DatasetFaultError, match="episode 1, step 2: expected actions between"):
        ActionBox.of(dataclasses.replace(stored, actions=actions))
