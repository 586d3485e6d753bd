"""Many copies of one task stepped as one batch: `gymnasium.make_vec("smeoffline:smeoffline/SME-v0", num_envs=...)`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector.utils import batch_space

from smeoffline.sme.arrays import Bools, Floats
from smeoffline.sme.env import action_space, checked_actions, observation_space
from smeoffline.sme.episode import Progress, advance, observe, shaping_reward
from smeoffline.sme.task import Task, whole_number

MAX_ENVS = 1_000_000  # a batch this size fills a machine's memory; beyond it is a mistake

# Gymnasium 1.1 and later ask which step resets a finished copy; 1.0 always meant the next one.
_AUTORESET = (
    {"autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP} if hasattr(gymnasium.vector, "AutoresetMode") else {}
)


class SMEVectorEnv(gymnasium.vector.VectorEnv[Floats, Floats, Any]):
    """`num_envs` copies of one task; copy i behaves as an `SMEEnv` reset with `seed + i`.

    A finished copy is reset by the next `step` (its action is ignored, its reward 0), as in
    Gymnasium's own vector environments.

    Args:
        num_envs: Copies, in [1, 1,000,000].
        render_mode: None; there is nothing to draw.
        **task: The fields of `Task`.

    Raises:
        SpecError: A task field is unknown, or a value is out of range.
    """

    metadata = {"render_modes": [], **_AUTORESET}  # noqa: RUF012 - Gymnasium declares it as an instance variable

    def __init__(self, num_envs: int = 1, *, render_mode: str | None = None, **task: Any) -> None:
        self.task = Task.from_dict(task)
        self.sme = self.task.build()
        self.num_envs = whole_number("vector env", "num_envs", num_envs, 1, MAX_ENVS)
        self.render_mode = render_mode
        self.single_observation_space = observation_space(self.task)
        self.single_action_space = action_space(self.task)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._streams: list[np.random.Generator] = []
        self._states = np.zeros((self.num_envs, self.task.state_dim), np.float32)
        self._progress = Progress.start(self.num_envs)
        self._finished = np.zeros(self.num_envs, np.bool_)

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Floats, dict[str, Any]]:
        """Reset every copy; an int seed gives copy i the seed `seed + i`, a sequence one each.

        Raises:
            ValueError: Another number of seeds than copies.
            TypeError: A seed is not a whole number.
            gymnasium.error.Error: A seed is negative.
        """
        del options
        if seed is None:
            seeds: list[int | None] = [None] * self.num_envs
        elif isinstance(seed, (int, np.integer)):
            seeds = [int(seed) + i for i in range(self.num_envs)]
        else:
            seeds = [s if s is None else operator.index(s) for s in seed]
        if len(seeds) != self.num_envs:
            raise ValueError(f"reset: expected {self.num_envs} seeds, got {len(seeds)}")
        kept = self._streams if self._streams else [None] * self.num_envs
        self._streams = [
            old if old is not None and s is None else seeding.np_random(s)[0]
            for s, old in zip(seeds, kept, strict=True)
        ]
        self._restart(np.ones(self.num_envs, np.bool_))
        self._finished = np.zeros(self.num_envs, np.bool_)
        return observe(self._states, np.zeros((self.num_envs, 2), np.float32)), {}

    def _restart(self, which: Bools) -> None:
        """Draw new initial states for some copies (n,), each from its own stream."""
        for i in np.flatnonzero(which):
            self._states[i] = self._streams[i].random(self.task.state_dim, dtype=np.float32)
        keep = ~which
        self._progress = Progress(self._progress.step * keep, self._progress.accrued * keep)

    def step(self, actions: Floats) -> tuple[Floats, Floats, Any, Any, dict[str, Any]]:
        """Step every copy.

        Returns:
            Observations (n, N_s + 2), rewards (n,), terminations (n,), truncations (n,), and infos with
            `optimal_action` (n, N_a), `score` (n,) and `step_reward` (n,), each with Gymnasium's mask
            `_<name>` (n,), false (and the value 0) where this step only reset the copy.

        Raises:
            ValueError: The actions have another shape, or are not finite or beyond 1e6.
            gymnasium.error.ResetNeeded: `reset` was never called.
        """
        if not self._streams:
            raise gymnasium.error.ResetNeeded("step: call reset() first")
        actions = checked_actions(actions, (self.num_envs, self.task.action_dim))
        restarting = self._finished
        states = self._states
        optimal = self.sme.optimal_action(states)
        scores = self.sme.score(actions, optimal)
        earned = self.sme.reward(scores)
        outcome = advance(self.task, self._progress, earned)
        self._states = self.sme.transition(states, actions)
        rewards = outcome.rewards
        if self.task.shaping:
            rewards = rewards + shaping_reward(self.sme, states, self._states, outcome.terminations)
        self._progress = outcome.progress
        self._finished = (outcome.terminations | outcome.truncations) & ~restarting
        channels = outcome.channels
        if restarting.any():
            self._restart(restarting)
            channels = np.where(restarting[:, np.newaxis], np.float32(0), channels)
            rewards = np.where(restarting, np.float32(0), rewards)
        alive = ~restarting
        return (
            observe(self._states, channels),
            rewards,
            outcome.terminations & alive,
            outcome.truncations & alive,
            _infos(alive, {"optimal_action": optimal, "score": scores, "step_reward": earned}),
        )


def _infos(present: Bools, values: dict[str, Floats]) -> dict[str, Any]:
    """Infos with Gymnasium's masks: `_name` says which copies have a `name` this step; the others have 0."""
    infos: dict[str, Any] = {}
    for name, value in values.items():
        infos[name] = np.where(present.reshape(-1, *[1] * (value.ndim - 1)), value, np.float32(0))
        infos[f"_{name}"] = present.copy()
    return infos
