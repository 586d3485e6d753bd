"""A dataset as pictures need it: what is counted while it is audited, small whatever its size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smeoffline.data.audit.coverage import Coverage, Grid
from smeoffline.data.audit.replay import Part
from smeoffline.data.storage.episodes import Episodes
from smeoffline.sme.arrays import Doubles, Floats, Ints
from smeoffline.sme.model import Sme

SCORE_BINS = 50  # over [0, 1]
RETURN_BINS = 30
NARROWEST = 1e-6  # range of returns, relative to them: in a narrower one bins have no width
PATHS, PATH_STEPS = 2, 8  # episodes that are drawn, and steps of each: more cross each other too often
DOTS = 400  # states, spread over the dataset
FIELD_SIDE = 25  # states a side
FIELD_VALUE = 0.5  # of the channels that are not drawn


@dataclass(frozen=True, eq=False)
class Histogram:
    """Counts of numbers in bins.

    Attributes:
        edges: (bins + 1,).
        counts: (bins,).
        mean: Of the numbers.
    """

    edges: tuple[float, ...]
    counts: tuple[int, ...]
    mean: float


@dataclass(frozen=True, eq=False)
class Field:
    """The optimal action over the first two state channels, or over the only one.

    Attributes:
        at: (side,) states along a channel.
        actions: (side, side, up to 2) by second and first channel, or (side, up to 2) of one channel.
        fixed: The value of all other state channels.
    """

    at: Floats
    actions: Floats
    fixed: float


@dataclass(frozen=True, eq=False)
class Portrait:
    """What a dataset looks like.

    Attributes:
        scores: Of actions, where the optimum is known.
        returns: Of episodes.
        channels: Names, states first, counted from 1.
        histogram: (d, bins) counts of each channel between `low` and `high`.
        low: (d,).
        high: (d,).
        coverage: None for a dataset without transitions.
        paths: Of some episodes, (steps, up to 2) states in the first two channels.
        dots: (n, up to 2) states of the whole dataset.
        dot_actions: (n, up to 2) the actions there.
        field: None where the optimum is not known.
        zero_rewards: Share of steps that paid exactly 0; None without steps.
    """

    scores: Histogram | None
    returns: Histogram | None
    channels: tuple[str, ...]
    histogram: Ints
    low: tuple[float, ...]
    high: tuple[float, ...]
    coverage: Coverage | None
    paths: tuple[Floats, ...]
    dots: Floats
    dot_actions: Floats
    field: Field | None
    zero_rewards: float | None


class Sketch:
    """Collects a portrait, part by part.

    Args:
        episodes: The dataset.
        sme: Its built task, whose observations and actions have the dataset's widths; None where none is known.
    """

    def __init__(self, episodes: Episodes, sme: Sme | None) -> None:
        self._episodes, self._sme = episodes, sme
        self._states = episodes.observations.shape[1] if sme is None else sme.task.state_dim
        actions = episodes.actions.shape[1]
        if sme is None:
            low, high = np.concatenate([_range(episodes.observations), _range(episodes.actions)], axis=1)
        else:
            low, high = np.zeros(self._states + actions), np.ones(self._states + actions)
        self._low, self._high = low, high
        self._grid = Grid(low, high, self._states, len(episodes.actions))
        self._scores: Ints = np.zeros(SCORE_BINS, np.int64)
        self._sum = 0.0

    def add(self, part: Part, scores: Floats | None = None) -> None:
        """Count one part of the dataset, with the score of each of its actions where that is known."""
        states = part.observations[part.row, : self._states]
        self._grid.add(np.concatenate([states, part.actions], axis=1))
        if scores is not None:
            known = scores[np.isfinite(scores)]
            self._scores += np.histogram(np.clip(known, 0, 1), SCORE_BINS, (0, 1))[0]
            self._sum += float(known.sum(dtype=np.float64))

    def portrait(self) -> Portrait:
        """What was collected."""
        episodes, states = self._episodes, self._states
        actions = episodes.actions.shape[1]
        names = [*(f"state {i + 1}" for i in range(states)), *(f"action {j + 1}" for j in range(actions))]
        count = int(self._scores.sum())
        edges = tuple(np.linspace(0, 1, SCORE_BINS + 1).tolist())
        steps, shown = len(episodes.rewards), min(2, states)
        some = np.unique(np.linspace(0, steps - 1, min(DOTS, steps)).astype(np.int64)) if steps else np.arange(0)
        return Portrait(
            scores=Histogram(edges, tuple(self._scores.tolist()), self._sum / count) if count else None,
            returns=_returns(episodes),
            channels=tuple(names),
            histogram=self._grid.histogram,
            low=tuple(self._low.tolist()),
            high=tuple(self._high.tolist()),
            coverage=self._grid.coverage(),
            paths=_paths(episodes, shown),
            dots=episodes.observations[some + _episode_of(episodes, some), :shown],
            dot_actions=episodes.actions[some, :2],
            field=None if self._sme is None else _field(self._sme),
            zero_rewards=float((episodes.rewards == 0).mean()) if steps else None,
        )


def episode_returns(episodes: Episodes) -> Doubles:
    """(E,) undiscounted return of each episode; only for episodes of one step or more."""
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    sums: Doubles = np.add.reduceat(episodes.rewards.astype(np.float64), starts) if len(starts) else np.zeros(0)
    return sums


def _returns(episodes: Episodes) -> Histogram | None:
    """The episodes' returns."""
    returns = episode_returns(episodes)
    returns = returns[np.isfinite(returns)]
    if not len(returns):
        return None
    low, high = float(returns.min()), float(returns.max())
    size = max(1.0, abs(low), abs(high))
    room = (low, high) if high - low > NARROWEST * size else (low - 0.5 * size, high + 0.5 * size)
    counts, edges = np.histogram(returns, RETURN_BINS, room)
    return Histogram(tuple(edges.tolist()), tuple(counts.tolist()), float(returns.mean()))


def _paths(episodes: Episodes, shown: int) -> tuple[Floats, ...]:
    """The first steps of the first episodes."""
    ends = np.cumsum(episodes.lengths + 1)
    starts = ends - episodes.lengths - 1
    return tuple(
        episodes.observations[start : min(start + PATH_STEPS + 1, end), :shown]
        for start, end in zip(starts[:PATHS].tolist(), ends[:PATHS].tolist(), strict=True)
    )


def _episode_of(episodes: Episodes, steps: Ints) -> Ints:
    """The episode of each step: an observation's row is its step plus this."""
    return np.searchsorted(np.cumsum(episodes.lengths), steps, side="right")


def _field(sme: Sme) -> Field:
    """The optimal action over the first two channels."""
    at = np.linspace(0, 1, FIELD_SIDE, dtype=np.float32)
    one = sme.task.state_dim == 1
    states = np.full((FIELD_SIDE if one else FIELD_SIDE**2, sme.task.state_dim), FIELD_VALUE, np.float32)
    states[:, 0] = at if one else np.tile(at, FIELD_SIDE)
    if not one:
        states[:, 1] = np.repeat(at, FIELD_SIDE)
    actions = sme.optimal_action(states)[:, :2]
    shape = (FIELD_SIDE,) if one else (FIELD_SIDE, FIELD_SIDE)
    return Field(at, actions.reshape(*shape, actions.shape[1]), FIELD_VALUE)


def _range(values: Floats) -> Doubles:
    """(2, channels) the least and the greatest finite number of each channel, never equal."""
    finite = np.isfinite(values)
    low = np.min(values, axis=0, where=finite, initial=np.inf).astype(np.float64)
    high = np.max(values, axis=0, where=finite, initial=-np.inf).astype(np.float64)
    low[~np.isfinite(low)], high[~np.isfinite(high)] = 0, 0
    same = high == low
    high[same] += np.maximum(1, 1e-6 * np.abs(low[same]))  # 1 is lost in a large number
    return np.stack([low, high])
