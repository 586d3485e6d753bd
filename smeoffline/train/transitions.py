"""What an algorithm trains on: flat transitions with the true last state, and no way to the optimal action.

    episode        t      0        1             T-1
    observations        o0       o1            oT-1
    actions             a0       a1            aT-1
    rewards             r0       r1            rT-1
    next_observations   o1       o2            oT       the true one, never another episode's
    terminals           False    False         killed   no value beyond it
    timeouts            False    False         cut      the episode went on, we stopped watching

Episodes lie one after the other. All T transitions of an episode train, whether it terminated or was cut.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Protocol

import numpy as np

from smeoffline.errors import DatasetFaultError
from smeoffline.sme.arrays import Bools, Floats, Ints

if TYPE_CHECKING:
    from smeoffline.data.storage.store import Dataset


class Policy(Protocol):
    """What training makes and evaluation asks: a deterministic function of observations, row by row."""

    def __call__(self, observations: Floats, /) -> Floats:
        """Act.

        Args:
            observations: (B, N_s + 2) float32.

        Returns:
            (B, N_a) float32, finite, inside the action space ([0, 1] for an SME).
        """


@dataclass(frozen=True)
class Transitions:
    """N transitions; D = N_s + 2 observation channels, A action channels.

    Attributes:
        observations: (N, D) float32.
        actions: (N, A) float32, as stored: in [0, 1] for an SME.
        rewards: (N,) float32.
        next_observations: (N, D) float32.
        terminals: (N,) bool, true where an episode terminated.
        timeouts: (N,) bool, true where an episode was cut without terminating.
        episodes: (N,) int64, the episode each row belongs to, never decreasing.
    """

    observations: Floats
    actions: Floats
    rewards: Floats
    next_observations: Floats
    terminals: Bools
    timeouts: Bools
    episodes: Ints

    def __len__(self) -> int:
        """The number of transitions N."""
        return len(self.rewards)

    @property
    def ends(self) -> Bools:
        """(N,) bool: the last row of each episode."""
        return self.terminals | self.timeouts

    def select(self, rows: Bools) -> Transitions:
        """The rows where a mask (N,) is true, in order."""
        return Transitions(**{f.name: getattr(self, f.name)[rows] for f in fields(self)})

    @classmethod
    def from_dataset(cls, dataset: Dataset) -> Transitions:
        """Flatten a dataset's episodes.

        Args:
            dataset: Its observations have one row more than steps in each episode; the others have none more.

        Raises:
            DatasetFaultError: Lengths contradict the arrays, an episode goes on after its end, or a value is
                not finite; the text names the episode and step.
        """
        lengths = np.asarray(dataset.lengths, np.int64)
        _check_sizes(dataset, lengths)
        total = int(lengths.sum())
        episodes = np.repeat(np.arange(len(lengths)), lengths)
        last = np.cumsum(lengths) - 1
        ends = np.zeros(total, np.bool_)
        ends[last] = True
        terminals = np.asarray(dataset.terminations, np.bool_)
        _check_ends(dataset, terminals, ends, episodes, lengths)
        rows = np.arange(total) + episodes  # the row of o_t: each episode before it has one more
        made = cls(
            observations=dataset.observations[rows],
            actions=np.ascontiguousarray(dataset.actions, np.float32),
            rewards=np.ascontiguousarray(dataset.rewards, np.float32),
            next_observations=dataset.observations[rows + 1],
            terminals=terminals,
            timeouts=ends & ~terminals,
            episodes=episodes,
        )
        _check_finite(dataset, made, lengths)
        return made


def returns_to_go(data: Transitions, gamma: float) -> Floats:
    """Discounted sums of the rewards from each row to the end of its episode: (N,).

    Cal-QL's lower bound on values [arXiv 2303.05479]. Nothing is added for what a cut episode would still
    have paid.
    """
    returns = data.rewards.astype(np.float64)
    last = np.flatnonzero(data.ends)
    lengths = np.diff(last, prepend=-1)
    for back in range(1, int(lengths.max(initial=0))):
        rows = last[lengths > back] - back
        returns[rows] += gamma * returns[rows + 1]
    return returns.astype(np.float32)


def next_actions(data: Transitions) -> Floats:
    """The action taken one row later: (N, A); zeros in each episode's last row, where none is known."""
    following = np.zeros_like(data.actions)
    following[:-1] = data.actions[1:]
    following[data.ends] = 0
    return following


def _check_sizes(dataset: Dataset, lengths: Ints) -> None:
    """Refuse arrays whose sizes contradict the episodes' lengths."""
    short = np.flatnonzero(lengths < 1)
    if len(short) > 0:
        raise DatasetFaultError(f"dataset {dataset.id!r}: episode {short[0]}: expected 1 step or more, got 0")
    total = int(lengths.sum())
    expected = {"observations": total + len(lengths)} | dict.fromkeys(
        ("actions", "rewards", "terminations", "truncations"), total
    )
    for name, rows in expected.items():
        if len(getattr(dataset, name)) != rows:
            raise DatasetFaultError(
                f"dataset {dataset.id!r}: {name}: expected {rows} rows for {len(lengths)} episodes of "
                f"{total} steps (T steps have T + 1 observations), got {len(getattr(dataset, name))}"
            )


def _check_ends(dataset: Dataset, terminals: Bools, ends: Bools, episodes: Ints, lengths: Ints) -> None:
    """Refuse an episode that goes on after it terminated or was truncated."""
    stray = np.flatnonzero((terminals | np.asarray(dataset.truncations, np.bool_)) & ~ends)
    if len(stray) > 0:
        episode, step = _place(int(stray[0]), episodes, lengths)
        raise DatasetFaultError(
            f"dataset {dataset.id!r}: episode {episode}, step {step}: expected the episode to end where it "
            f"terminates or is truncated, got {int(lengths[episode]) - step - 1} more steps"
        )


def _check_finite(dataset: Dataset, data: Transitions, lengths: Ints) -> None:
    """Refuse NaN and infinity: one makes every loss NaN."""
    for name in ("observations", "actions", "rewards", "next_observations"):
        values = getattr(data, name).reshape(len(data), -1)
        bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
        if len(bad) > 0:
            episode, step = _place(int(bad[0]), data.episodes, lengths)
            raise DatasetFaultError(
                f"dataset {dataset.id!r}: episode {episode}, step {step}: expected finite {name}, got "
                f"{values[bad[0]].tolist()}"
            )


def _place(row: int, episodes: Ints, lengths: Ints) -> tuple[int, int]:
    """Episode and step of a flat row."""
    episode = int(episodes[row])
    return episode, row - int(lengths[:episode].sum())
