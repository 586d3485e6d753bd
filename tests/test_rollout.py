"""Rollouts: episodes are the same bytes however they are made, and every step is what the model says."""

from __future__ import annotations

import random  # noqa: TID251 - a test holds that its state does not change
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import special, stats

from smeoffline.data.acting import Actor
from smeoffline.data.behavior import Behavior
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.rollout import AHEAD, Rollout, rows_per_block
from smeoffline.data.storage.episodes import EpisodeBlock
from smeoffline.data.streams import component_stream, episode_seeds, episode_stream
from smeoffline.sme.env import SMEEnv
from smeoffline.sme.task import Task

ARRAYS = (
    "observations",
    "actions",
    "rewards",
    "terminations",
    "truncations",
    "optimal_actions",
    "log_densities",
)
ALONE = (
    Component(Behavior("bias", 0.3, "probit", 0.3)),
    Component(Behavior("weights", 0.2, "ou", 0.3)),
    Component(Behavior("optimal", explore="gaussian", sigma=0.2)),
    Component(Behavior("bias", 0.1, "uniform", 0.4)),
    Component(Behavior("weights", 0.1)),
    Component(Behavior("random")),
)
EVERY_KIND = tuple(Component(c.behavior, 1 / len(ALONE)) for c in ALONE)
BOTH_DENSITIES = (Component(Behavior("bias", 0.3, "probit", 0.3), 0.75), Component(Behavior("random"), 0.25))


def rolled(recipe: Recipe, workers: int | None = 1) -> list[EpisodeBlock]:
    """All blocks of a recipe."""
    return list(Rollout.prepare(recipe).blocks(workers))


def digests(recipe: Recipe, workers: int | None = 1) -> list[bytes]:
    """The digest of every episode."""
    return [digest for block in rolled(recipe, workers) for digest in block.digests]


def episodes(recipe: Recipe):
    """Each episode as a dict of its own arrays, cut to its length, with its seed and component."""
    for block in rolled(recipe):
        for i, length in enumerate(block.lengths):
            one = {"seed": int(block.seeds[i]), "component": int(block.components[i]), "length": int(length)}
            for name in ARRAYS:
                values = getattr(block, name)
                extra = name in ("observations", "optimal_actions", "log_densities")
                one[name] = None if values is None else values[i, : length + extra]
            yield one


# --- the same bytes ---------------------------------------------------------------------------------

SAME = {
    "mixture": Recipe(Task(state_dim=6, action_dim=9, complexity=2, episode_length=9, shaping=0.3), EVERY_KIND),
    "densities": Recipe(Task(state_dim=5, action_dim=9, complexity=2, episode_length=7), BOTH_DENSITIES),
    "killed": Recipe(
        Task(state_dim=3, action_dim=2, episode_length=12, kill_threshold=0.6, reward_every=4),
        (Component(Behavior("bias", 0.2, "probit", 0.5)),),
    ),
    "one step": Recipe(Task(state_dim=3, action_dim=1, episode_length=1), (Component(Behavior(sigma=0.3)),)),
}


@pytest.mark.parametrize("name", SAME)
def test_episode_is_the_same_bytes_in_any_number(name):
    """Episode i is the same bytes for any number of episodes around it, at and across block boundaries."""
    recipe = replace(SAME[name], episodes=600, seed=5)
    everything = digests(recipe)
    assert len(set(everything)) == 600
    for n in (1, 2, 255, 256, 257, 300, 513):
        assert digests(replace(recipe, episodes=n)) == everything[:n]


@pytest.mark.parametrize("name", SAME)
@pytest.mark.parametrize("workers", [2, 5, None])
def test_episode_is_the_same_bytes_for_any_workers(name, workers):
    """The number of workers changes no byte and no order."""
    recipe = replace(SAME[name], episodes=1300, seed=5)
    assert digests(recipe, workers) == digests(recipe, 1)


@pytest.mark.parametrize("name", SAME)
def test_arrays_are_the_same_bytes_in_any_number(name):
    """What the digests cover is compared once by itself: every array of the first episodes, bit for bit."""
    few, many = (list(episodes(replace(SAME[name], episodes=n))) for n in (3, 300))
    for one, same in zip(few, many, strict=False):
        assert (one["seed"], one["component"], one["length"]) == (
            same["seed"],
            same["component"],
            same["length"],
        )
        for array in ARRAYS:
            if one[array] is None:
                assert same[array] is None
            else:
                assert one[array].tobytes() == same[array].tobytes()


@pytest.mark.parametrize(("length", "rows"), [(1, 256), (400, 256), (1000, 153), (4000, 38), (100_000, 16)])
def test_rows_per_block_depend_on_the_task_alone(length, rows):
    """A block's rows follow from the sizes of the task alone, so that its memory is bounded."""
    assert rows_per_block(Task(episode_length=length)) == rows
    assert rows_per_block(Task(episode_length=length, complexity=50, shaping=0.5, seed=9)) == rows
    assert rows_per_block(Task(episode_length=length, state_dim=300)) <= rows


@pytest.mark.parametrize(("length", "rows"), [(400, 160), (4000, 16)])
def test_long_episodes_are_the_same_bytes_too(length, rows):
    """Where blocks hold fewer rows, their boundaries still change nothing."""
    task = Task(state_dim=3, action_dim=2, episode_length=length)
    recipe = Recipe(task, (Component(Behavior("bias", 0.1, "ou", 0.2)),), episodes=rows + 2)
    few = rows - 1
    assert digests(replace(recipe, episodes=few)) == digests(recipe, 2)[:few]


def test_seeds_can_be_rolled_in_any_order():
    """An episode depends on its seed alone: seeds given backwards give the episodes backwards."""
    recipe = replace(SAME["mixture"], episodes=300)
    seeds = episode_seeds(recipe.seed, 300)[::-1]
    backwards = [d for block in Rollout.prepare(recipe).blocks(2, seeds) for d in block.digests]
    assert backwards == digests(recipe)[::-1]


def test_the_dataset_seed_changes_every_episode():
    """Another seed gives other episodes and another systematic error; the task stays."""
    recipe = replace(SAME["mixture"], episodes=50)
    assert set(digests(recipe)).isdisjoint(digests(replace(recipe, seed=1)))


def test_episode_seeds_are_a_prefix():
    """Fewer episodes have the first seeds of more; all fit Gymnasium's seeds and differ."""
    seeds = episode_seeds(3, 5000)
    np.testing.assert_array_equal(episode_seeds(3, 17), seeds[:17])
    assert seeds.dtype == np.int64
    assert seeds.min() >= 0
    assert len(np.unique(seeds)) == 5000
    assert set(seeds.tolist()).isdisjoint(episode_seeds(4, 5000).tolist())


# --- what it leaves alone -----------------------------------------------------------------------------


def threads_of_a_new_thread() -> int:
    """torch's thread count as a thread that starts now finds it."""
    found: list[int] = []
    worker = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    worker.start()
    worker.join()
    return found[0]


@pytest.fixture
def three_threads():
    """The process uses three torch threads; restored afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield 3
    torch.set_num_threads(before)


def test_the_callers_threads_are_left_alone(three_threads):
    """torch's thread count stays: between blocks, afterwards, after an early end, and in new threads."""
    rollout = Rollout.prepare(replace(SAME["mixture"], episodes=1000))
    blocks = rollout.blocks(2)
    for _ in blocks:
        assert torch.get_num_threads() == three_threads
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (three_threads, three_threads)
    blocks = rollout.blocks(2)
    next(blocks)
    blocks.close()
    assert (torch.get_num_threads(), threads_of_a_new_thread()) == (three_threads, three_threads)


@pytest.mark.usefixtures("three_threads")
def test_the_callers_threads_change_no_byte():
    """Bytes are the same whatever torch's thread count in the calling process."""
    recipe = replace(SAME["mixture"], episodes=20)
    with_three = digests(recipe)
    torch.set_num_threads(1)
    assert digests(recipe) == with_three


def test_no_global_generator_is_touched():
    """Building and rolling draw from streams of their own."""

    def states() -> tuple[object, ...]:
        return (
            random.getstate(),
            np.random.get_state()[1].tobytes(),  # noqa: NPY002 - as above
            torch.get_rng_state().numpy().tobytes(),
        )

    before = states()
    digests(replace(SAME["mixture"], episodes=20))
    assert states() == before


class Counting(Rollout):
    """A rollout that counts the blocks it has started."""

    started = 0
    lock = threading.Lock()

    def block(self, seeds):
        """One block, counted."""
        with self.lock:
            Counting.started += 1
        return super().block(seeds)


@pytest.mark.parametrize("workers", [1, 3])
def test_few_blocks_are_in_memory(workers):
    """A slow consumer holds the workers up: never more than a few blocks a worker are made ahead of it."""
    recipe = Recipe(Task(state_dim=2, action_dim=1, episode_length=1), episodes=256 * 30)
    ready = Rollout.prepare(recipe)
    Counting.started = 0
    taken = 0
    for _ in Counting(ready.recipe, ready.sme, ready.actors).blocks(workers):
        taken += 1
        time.sleep(0.01)  # time for the workers to run away, were nothing to hold them
        assert Counting.started - taken < AHEAD * workers
    assert taken == Counting.started == 30


def test_a_failure_in_a_worker_reaches_the_caller():
    """What goes wrong in a block is raised where the blocks are consumed, and no block is skipped."""

    class Failing(Rollout):
        def block(self, seeds):
            if seeds[0] == third:
                raise ArithmeticError("third block")
            return super().block(seeds)

    recipe = Recipe(Task(state_dim=2, action_dim=1, episode_length=1), episodes=256 * 6)
    third = episode_seeds(recipe.seed, recipe.episodes)[512]
    ready = Rollout.prepare(recipe)
    came = []
    with pytest.raises(ArithmeticError, match="third block"):
        came.extend(Failing(ready.recipe, ready.sme, ready.actors).blocks(2))
    assert len(came) == 2


# --- every step is what the model says ---------------------------------------------------------------

STEPPED = {
    "every kind": Recipe(Task(state_dim=4, action_dim=3, complexity=3, episode_length=20), EVERY_KIND),
    "paid every 6": Recipe(Task(episode_length=20, reward_every=6), (Component(Behavior("bias", 0.3, sigma=0.3)),)),
    "paid once": Recipe(Task(episode_length=5, reward_every=50), (Component(Behavior("bias", 0.1)),)),
    "threshold": Recipe(Task(episode_length=20, min_reward=0.5), (Component(Behavior("weights", 0.2, sigma=0.3)),)),
    "killed": Recipe(Task(episode_length=20, kill_threshold=0.7), (Component(Behavior("bias", 0.1, "ou", 0.15)),)),
    "killed, paid every 3, shaped": Recipe(
        Task(episode_length=20, kill_threshold=0.6, reward_every=3, min_reward=0.3, shaping=0.5, discount=0.9),
        (
            Component(Behavior("bias", 0.1, "probit", 0.3), 0.5),
            Component(Behavior("optimal", explore="uniform", sigma=0.1), 0.5),
        ),
    ),
    "shaped": Recipe(Task(episode_length=20, shaping=0.5), (Component(Behavior("random")),)),
    "T=1": Recipe(Task(episode_length=1), (Component(Behavior("bias", 0.3, sigma=0.3)),)),
    "T=3": Recipe(Task(episode_length=3, reward_every=2), (Component(Behavior("optimal", explore="ou", sigma=0.4)),)),
}
CLOSE = 2e-5  # one step in another batch shape


@pytest.mark.parametrize("name", STEPPED)
def test_every_step_can_be_recomputed(name):
    """From stored observations and actions follow the optimal action, reward, flags and next observation."""
    recipe = replace(STEPPED[name], episodes=40)
    task, sme = recipe.task, recipe.task.build()
    k, ended_early = task.reward_every, 0
    for one in episodes(recipe):
        length, observations, actions = one["length"], one["observations"], one["actions"]
        states = observations[:, :-2]
        np.testing.assert_allclose(one["optimal_actions"], sme.optimal_action(states), atol=CLOSE)
        np.testing.assert_allclose(states[1:], sme.transition(states[:-1], actions), atol=CLOSE)
        np.testing.assert_allclose(observations[:, -2], np.arange(length + 1) / task.episode_length, atol=1e-6)
        scores = 1 - np.abs(actions - sme.optimal_action(states[:-1])).mean(axis=1)
        earned = np.maximum(0, 4 * (scores - 0.75))
        earned[earned <= task.min_reward] = 0
        psi = (np.cos(np.pi * states.astype(np.float64)) * sme.signs).sum(axis=1)
        killed = earned < task.kill_threshold
        accrued, lagged = 0.0, 0.0
        for t in range(length):
            assert observations[t, -1] == pytest.approx(lagged / k, abs=CLOSE)
            lagged, accrued = accrued, accrued + earned[t]
            paid = 0.0
            if (t + 1) % k == 0 or t + 1 == task.episode_length:
                paid, accrued = accrued, 0.0
            after = 0.0 if killed[t] else psi[t + 1]
            paid += task.shaping * (task.discount * after - psi[t])
            assert one["rewards"][t] == pytest.approx(paid, abs=20 * CLOSE)
        assert observations[length, -1] == pytest.approx(lagged / k, abs=CLOSE)
        np.testing.assert_array_equal(one["terminations"], killed[:length])
        np.testing.assert_array_equal(one["truncations"], np.arange(1, length + 1) == task.episode_length)
        assert not killed[: length - 1].any()
        assert killed[length - 1] or length == task.episode_length
        ended_early += length < task.episode_length
    assert (ended_early > 0) == (task.kill_threshold > 0)


@pytest.mark.parametrize("name", STEPPED)
def test_values_and_types(name):
    """Arrays have the documented shapes and types; observations and actions lie in [0, 1]."""
    recipe = replace(STEPPED[name], episodes=7)
    task, (block,) = recipe.task, rolled(recipe)
    steps = task.episode_length
    assert block.observations.shape == (7, steps + 1, task.state_dim + 2)
    assert block.actions.shape == (7, steps, task.action_dim)
    assert block.optimal_actions.shape == (7, steps + 1, task.action_dim)
    for name_, type_ in zip(ARRAYS, (np.float32,) * 3 + (np.bool_,) * 2 + (np.float32,) * 2, strict=True):
        values = getattr(block, name_)
        assert values is None or values.dtype == type_
    for flat in (block.rewards, block.terminations, block.truncations):
        assert flat.shape == (7, steps)
    for one in episodes(recipe):
        assert ((one["observations"] >= 0) & (one["observations"] <= 1)).all()
        assert ((one["actions"] >= 0) & (one["actions"] <= 1)).all()
        assert (one["observations"][0, -2:] == 0).all()


@pytest.mark.parametrize("name", STEPPED)
def test_gymnasium_gives_the_same_episode(name):
    """`env.reset(seed=episode seed)` gives o_0 to the bit, and its first steps are the stored ones."""
    recipe = replace(STEPPED[name], episodes=5)
    env = SMEEnv(**recipe.task.to_dict())
    for one in episodes(recipe):
        observation, _ = env.reset(seed=one["seed"])
        assert observation.tobytes() == one["observations"][0].tobytes()
        for t in range(min(6, one["length"])):
            observation, reward, terminated, truncated, info = env.step(one["actions"][t])
            slack = CLOSE * 4.0**t  # two float programs part by a factor of a few a step
            np.testing.assert_allclose(observation, one["observations"][t + 1], atol=slack)
            np.testing.assert_allclose(info["optimal_action"], one["optimal_actions"][t], atol=slack)
            assert reward == pytest.approx(one["rewards"][t], abs=20 * slack)
            assert (terminated, truncated) == (one["terminations"][t], one["truncations"][t])


def test_optimal_behavior_earns_one_a_step():
    """Acting optimally pays exactly 1 at every step and is never killed, however strict."""
    recipe = Recipe(Task(complexity=2, episode_length=30, kill_threshold=1.0, min_reward=0.99), episodes=300)
    for block in rolled(recipe):
        assert (block.rewards == 1).all()
        assert (block.lengths == 30).all()
        np.testing.assert_array_equal(block.actions, block.optimal_actions[:, :-1])


# --- behaviors ------------------------------------------------------------------------------------


def test_components_come_in_their_shares():
    """Each episode's behavior is drawn with the recipe's shares, one episode independent of another."""
    mix = tuple(Component(Behavior(nu=0.1 * i), share) for i, share in enumerate((0.5, 0.3, 0.2)))
    recipe = Recipe(Task(state_dim=1, action_dim=1, episode_length=1), mix, episodes=4000)
    components = np.concatenate([block.components for block in rolled(recipe)])
    counts = np.bincount(components, minlength=3)
    assert stats.chisquare(counts, 4000 * np.array([0.5, 0.3, 0.2])).pvalue > 1e-4
    repeats = (components[1:] == components[:-1]).mean()
    assert repeats == pytest.approx(0.38, abs=5 * np.sqrt(0.38 * 0.62 / 4000))


def expected_actions(recipe: Recipe, one: dict) -> np.ndarray:
    """An episode's actions from its seed, stored states and optimal actions: the design's table, retold."""
    task, length = recipe.task, one["length"]
    behavior = recipe.mix[one["component"]].behavior
    stream = episode_stream(one["seed"])
    np.testing.assert_array_equal(stream.random(task.state_dim, dtype=np.float32), one["observations"][0, :-2])
    if len(recipe.mix) > 1:
        edges = np.cumsum([c.share for c in recipe.mix])
        assert (stream.random() > edges[:-1]).sum() == one["component"]
    shape = (task.episode_length, task.action_dim)
    if behavior.base == "random":
        return stream.random(shape, dtype=np.float32)[:length]
    u = intended(recipe, one, behavior)[:-1]
    m = special.ndtr(u)
    if behavior.explore == "uniform":
        drawn = stream.random((task.episode_length, 1 + task.action_dim), dtype=np.float32)[:length]
        return np.where(drawn[:, :1] < behavior.sigma, drawn[:, 1:], m)
    eps = stream.standard_normal(shape, dtype=np.float32)
    if behavior.explore == "ou":
        for t in range(1, len(eps)):
            eps[t] = 0.85 * eps[t - 1] + np.sqrt(1 - 0.85**2) * eps[t]
    noise = behavior.sigma * eps[:length]
    return special.ndtr(u + noise) if behavior.explore == "probit" else np.clip(m + noise, 0, 1)


def intended(recipe: Recipe, one: dict, behavior: Behavior) -> np.ndarray:
    """The pre-activation (L+1, N_a) of what the base means to do, from what is stored."""
    once = component_stream(recipe.seed, one["component"])
    u = special.ndtri(one["optimal_actions"].astype(np.float64))
    if behavior.base == "bias":
        u = u + behavior.nu * once.standard_normal(recipe.task.action_dim, dtype=np.float32)
    elif behavior.base == "weights":
        x = one["observations"][:, :-2].astype(np.float64)
        for layer in recipe.task.build().network.layers:
            w = layer.double().numpy()
            error = once.standard_normal(w.shape, dtype=np.float32)
            u = (x - 0.5) @ (w + behavior.nu * np.sqrt((w**2).mean()) * error).T
            x = special.ndtr(u)
    return u


@pytest.mark.parametrize(
    "mix",
    [pytest.param((c,), id=f"{c.behavior.base}-{c.behavior.explore}") for c in ALONE]
    + [pytest.param(EVERY_KIND, id="mixture")],
)
def test_behaviors_act_as_specified(mix):
    """Alone or in a mixture, each episode's actions are its own behavior's on the states it visits."""
    recipe = Recipe(Task(state_dim=4, action_dim=3, complexity=2, episode_length=12), mix, episodes=60, seed=9)
    acted = set()
    for one in episodes(recipe):
        acted.add(one["component"])
        np.testing.assert_allclose(one["actions"], expected_actions(recipe, one), atol=1e-4)
    assert acted == set(range(len(mix)))


def test_rollouts_use_what_is_drawn_once():
    """The systematic error is drawn once a dataset: the bound actors and the episodes show one offset."""
    recipe = Recipe(Task(episode_length=5), (Component(Behavior("bias", 0.4)),), episodes=300)
    rollout = Rollout.prepare(recipe)
    offsets = [
        special.ndtri(one["actions"].astype(np.float64)) - special.ndtri(one["optimal_actions"][:-1].astype(np.float64))
        for one in episodes(recipe)
    ]
    (actor,) = rollout.actors
    assert isinstance(actor, Actor)
    xi = component_stream(recipe.seed, 0).standard_normal(4, dtype=np.float32)
    np.testing.assert_allclose(np.concatenate(offsets), np.broadcast_to(0.4 * xi, (1500, 4)), atol=5e-3)


# --- log-densities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kill", [0.0, 0.6])
def test_log_densities_are_those_of_the_actions(kill):
    """Each log-density is that of the stored action under the behavior that acted; 0 after the last."""
    task = Task(complexity=2, episode_length=12, kill_threshold=kill)
    recipe = Recipe(task, BOTH_DENSITIES, episodes=80)
    xi = component_stream(recipe.seed, 0).standard_normal(4, dtype=np.float32)
    errors = []
    for one in episodes(recipe):
        stored = one["log_densities"]
        assert stored.shape == (one["length"] + 1,)
        assert stored[-1] == 0
        if recipe.mix[one["component"]].behavior.base == "random":
            assert (stored == 0).all()
            continue
        u = special.ndtri(one["actions"].astype(np.float64))
        z = special.ndtri(one["optimal_actions"][:-1].astype(np.float64)) + 0.3 * xi
        density = stats.norm.pdf((u - z) / 0.3) / (0.3 * stats.norm.pdf(u))
        errors.append(stored[:-1] - np.log(density).sum(axis=1))
    # the action is float32: near its bounds u is known to a few digits only
    assert np.abs(np.concatenate(errors)).max() < 0.05
    assert np.median(np.abs(np.concatenate(errors))) < 1e-4


def test_log_densities_past_the_end_are_zero():
    """In the padding of a killed episode no density is left over."""
    (block,) = rolled(Recipe(Task(episode_length=20, kill_threshold=0.7), BOTH_DENSITIES, episodes=50))
    after = np.arange(21) >= block.lengths[:, np.newaxis]
    assert after.sum() > 100
    assert (block.log_densities[after] == 0).all()
    assert (block.log_densities[~after] != 0).any()


@pytest.mark.parametrize(
    ("mix", "known"),
    [
        *[((c,), c.behavior.explore == "probit" or c.behavior.base == "random") for c in ALONE],
        (BOTH_DENSITIES, True),
        (EVERY_KIND, False),
        ((BOTH_DENSITIES[0], Component(Behavior(), 0.25)), False),
    ],
)
def test_log_densities_exist_where_all_behaviors_have_them(mix, known):
    """probit and random have a density; a mixture has one only where each of its behaviors does."""
    (block,) = rolled(Recipe(Task(state_dim=2, action_dim=2, episode_length=2), mix, episodes=3))
    assert (block.log_densities is not None) == known
