"""Roll a recipe's behaviors through its task, in blocks of a fixed number of episodes.

Every block steps the same number of rows in lockstep (the last one is filled with episodes that are then
dropped), on one thread; blocks run in parallel. So episode i is the same bytes for any number of
episodes >= i + 1, any number of workers and any order.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from smeoffline.data.acting import Acting, Actor
from smeoffline.data.exploration import phi
from smeoffline.data.recipe import Recipe
from smeoffline.data.storage.episodes import EpisodeBlock
from smeoffline.data.streams import component_stream, episode_seeds, episode_stream
from smeoffline.sme.arrays import Bools, Floats, Ints
from smeoffline.sme.blocks import BLOCK_ROWS, worker_pool
from smeoffline.sme.episode import Progress, advance, observe, shaping_reward
from smeoffline.sme.model import Sme, score, step_reward
from smeoffline.sme.task import Task

BLOCK_FLOATS = 4_000_000  # of a block, about: bounds its memory at 16 MB where episodes are not very long
MIN_ROWS = 16
AHEAD = 2  # blocks in flight per worker: enough to keep all busy while one is written


def rows_per_block(task: Task) -> int:
    """Episodes that are stepped together: a function of the task alone, so that bytes don't depend on the run."""
    floats = task.episode_length * (task.state_dim + 2 + 4 * task.action_dim)
    return int(np.clip(BLOCK_FLOATS // floats, MIN_ROWS, BLOCK_ROWS))


@dataclass(frozen=True)
class Rollout:
    """A recipe made ready to roll: the built task and its bound behaviors.

    Attributes:
        recipe: The spec.
        sme: Its built task.
        actors: One per component of the mix.
    """

    recipe: Recipe
    sme: Sme
    actors: tuple[Acting, ...]

    @classmethod
    def prepare(cls, recipe: Recipe) -> Rollout:
        """Build the task and draw what is drawn once per dataset."""
        sme = recipe.task.build()
        actors: tuple[Acting, ...] = tuple(
            Actor(c.behavior, sme, component_stream(recipe.seed, i)) for i, c in enumerate(recipe.mix)
        )
        return cls(recipe, sme, actors)

    @property
    def has_density(self) -> bool:
        """Whether every behavior's log-density is known in closed form."""
        return all(actor.exploration.has_density for actor in self.actors)

    def blocks(self, workers: int | None = None, seeds: Ints | None = None) -> Generator[EpisodeBlock, None, None]:
        """All episodes, in order, computed in parallel; a few blocks are in memory at a time.

        Args:
            workers: Threads; None for every core this process may use.
            seeds: (n,) episode seeds; None for those of the recipe.
        """
        if seeds is None:
            seeds = episode_seeds(self.recipe.seed, self.recipe.episodes)
        rows = rows_per_block(self.recipe.task)
        parts = [seeds[start : start + rows] for start in range(0, len(seeds), rows)]
        with worker_pool(workers) as pool:
            yield from _in_order(pool, self.block, parts)

    def block(self, seeds: Ints) -> EpisodeBlock:
        """The episodes of up to `rows_per_block` seeds; call it where torch uses one thread."""
        return _roll(self, seeds)


def _in_order(
    pool: ThreadPoolExecutor, function: Callable[[Ints], EpisodeBlock], parts: list[Ints]
) -> Iterator[EpisodeBlock]:
    """Map in order with a bounded number of results in memory (Executor.map submits everything at once)."""
    waiting: collections.deque[Future[EpisodeBlock]] = collections.deque()
    limit = AHEAD * pool._max_workers
    for part in parts:
        waiting.append(pool.submit(function, part))
        if len(waiting) >= limit:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@dataclass(frozen=True)
class _Draws:
    """All that is random in a block: initial states (n, N_s), components (n,), noise (T, n, width) per component."""

    states: Floats
    components: Ints
    noise: list[Floats]


def _draw(rollout: Rollout, seeds: Ints, rows: int) -> _Draws:
    """Draw every episode of a block from its own stream; rows beyond the seeds stay zero."""
    task, actors = rollout.recipe.task, rollout.actors
    steps, channels = task.episode_length, task.action_dim
    states = np.zeros((rows, task.state_dim), np.float32)
    components = np.zeros(rows, np.int64)
    widths = [a.exploration.width(channels) for a in actors]
    noise = [np.zeros((steps, rows, width), np.float32) for width in widths]
    edges = np.cumsum([c.share for c in rollout.recipe.mix])[:-1]
    for row, seed in enumerate(seeds):
        stream = episode_stream(int(seed))
        states[row] = stream.random(task.state_dim, dtype=np.float32)
        if len(actors) > 1:
            components[row] = np.searchsorted(edges, stream.random(), side="right")
        chosen = components[row]
        noise[chosen][:, row] = actors[chosen].exploration.draw(stream, steps, channels)
    prepared = [actor.exploration.prepare(drawn) for actor, drawn in zip(actors, noise, strict=True)]
    return _Draws(states, components, prepared)


def _roll(rollout: Rollout, seeds: Ints) -> EpisodeBlock:
    """Step one block in lockstep until every episode of it has ended."""
    task, sme = rollout.recipe.task, rollout.sme
    rows = rows_per_block(task)
    draws = _draw(rollout, seeds, rows)
    record = _Record.empty(task, rows)
    intended = np.zeros_like(record.actions) if rollout.has_density else None
    running = np.arange(rows) < len(seeds)
    states, progress = draws.states, Progress.start(rows)
    observation = observe(states, np.zeros((rows, 2), np.float32))
    for t in range(task.episode_length + 1):
        z = sme.network.preactivation(torch.from_numpy(states)).numpy()
        best = phi(z)
        record.observations[:, t] = observation
        record.optimal_actions[:, t] = best
        if not running.any():
            break
        u, action = _act(rollout, draws, observation, z, t)
        if intended is not None:
            intended[:, t] = u
        outcome = advance(task, progress, step_reward(score(action, best), task.min_reward))
        following = sme.step_states(states, action)
        record.actions[:, t] = action
        record.rewards[:, t] = outcome.rewards
        if task.shaping:
            record.rewards[:, t] += shaping_reward(sme, states, following, outcome.terminations)
        record.terminations[:, t] = outcome.terminations
        record.truncations[:, t] = outcome.truncations
        ended = running & (outcome.terminations | outcome.truncations)
        record.lengths[ended] = t + 1
        running &= ~ended
        states, progress = following, outcome.progress
        observation = observe(states, outcome.channels)
    densities = None if intended is None else _log_densities(rollout, draws, intended, record.lengths)
    return record.block(seeds, draws.components, densities)


@dataclass(frozen=True)
class _Record:
    """A block's arrays while it is stepped; shapes as in `EpisodeBlock`."""

    observations: Floats
    actions: Floats
    rewards: Floats
    terminations: Bools
    truncations: Bools
    optimal_actions: Floats
    lengths: Ints

    @classmethod
    def empty(cls, task: Task, rows: int) -> _Record:
        """Zeros of the block's size."""
        steps, channels = task.episode_length, task.action_dim
        return cls(
            observations=np.zeros((rows, steps + 1, task.state_dim + 2), np.float32),
            actions=np.zeros((rows, steps, channels), np.float32),
            rewards=np.zeros((rows, steps), np.float32),
            terminations=np.zeros((rows, steps), np.bool_),
            truncations=np.zeros((rows, steps), np.bool_),
            optimal_actions=np.zeros((rows, steps + 1, channels), np.float32),
            lengths=np.zeros(rows, np.int64),
        )

    def block(self, seeds: Ints, components: Ints, densities: Floats | None) -> EpisodeBlock:
        """The episodes of the seeds, without the rows that filled the block."""
        n = len(seeds)
        return EpisodeBlock.of(
            observations=self.observations[:n],
            actions=self.actions[:n],
            rewards=self.rewards[:n],
            terminations=self.terminations[:n],
            truncations=self.truncations[:n],
            optimal_actions=self.optimal_actions[:n],
            log_densities=None if densities is None else densities[:n],
            lengths=self.lengths[:n],
            seeds=seeds,
            components=components[:n],
        )


def _act(rollout: Rollout, draws: _Draws, observation: Floats, z: Floats, t: int) -> tuple[Floats, Floats]:
    """What each row's own behavior meant (u) and did at step t, both (rows, N_a).

    Every behavior is computed for every row: shapes, and so bits, don't depend on who acts where.
    """
    pairs = []
    for actor, noise in zip(rollout.actors, draws.noise, strict=True):
        u, m = actor.intend(observation, z)
        pairs.append((u, actor.exploration.act(u, m, noise[t])))
    if len(pairs) == 1:
        return pairs[0]
    index = draws.components[np.newaxis, :, np.newaxis]
    u, action = (np.take_along_axis(np.stack(part), index, axis=0)[0] for part in zip(*pairs, strict=True))
    return u, action


def _log_densities(rollout: Rollout, draws: _Draws, intended: Floats, lengths: Ints) -> Floats:
    """(rows, T+1) log-density of each action under the behavior that acted; 0 after an episode's last."""
    rows, steps = intended.shape[:2]
    result = np.zeros((rows, steps + 1), np.float32)
    for i, (actor, noise) in enumerate(zip(rollout.actors, draws.noise, strict=True)):
        mine = draws.components == i
        result[mine, :steps] = actor.exploration.log_density(intended[mine], noise[:, mine].swapaxes(0, 1))
    result[np.arange(steps + 1) >= lengths[:, np.newaxis]] = 0
    return result
