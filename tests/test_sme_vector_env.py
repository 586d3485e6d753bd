from __future__ import annotations

import copy
import os
import subprocess
import sys

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics

from smeoffline.errors import SpecError
from smeoffline.sme.env import ENV_ID, SMEEnv
from smeoffline.sme.task import Task
from smeoffline.sme.vector_env import SMEVectorEnv

MAKE_ID = f"smeoffline:{ENV_ID}"
SETTINGS = [
    {"episode_length": 7},
    {"episode_length": 1},
    {"episode_length": 7, "reward_every": 3},
    {"episode_length": 9, "min_reward": 0.5},
    {"episode_length": 5, "kill_threshold": 0.6},
    {"episode_length": 8, "reward_every": 5, "kill_threshold": 0.6, "shaping": 0.5, "complexity": 3},
]


def pair(num_envs: int, **fields: float) -> tuple[SMEVectorEnv, gymnasium.vector.SyncVectorEnv]:
    """The native vector environment, and gymnasium's own around as many single ones."""
    return SMEVectorEnv(num_envs, **fields), gymnasium.vector.SyncVectorEnv(
        [lambda: SMEEnv(**fields) for _ in range(num_envs)]
    )


@pytest.mark.parametrize("num_envs", [1, 5, 40])
@pytest.mark.parametrize("fields", SETTINGS, ids=str)
def test_it_is_as_many_single_environments(fields, num_envs):
    """Step by step, through kills and resets, results, infos and masks equal gymnasium's own vector env's."""
    native, reference = pair(num_envs, **fields)
    observations, infos = native.reset(seed=11)
    expected, expected_infos = reference.reset(seed=11)
    np.testing.assert_array_equal(observations, expected)
    assert infos == expected_infos == {}
    rng, seen = np.random.default_rng(0), np.zeros(3, np.int64)
    for _ in range(30):
        optimal = native.sme.optimal_action(observations[:, :-2])
        actions = np.clip(optimal + rng.normal(0, 0.1, optimal.shape), 0, 1).astype(np.float32)
        observations, rewards, terminations, truncations, infos = native.step(actions)
        expected = reference.step(actions)
        np.testing.assert_array_equal(observations[:, :-1], expected[0][:, :-1])
        # One row and a block of 40 differ in the last bits of the optimum, so of every reward.
        np.testing.assert_allclose(observations[:, -1], expected[0][:, -1], rtol=0, atol=1e-5)
        np.testing.assert_allclose(rewards, expected[1], rtol=0, atol=1e-4)
        np.testing.assert_array_equal(terminations, expected[2])
        np.testing.assert_array_equal(truncations, expected[3])
        for name in ("optimal_action", "score", "step_reward"):
            present = expected[4].get(f"_{name}", np.zeros(num_envs, np.bool_))
            np.testing.assert_array_equal(infos[f"_{name}"], present)
            values = expected[4].get(name, np.zeros(infos[name].shape))
            np.testing.assert_allclose(infos[name], values, rtol=0, atol=1e-5)
        seen += [terminations.sum(), truncations.sum(), (~infos["_score"]).sum()]
    if num_envs > 1:
        assert (seen[0] > 0) == ("kill_threshold" in fields)
        assert seen[1] > 0
    assert seen[2] > 0  # resets did happen
    native.close()
    reference.close()


def test_returns_have_the_spaces_types_and_shapes():
    """Observations lie in the batched space; rewards are floats, flags booleans, one a copy."""
    env = SMEVectorEnv(3, state_dim=2, action_dim=1)
    observations, _ = env.reset(seed=0)
    assert env.observation_space.shape == (3, 4)
    assert env.action_space.shape == (3, 1)
    assert env.observation_space.contains(observations)
    env.action_space.seed(0)
    observations, rewards, terminations, truncations, _ = env.step(env.action_space.sample())
    assert env.observation_space.contains(observations)
    assert (rewards.shape, rewards.dtype.kind) == ((3,), "f")
    assert (terminations.shape, terminations.dtype) == ((3,), np.bool_)
    assert (truncations.shape, truncations.dtype) == ((3,), np.bool_)


def test_copies_start_differently_and_seeds_add_up():
    """An int seed gives copy i the seed + i, a list one each, None continues each copy's own stream."""
    env = SMEVectorEnv(3)
    counted, _ = env.reset(seed=4)
    assert len({row.tobytes() for row in counted}) == 3
    np.testing.assert_array_equal(env.reset(seed=[4, 5, 6])[0], counted)
    np.testing.assert_array_equal(env.reset(seed=np.int64(4))[0], counted)
    np.testing.assert_array_equal(env.reset(seed=np.array([4, 5, 6]))[0], counted)
    later = [env.reset()[0], env.reset()[0]]
    assert not np.array_equal(*later)
    env.reset(seed=4)
    np.testing.assert_array_equal([env.reset()[0], env.reset()[0]], later)
    env.reset(seed=4)
    mixed, _ = env.reset(seed=[None, 5, None])
    np.testing.assert_array_equal(mixed[1], counted[1])
    np.testing.assert_array_equal(mixed[[0, 2]], later[0][[0, 2]])
    assert not np.array_equal(SMEVectorEnv(2).reset()[0], SMEVectorEnv(2).reset()[0])


def test_a_reset_in_mid_episode_starts_all_copies_again():
    """After an explicit reset every copy is at t=0, nothing is accrued, and nobody is reset once more."""
    env = SMEVectorEnv(2, episode_length=3, reward_every=3)
    actions = np.full((2, 4), 0.5, np.float32)
    env.reset(seed=0)
    for _ in range(3):
        truncations = env.step(actions)[3]
    assert truncations.all()
    first, _ = env.reset(seed=0)
    np.testing.assert_array_equal(first[:, -2:], 0)
    observations, _, _, _, infos = env.step(actions)
    np.testing.assert_array_equal(observations[:, -2], np.float32(1 / 3))
    assert infos["_score"].all()


@pytest.mark.parametrize(
    ("seed", "error"),
    [
        ([1, 2], ValueError),
        ([1, 2, 3, 4], ValueError),
        (-1, gymnasium.error.Error),
        ([0, -1, 2], gymnasium.error.Error),
        ([0, 1.5, 2], TypeError),
        (1.5, TypeError),
    ],
    ids=str,
)
def test_bad_seeds_are_refused(seed, error):
    """Another number of seeds than copies, negative or fractional seeds are errors, never rounded."""
    with pytest.raises(error):
        SMEVectorEnv(3).reset(seed=seed)


@pytest.mark.parametrize("num_envs", [0, -1, 1.5, True, None, "3", 10**9])
def test_bad_numbers_of_copies_are_refused(num_envs):
    """Not a whole number of at least one copy: a SpecError that names num_envs."""
    with pytest.raises(SpecError, match="num_envs"):
        SMEVectorEnv(num_envs)


@pytest.mark.parametrize(
    ("actions", "text"),
    [
        (np.zeros((2, 4)), r"shape \(3, 4\), got \(2, 4\)"),
        (np.zeros((3, 3)), r"shape \(3, 4\), got \(3, 3\)"),
        (np.zeros(4), r"shape \(3, 4\), got \(4,\)"),
        (0.5, r"shape \(3, 4\), got \(\)"),
        (np.full((3, 4), np.nan), "finite"),
        ([[0, 0, 0, 0], [0, 0, np.inf, 0], [0, 0, 0, 0]], r"got inf at index \(1, 2\)"),
    ],
)
def test_bad_actions_are_value_errors_and_leave_the_episodes_as_they_were(actions, text):
    """A wrong shape (one action for all included) or a value that is not finite is refused; nothing moves."""
    env, twin = SMEVectorEnv(3), SMEVectorEnv(3)
    env.reset(seed=0)
    twin.reset(seed=0)
    with pytest.raises(ValueError, match=text) as caught:
        env.step(actions)
    assert "\n" not in str(caught.value)
    good = np.full((3, 4), 0.5)
    np.testing.assert_array_equal(env.step(good)[0], twin.step(good)[0])


def test_step_before_reset_is_an_error():
    """step before reset raises ResetNeeded."""
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        SMEVectorEnv(2).step(np.zeros((2, 4), np.float32))


def test_make_vec_makes_the_native_one():
    """make_vec of the id is the native vector environment with the task of its arguments."""
    env = gymnasium.make_vec(MAKE_ID, num_envs=4, state_dim=3, complexity=2, seed=9)
    assert type(env.unwrapped) is SMEVectorEnv
    assert env.num_envs == 4
    assert env.unwrapped.task == Task(state_dim=3, complexity=2, seed=9)
    assert env.reset(seed=0)[0].shape == (4, 5)
    env.close()
    env.close()


def test_make_vec_sync_is_the_same_task():
    """make_vec(vectorization_mode="sync") gives the same observations as the native one."""
    native = gymnasium.make_vec(MAKE_ID, num_envs=2, complexity=2)
    sync = gymnasium.make_vec(MAKE_ID, num_envs=2, vectorization_mode="sync", complexity=2)
    np.testing.assert_array_equal(native.reset(seed=3)[0], sync.reset(seed=3)[0])
    actions = np.full((2, 4), 0.5, np.float32)
    np.testing.assert_array_equal(native.step(actions)[0], sync.step(actions)[0])
    native.close()
    sync.close()


ASYNC = """
import gymnasium, numpy as np, torch
torch.set_num_threads(2)
a = torch.rand(800, 800)
(a @ a).sum()  # starts OpenMP's threads, which forked workers do not have
make = dict(id="smeoffline:smeoffline/SME-v0", num_envs=2, complexity=20, episode_length=3)
native = gymnasium.make_vec(**make)
workers = gymnasium.make_vec(**make, vectorization_mode="async")
assert np.array_equal(native.reset(seed=3)[0], workers.reset(seed=3)[0])
for _ in range(5):
    actions = np.full((2, 4), 0.5, np.float32)
    one, other = native.step(actions), workers.step(actions)
    assert np.array_equal(one[0], other[0])
    assert np.allclose(one[1], other[1], rtol=0, atol=1e-4)
    assert np.array_equal(one[3], other[3])
workers.close()
native.close()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="gymnasium's workers are forked")
def test_make_vec_async_works_after_torch_was_used():
    """Environments in forked worker processes step, reset and close, and equal the native ones."""
    subprocess.run([sys.executable, "-c", ASYNC], check=True, timeout=120)


def test_gymnasiums_episode_statistics_add_up():
    """RecordEpisodeStatistics around it reports lengths of T, and the optimum's return of T."""
    env = RecordEpisodeStatistics(SMEVectorEnv(3, episode_length=6))
    observations, _ = env.reset(seed=0)
    for _ in range(6):
        optimal = env.unwrapped.sme.optimal_action(observations[:, :-2])
        observations, _, _, truncations, infos = env.step(optimal)
    assert truncations.all()
    np.testing.assert_array_equal(infos["episode"]["l"], 6)
    np.testing.assert_array_equal(infos["episode"]["r"], 6)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: cloudpickle.loads(cloudpickle.dumps(x))])
def test_a_copy_goes_on_alone(duplicate):
    """A copied vector env continues with the same steps and resets, and moves only itself."""
    env = SMEVectorEnv(3, episode_length=4, reward_every=3)
    env.reset(seed=0)
    actions = np.full((3, 4), 0.5, np.float32)
    env.step(actions)
    twin = duplicate(env)
    from_twin = [twin.step(actions)[:4] for _ in range(9)]
    from_env = [env.step(actions)[:4] for _ in range(9)]
    for one, other in zip(from_twin, from_env, strict=True):
        for a, b in zip(one, other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_returned_arrays_are_the_callers_own():
    """Writing into observations, flags or infos changes no later step, also across a reset."""
    env, twin = SMEVectorEnv(2, episode_length=2), SMEVectorEnv(2, episode_length=2)
    actions = np.full((2, 4), 0.5, np.float32)
    env.reset(seed=0)[0][:] = 7
    twin.reset(seed=0)
    for _ in range(5):
        got, expected = env.step(actions), twin.step(actions)
        for a, b in zip(got[:4], expected[:4], strict=True):
            np.testing.assert_array_equal(a, b)
        for array in (*got[:4], *got[4].values()):
            array[:] = 1


def test_earlier_observations_do_not_change_later():
    """What a step returned stays as it was when copies are reset afterwards."""
    env = SMEVectorEnv(2, episode_length=2)
    actions = np.full((2, 4), 0.5, np.float32)
    kept = [env.reset(seed=0)[0]]
    copies = [kept[0].copy()]
    for _ in range(5):
        kept.append(env.step(actions)[0])
        copies.append(kept[-1].copy())
    for one, other in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(one, other)
