from __future__ import annotations

import copy
import warnings

import cloudpickle
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from smeoffline.errors import SpecError
from smeoffline.sme.env import ENV_ID, SMEEnv
from smeoffline.sme.task import Task

MAKE_ID = f"smeoffline:{ENV_ID}"
SETTINGS = [
    {},
    {"state_dim": 1, "action_dim": 1},
    {"state_dim": 2, "action_dim": 5, "complexity": 3, "seed": 0},
    {"episode_length": 2},  # gymnasium's checker itself refuses episodes of one step
    {"reward_every": 5, "kill_threshold": 0.5},
    {"kill_threshold": 1.0, "min_reward": 0.5},
    {"shaping": 0.5, "discount": 0.9},
]


def play(env: SMEEnv, seed: int, steps: int = 30) -> list[tuple]:
    """One episode of near-optimal actions: everything `step` returned, without the infos."""
    rng = np.random.default_rng(seed)
    observation, _ = env.reset(seed=seed)
    record = [observation]
    for _ in range(steps):
        optimal = env.sme.optimal_action(observation[np.newaxis, :-2])[0]
        action = np.clip(optimal + rng.normal(0, 0.1, optimal.shape), 0, 1).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)
        record.append((observation, reward, terminated, truncated))
        if terminated or truncated:
            break
    return record


def same(one: list, other: list) -> bool:
    """Whether two records of `play` are equal to the bit."""
    return repr(one) == repr(other) and np.array_equal(
        np.concatenate([np.ravel(x[0]) for x in one[1:]]), np.concatenate([np.ravel(x[0]) for x in other[1:]])
    )


@pytest.mark.parametrize("fields", SETTINGS, ids=str)
def test_gymnasiums_checker_has_nothing_to_say(fields):
    """check_env passes, with every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(MAKE_ID, **fields).unwrapped)


def test_make_builds_the_task_of_its_arguments():
    """gymnasium.make passes every field on; T, k, L and the others arrive in the task."""
    task = Task(
        state_dim=3,
        action_dim=2,
        complexity=2,
        episode_length=7,
        reward_every=2,
        min_reward=0.1,
        kill_threshold=0.2,
        shaping=0.3,
        discount=0.5,
        seed=11,
    )
    env = gymnasium.make(MAKE_ID, **task.to_dict())
    assert env.unwrapped.task == task
    assert env.observation_space == gymnasium.spaces.Box(0, 1, (5,), np.float32)
    assert env.action_space == gymnasium.spaces.Box(0, 1, (2,), np.float32)
    assert env.spec.id == ENV_ID
    env.close()


def test_a_made_environment_plays_under_gymnasiums_own_checks_and_truncates_at_t():
    """With make's checker around it every step passes without warning, and the T-th truncates."""
    with gymnasium.make(MAKE_ID, episode_length=5) as env:
        env.action_space.seed(0)
        env.reset(seed=0)
        ends = [env.step(env.action_space.sample())[2:4] for _ in range(5)]
    assert ends == [(False, False)] * 4 + [(False, True)]


def test_a_misspelled_field_is_named_with_the_nearest():
    """make(..., complxity=5) fails with the field that was meant."""
    with pytest.raises(SpecError, match="unknown key 'complxity'; did you mean 'complexity'"):
        gymnasium.make(MAKE_ID, complxity=5)
    with pytest.raises(SpecError, match="reward_every"):
        SMEEnv(reward_every=0)


def test_the_seed_of_reset_decides_the_episode():
    """Equal seeds give equal episodes to the bit, in one env and in two; another seed gives another."""
    env, other = SMEEnv(complexity=3), SMEEnv(complexity=3)
    first = play(env, seed=5)
    assert same(first, play(env, seed=5))
    assert same(first, play(other, seed=5))
    assert not same(first, play(env, seed=6))


def test_the_first_state_is_the_first_draw_of_the_seeds_generator():
    """reset(seed=i) starts where numpy's default generator of that seed says, so datasets can be replayed."""
    env = SMEEnv()
    for seed in (0, 1, 2**40):
        observation, info = env.reset(seed=seed)
        np.testing.assert_array_equal(observation[:-2], np.random.default_rng(seed).random(8, dtype=np.float32))
        np.testing.assert_array_equal(observation[-2:], 0)
        assert info == {}


def test_resets_without_a_seed_differ():
    """Later resets continue the seeded stream; environments never seeded start differently."""
    env = SMEEnv()
    seeded = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    again = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0]]
    np.testing.assert_array_equal(seeded, again)
    assert len({o.tobytes() for o in seeded}) == 3
    assert not np.array_equal(SMEEnv().reset()[0], SMEEnv().reset()[0])


def test_the_task_seed_does_not_decide_the_episode_nor_the_other_way_round():
    """The same reset seed starts every task in the same state, and resetting leaves the weights alone."""
    env, other = SMEEnv(seed=1), SMEEnv(seed=2)
    np.testing.assert_array_equal(env.reset(seed=0)[0], other.reset(seed=0)[0])
    assert not np.array_equal(env.sme.weights, other.sme.weights)
    before = env.sme.weights.copy()
    env.reset(seed=9)
    np.testing.assert_array_equal(env.sme.weights, before)


def test_the_info_is_about_the_state_the_action_was_taken_in():
    """optimal_action, score and step_reward are of the state before the step, unaccrued and unshaped."""
    env = SMEEnv(reward_every=5, shaping=0.5, complexity=2)
    observation, _ = env.reset(seed=0)
    state, action = observation[np.newaxis, :-2], np.full(4, 0.5, np.float32)
    _, _, _, _, info = env.step(action)
    optimal = env.sme.optimal_action(state)
    np.testing.assert_array_equal(info["optimal_action"], optimal[0])
    score = 1 - np.abs(optimal[0].astype(float) - 0.5).mean()
    assert info["score"] == pytest.approx(score, abs=1e-6)
    assert info["step_reward"] == pytest.approx(max(0, 4 * (score - 0.75)), abs=1e-5)
    _, reward, _, _, info = env.step(info["optimal_action"])
    assert set(info) == {"optimal_action", "score", "step_reward"}
    assert abs(reward) > 0  # the shaping, paid at once


def test_rewards_are_paid_every_k_steps_and_at_truncation():
    """With k=3 and T=8 the optimum is paid 3, 3 and 2, after steps 3, 6 and 8; the channel lags one step."""
    env = SMEEnv(reward_every=3, episode_length=8)
    observation, _ = env.reset(seed=0)
    paid, accrued = [], []
    for _ in range(8):
        action = env.sme.optimal_action(observation[np.newaxis, :-2])[0]
        observation, reward, *_ = env.step(action)
        paid.append(reward)
        accrued.append(observation[-1])
    assert paid == [0, 0, 3, 0, 0, 3, 0, 2]
    np.testing.assert_allclose(accrued, np.float32([0, 1, 2, 0, 1, 2, 0, 1]) / 3, rtol=1e-6)


def test_what_is_accrued_is_lost_on_a_kill():
    """A killed step pays nothing unless it is a paying one, and terminates without truncating."""
    env = SMEEnv(reward_every=3, episode_length=8, kill_threshold=0.5, state_dim=2, action_dim=1)
    observation, _ = env.reset(seed=0)
    env.step(env.sme.optimal_action(observation[np.newaxis, :-2])[0])
    optimal = env.sme.optimal_action(env._state)[0]
    far = np.where(optimal > 0.5, np.float32(0), np.float32(1))
    observation, reward, terminated, truncated, _ = env.step(far)
    assert (reward, terminated, truncated) == (0.0, True, False)
    assert observation[-1] == np.float32(1) / np.float32(3)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (np.zeros((1, 4)), r"expected an action of shape \(4,\), got \(1, 4\)"),
        (np.zeros(3), r"expected an action of shape \(4,\), got \(3,\)"),
        (0.5, r"expected an action of shape \(4,\), got \(\)"),
        (None, r"expected an action of shape \(4,\), got \(\)"),
        ([0.1, np.nan, 0.1, 0.1], "finite"),
        ([0.1, np.inf, 0.1, 0.1], "finite"),
        ([0.1, 0.1, -np.inf, 0.1], r"got -inf at index \(2,\)"),
        ([0.1, 0.1, 0.1, 3e38], "finite"),
        ([0.1, 1e300, 0.1, 0.1], "finite"),
    ],
)
def test_bad_actions_are_value_errors_and_leave_the_episode_as_it_was(action, text):
    """A wrong shape or a value that is not finite is refused in one line, and moves nothing."""
    env, twin = SMEEnv(), SMEEnv()
    env.reset(seed=0)
    twin.reset(seed=0)
    with pytest.raises(ValueError, match=text) as caught:
        env.step(action)
    assert "\n" not in str(caught.value)
    good = np.full(4, 0.5)
    np.testing.assert_array_equal(env.step(good)[0], twin.step(good)[0])


def test_actions_out_of_the_cube_are_taken_as_they_are():
    """An action beyond [0, 1] is not clipped: it scores less than the corner and leads elsewhere."""
    scores, observations = [], []
    for action in ([1, 1, 1, 1], [1.5, 1.5, 1.5, 1.5]):
        env = SMEEnv()
        env.reset(seed=0)
        observation, _, _, _, info = env.step(np.float32(action))
        scores.append(info["score"])
        observations.append(observation)
    assert scores[1] == pytest.approx(scores[0] - 0.5, abs=1e-6)
    assert not np.array_equal(*observations)


def test_stepping_where_no_episode_runs_is_an_error():
    """step before reset, after truncation and after a kill raises ResetNeeded, and reset cures it."""
    env = SMEEnv(episode_length=2)
    action = np.full(4, 0.5, np.float32)
    with pytest.raises(gymnasium.error.ResetNeeded, match=r"call reset\(\) first"):
        env.step(action)
    env.reset(seed=0)
    env.step(action)
    assert env.step(action)[3]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(action)
    env.reset()
    assert not env.step(action)[3]
    killed = SMEEnv(kill_threshold=1.0)
    killed.reset(seed=0)
    assert killed.step(action)[2]
    with pytest.raises(gymnasium.error.ResetNeeded):
        killed.step(action)


def test_closing_twice_is_allowed():
    """close() can be called twice, and a with block closes."""
    env = SMEEnv()
    env.reset(seed=0)
    env.close()
    env.close()
    with SMEEnv() as env:
        env.reset()


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: cloudpickle.loads(cloudpickle.dumps(x))])
def test_a_copy_in_mid_episode_goes_on_alone(duplicate):
    """A copied env continues with the same steps, later resets and accrual, and moves only itself."""
    env = SMEEnv(reward_every=4, complexity=2)
    env.reset(seed=0)
    action = np.full(4, 0.5, np.float32)
    env.step(action)
    twin = duplicate(env)
    from_twin = [twin.step(action)[:4] for _ in range(5)] + [twin.reset()[0]]
    from_env = [env.step(action)[:4] for _ in range(5)] + [env.reset()[0]]
    assert repr(from_twin) == repr(from_env)
    np.testing.assert_array_equal(from_twin[-1], from_env[-1])


def test_returned_arrays_are_the_callers_own():
    """Writing into an observation or an info changes no later step."""
    env, twin = SMEEnv(), SMEEnv()
    action = np.full(4, 0.5, np.float32)
    env.reset(seed=0)[0][:] = 7
    twin.reset(seed=0)
    observation, _, _, _, info = env.step(action)
    twin.step(action)
    observation[:] = 7
    info["optimal_action"][:] = 7
    np.testing.assert_array_equal(env.step(action)[0], twin.step(action)[0])
