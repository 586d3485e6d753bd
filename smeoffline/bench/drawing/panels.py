"""What a figure shows, as plain data: the numbers are computed before, and drawn after."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from smeoffline.score.statistics import Estimate


@dataclass(frozen=True)
class Series:
    """One line with its band.

    Attributes:
        label: An algorithm's.
        x: Rising.
        y: One estimate for each x; without an interval where there is one seed.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[Estimate, ...]


@dataclass(frozen=True)
class LinePanel:
    """Lines of several algorithms over one x axis.

    Attributes:
        title: What the panel is about.
        series: One for each algorithm.
        references: Name -> height of a horizontal line.
    """

    title: str
    series: tuple[Series, ...]
    references: Mapping[str, float]


@dataclass(frozen=True)
class DotPanel:
    """Algorithms side by side in groups.

    Attributes:
        title: What the panel is about.
        groups: Labels along x.
        points: Algorithm -> group -> estimate.
        references: Name -> group -> height of a short line across the group.
    """

    title: str
    groups: tuple[str, ...]
    points: Mapping[str, Mapping[str, Estimate]]
    references: Mapping[str, Mapping[str, float]]


Noise = tuple[str, str]


@dataclass(frozen=True)
class HeatPanel:
    """A table of values in color.

    Attributes:
        algorithm: Whose values.
        task: On which task's datasets.
        rows: Labels from top to bottom.
        columns: (kind, size) of the exploration from left to right, those of one kind side by side.
        values: (row, column) -> value; None where it is not defined; absent where nothing was run.
    """

    algorithm: str
    task: str
    rows: tuple[str, ...]
    columns: tuple[Noise, ...]
    values: Mapping[tuple[str, Noise], float | None]

    @property
    def title(self) -> str:
        """`IQL, C = 50`."""
        return f"{self.algorithm}, {self.task}"


@dataclass(frozen=True)
class RankingPanel:
    """Algorithms by interquartile mean, and who beats whom.

    Attributes:
        algorithms: Best first.
        iqm: Algorithm -> interquartile mean of the gap closed.
        wins: (one, other) -> probability that the one beats the other on the same data.
    """

    algorithms: tuple[str, ...]
    iqm: Mapping[str, Estimate]
    wins: Mapping[tuple[str, str], Estimate]
