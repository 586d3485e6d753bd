"""Ratios of two rates, measured in turn in one process: a machine's speed drifts, a ratio hardly does."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Work = Callable[[], int]
"""Does some work and returns how many units it did."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        name: What was done.
        unit: Of the rates.
        ours: Median rate, units/s.
        peer: Median rate of the peer, units/s; None where there is none.
        ratio: Median of the ratios, pair by pair.
        spread: Lowest and highest ratio.
        target: What the ratio should reach; None where it stands for comparison alone.
    """

    name: str
    unit: str
    ours: float
    peer: float
    ratio: float
    spread: tuple[float, float]
    target: float | None

    def __str__(self) -> str:
        """A line to read."""
        low, high = self.spread
        aim = "no aim"
        if self.target is not None:
            aim = f"aim {self.target:g}x  {'ok' if self.ratio >= self.target else 'BELOW'}"
        return (
            f"{self.name:<44} {self.ours:>12,.0f} {self.peer:>12,.0f} {self.unit:<14} "
            f"{self.ratio:>7.2f}x [{low:.2f}, {high:.2f}]  {aim}"
        )


HEADER = f"{'work':<44} {'ours':>12} {'peer':>12} {'per second':<14} {'ratio':>8}"


def rate(work: Work) -> float:
    """Units per second of one call."""
    start = time.perf_counter()
    units = work()
    return units / (time.perf_counter() - start)


def compare(name: str, unit: str, ours: Work, peer: Work, target: float | None, *, pairs: int = 5) -> Row:
    """Run both in turn, once to warm up and `pairs` times to count."""
    ours(), peer()
    return from_pairs(name, unit, [(rate(ours), rate(peer)) for _ in range(pairs)], target)


def from_pairs(name: str, unit: str, measured: list[tuple[float, float]], target: float | None) -> Row:
    """A row from rates (ours, peer) that were measured in turn."""
    ratios = [mine / theirs for mine, theirs in measured]
    return Row(
        name=name,
        unit=unit,
        ours=statistics.median(mine for mine, _ in measured),
        peer=statistics.median(theirs for _, theirs in measured),
        ratio=statistics.median(ratios),
        spread=(min(ratios), max(ratios)),
        target=target,
    )
