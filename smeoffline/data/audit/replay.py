"""Recompute every step of a dataset from its task, one step at a time, and tell what does not agree.

Never a whole trajectory: the transition's slope is +-2, so two float implementations part after 20 steps. One
step agrees within 1e-4 on any machine. Near a threshold of the task both outcomes are accepted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.data.audit.mismatch import TOLERANCE, Mismatch, differing
from smeoffline.data.exploration import phi
from smeoffline.data.storage.episodes import Episodes
from smeoffline.sme.arrays import Bools, Doubles, Floats, Ints
from smeoffline.sme.episode import shaping_reward
from smeoffline.sme.model import REWARD_OFFSET, REWARD_SLOPE, Sme, score

_PART_STEPS = 2**17  # recomputed together: bounds memory


@dataclass(frozen=True)
class Part:
    """Consecutive episodes of a dataset, E of them with N steps; arrays as in `Episodes`."""

    first: int
    observations: Floats
    actions: Floats
    rewards: Floats
    terminations: Bools
    truncations: Bools
    optimal_actions: Floats | None
    log_densities: Floats | None
    lengths: Ints

    @cached_property
    def episode(self) -> Ints:
        """(N,) which of these episodes each step is in."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)

    @cached_property
    def step(self) -> Ints:
        """(N,) t of each step."""
        return np.arange(len(self.episode)) - (np.cumsum(self.lengths) - self.lengths)[self.episode]

    @cached_property
    def row(self) -> Ints:
        """(N,) where o_t is; o_t+1 is in the next row."""
        return np.arange(len(self.episode)) + self.episode

    @cached_property
    def observation_episode(self) -> Ints:
        """(N + E,) which of these episodes each observation is in."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths + 1)

    @cached_property
    def observation_step(self) -> Ints:
        """(N + E,) t of each observation."""
        starts = np.cumsum(self.lengths + 1) - self.lengths - 1
        return np.arange(len(self.observation_episode)) - starts[self.observation_episode]


def parts(episodes: Episodes) -> Iterator[Part]:
    """Cut a dataset into parts that are recomputed one after the other."""
    ends = np.cumsum(episodes.lengths)
    first = 0
    while first < len(ends):
        done = ends[first - 1] if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + _PART_STEPS, side="right")))
        steps = slice(int(done), int(ends[last - 1]))
        rows = slice(steps.start + first, steps.stop + last)
        optimal, densities = episodes.optimal_actions, episodes.log_densities
        yield Part(
            first=first,
            observations=episodes.observations[rows],
            actions=episodes.actions[steps],
            rewards=episodes.rewards[steps],
            terminations=episodes.terminations[steps],
            truncations=episodes.truncations[steps],
            optimal_actions=None if optimal is None else optimal[rows],
            log_densities=None if densities is None else densities[rows],
            lengths=episodes.lengths[first:last],
        )
        first = last


def ends(part: Part) -> Iterator[Mismatch]:
    """An episode ends once: its last step terminates or truncates it, and no earlier one does."""
    last = part.step == part.lengths[part.episode] - 1
    ended = part.terminations | part.truncations
    bad = np.flatnonzero(ended != last)
    more = part.lengths[part.episode[bad]] - part.step[bad] - 1
    expected = ["the episode to end here" if n else "a termination or a truncation" for n in more]
    yield Mismatch(
        "end",
        part.first + part.episode[bad],
        part.step[bad],
        expected,
        [f"{n} more steps" if n else "neither" for n in more],
    )


class Replay:
    """One part, recomputed.

    Args:
        sme: The built task.
        part: Its observations have N_s + 2 channels, its actions N_a.

    Attributes:
        preactivation: (N + E, N_a), z* of each observation.
        scores: (N,) in [0, 1], of each action.
    """

    def __init__(self, sme: Sme, part: Part) -> None:
        self._sme, self._part, self._task = sme, part, sme.task
        states = np.ascontiguousarray(part.observations[:, : sme.task.state_dim])
        self._states, self._next = states[part.row], states[part.row + 1]
        self.preactivation = sme.preactivation(states)
        self._optimal = phi(self.preactivation)
        self.scores = score(part.actions, self._optimal[part.row])
        # The step reward, as two bounds that differ where it lies too near its threshold to say.
        raw = np.maximum(REWARD_SLOPE * (self.scores - REWARD_OFFSET), 0)
        threshold = sme.task.min_reward
        near = (threshold > 0) & (np.abs(raw - threshold) <= TOLERANCE)
        self._low = np.where((raw > threshold) & ~near, raw, 0).astype(np.float64)
        self._high = np.where((raw > threshold) | near, raw, 0).astype(np.float64)

    def mismatches(self) -> Iterator[Mismatch]:
        """All that does not agree, check by check."""
        with np.errstate(all="ignore"):  # numbers that are not finite are findings of their own
            yield from ends(self._part)
            yield from self._bounds()
            yield from self._rewards()
            yield from self._flags()
            yield from self._observations()
            yield from self._optimal_actions()
            yield from self._last_densities()

    def _bounds(self) -> Iterator[Mismatch]:
        """Actions and observations lie in [0, 1]."""
        part = self._part
        for check, values, episode, step in (
            ("action", part.actions, part.episode, part.step),
            ("observation", part.observations, part.observation_episode, part.observation_step),
        ):
            yield self._compare(check, np.clip(values, 0, 1), values, episode, step)

    def _rewards(self) -> Iterator[Mismatch]:
        """r_t from (o_t, a_t): earned, accrued over k steps, paid, shaped."""
        part, task = self._part, self._task
        pays = self._pays()
        shaped = np.zeros(len(part.step))
        if task.shaping:
            shaped += shaping_reward(self._sme, self._states, self._next, part.terminations)
        counts = part.step % task.reward_every + 1
        low, high = (np.where(pays, self._accrued(earned) + earned, 0) + shaped for earned in (self._low, self._high))
        slack = TOLERANCE * np.where(pays, counts, 1) + 1e-6 * task.shaping * task.state_dim
        yield self._between("reward", low, high, part.rewards.astype(np.float64), slack)

    def _flags(self) -> Iterator[Mismatch]:
        """Termination only where the step earned less than the threshold; truncation only at t = T."""
        part, threshold = self._part, self._task.kill_threshold
        must = self._high < threshold - TOLERANCE
        may = (self._low < threshold + TOLERANCE) & (threshold > 0)
        bad = np.flatnonzero((must & ~part.terminations) | (~may & part.terminations))
        earned = [f"a termination (step reward {self._high[i]:.6g} < {threshold:g})" if must[i]
                  else f"none (step reward {self._low[i]:.6g} >= {threshold:g})" for i in bad]  # fmt: skip
        yield self._at("termination", bad, earned, [str(bool(part.terminations[i])) for i in bad])
        wanted = part.step + 1 >= self._task.episode_length
        bad = np.flatnonzero(wanted != part.truncations)
        told = [f"{wanted[i]} at step {part.step[i]} of {self._task.episode_length}" for i in bad]
        yield self._at("truncation", bad, told, [str(bool(part.truncations[i])) for i in bad])

    def _observations(self) -> Iterator[Mismatch]:
        """o_t+1 from (o_t, a_t): the state, t/T, and the accrued reward as it was before the step."""
        part, task = self._part, self._task
        following = self._sme.transition(self._states, part.actions)
        yield self._compare("next observation", following, self._next, part.episode, part.step)
        channels = part.observations[:, task.state_dim :]
        clock = part.observation_step / task.episode_length
        yield self._compare("time channel", clock, channels[:, 0], part.observation_episode, part.observation_step)
        got = channels[part.row + 1, 1].astype(np.float64) * task.reward_every
        slack = TOLERANCE * (part.step % task.reward_every + 1)
        yield self._between("accrued channel", self._accrued(self._low), self._accrued(self._high), got, slack)
        first = np.flatnonzero((part.observation_step == 0) & (channels[:, 1] != 0))
        yield Mismatch(
            "accrued channel",
            part.first + part.observation_episode[first],
            np.zeros(len(first), np.int64),
            ["0 at the start"] * len(first),
            [f"{channels[i, 1]:.6g}" for i in first],
        )

    def _optimal_actions(self) -> Iterator[Mismatch]:
        """a*_t from o_t, the last observation's too."""
        part = self._part
        if part.optimal_actions is not None:
            yield self._compare(
                "optimal action",
                self._optimal,
                part.optimal_actions,
                part.observation_episode,
                part.observation_step,
            )

    def _last_densities(self) -> Iterator[Mismatch]:
        """The entry after an episode's last action is 0."""
        part = self._part
        if part.log_densities is not None:
            last = np.cumsum(part.lengths + 1) - 1
            bad = np.flatnonzero(part.log_densities[last] != 0)
            got = [f"{part.log_densities[i]:.6g}" for i in last[bad]]
            yield Mismatch(
                "log density",
                part.first + bad,
                part.lengths[bad],
                ["0 after the last action"] * len(bad),
                got,
            )

    def _pays(self) -> Bools:
        """(N,) whether what was accrued is paid."""
        t = self._part.step + 1
        pays: Bools = (t % self._task.reward_every == 0) | (t >= self._task.episode_length)
        return pays

    def _accrued(self, earned: Doubles) -> Doubles:
        """(N,) what was earned and not yet paid before each step."""
        total = np.cumsum(earned) - earned
        begins = self._part.step % self._task.reward_every == 0
        return total - total[np.maximum.accumulate(np.where(begins, np.arange(len(total)), 0))]

    def _at(self, check: str, bad: Ints, expected: list[str], got: list[str]) -> Mismatch:
        """Steps `bad` (rows of this part) with what to tell of them."""
        return Mismatch(check, self._part.first + self._part.episode[bad], self._part.step[bad], expected, got)

    def _between(self, check: str, low: Doubles, high: Doubles, got: Doubles, slack: npt.NDArray[Any]) -> Mismatch:
        """Numbers (N,), one a step, that must be one of two; a sum of such may be anything between."""
        either = (np.abs(got - low) <= slack) | (np.abs(got - high) <= slack)
        between = (self._task.reward_every > 1) & (got >= low) & (got <= high)
        bad = np.flatnonzero(~(either | between) & np.isfinite(got))
        expected = [f"{low[i]:.6g}" if low[i] == high[i] else f"{low[i]:.6g} or {high[i]:.6g}" for i in bad]
        return self._at(check, bad, expected, [f"{got[i]:.6g}" for i in bad])

    def _compare(
        self, check: str, expected: npt.NDArray[Any], got: npt.NDArray[Any], episode: Ints, step: Ints
    ) -> Mismatch:
        """Rows of numbers that must agree."""
        return differing(check, expected, got, self._part.first + episode, step)
