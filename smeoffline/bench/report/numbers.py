"""Means and intervals over seeds: what the tables and figures of a report show.

Every number is rounded here, once, so that tables, figures and JSON agree and the last bits of a sum, which
differ between processors, do not reach a file.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from smeoffline.bench.report.study import Dataset, Study
from smeoffline.score.statistics import Estimate, bootstrap_interval

T = TypeVar("T")
DIGITS = 6


@dataclass(frozen=True)
class Spread:
    """Mean and sample standard deviation (n - 1) over seeds; no deviation of a single one."""

    mean: float
    spread: float | None
    n: int

    @classmethod
    def of(cls, values: Mapping[int, float]) -> Spread:
        """Of seed -> value, at least one."""
        listed = [values[seed] for seed in sorted(values)]
        deviation = statistics.stdev(listed) if len(listed) > 1 else None
        mean = tidy(statistics.fmean(listed))
        return cls(mean, None if deviation is None else tidy(deviation), len(listed))


@dataclass(frozen=True)
class ResultRow:
    """An algorithm on a dataset. `rl_gain` and `gap_closed` are None where there is no headroom."""

    dataset: Dataset
    algorithm: str
    score: Spread
    improvement: Estimate
    rl_gain: Estimate | None
    gap_closed: Estimate | None


@dataclass(frozen=True)
class DatasetRow:
    """A dataset: its reference rows, as means over its seeds. `shrunk` is None where a seed's results lack it."""

    dataset: Dataset
    seeds: int
    behavior: float
    imitation: float
    shrunk: float | None
    headroom: float
    random: float


def tidy(value: float) -> float:
    """Rounded, and without a negative zero."""
    return round(value, DIGITS) + 0.0


def mean_of(values: Mapping[int, float]) -> Estimate:
    """The mean over seeds with its 95% bootstrap interval; of one seed, no interval.

    Args:
        values: Seed -> value, at least one.
    """
    return means_of([values])[0]


def means_of(rows: Sequence[Mapping[int, float]]) -> list[Estimate]:
    """`mean_of` for several rows with the same seeds: one resampling serves all.

    Args:
        rows: Seed -> value, each with the same seeds, at least one.
    """
    if not rows:
        return []
    seeds = sorted(rows[0])
    table = np.array([[row[seed] for seed in seeds] for row in rows])
    means = [tidy(float(value)) for value in table.mean(axis=-1)]
    if len(seeds) == 1:
        return [Estimate(value, None, None, 1) for value in means]
    lows, highs = bootstrap_interval([table], np.mean)
    return [
        Estimate(value, tidy(float(low)), tidy(float(high)), len(seeds))
        for value, low, high in zip(means, lows, highs, strict=True)
    ]


def result_rows(study: Study) -> tuple[ResultRow, ...]:
    """Every algorithm on every dataset that it finished."""
    rows = []
    for dataset in study.datasets:
        for algorithm in study.algorithms:
            scores = study.by_seed(dataset, algorithm, "score_wd")
            if not scores:
                continue
            gains = study.by_seed(dataset, algorithm, "rl_gain")
            closed = study.by_seed(dataset, algorithm, "gap_closed")
            rows.append(
                ResultRow(
                    dataset=dataset,
                    algorithm=algorithm,
                    score=Spread.of(scores),
                    improvement=mean_of(study.by_seed(dataset, algorithm, "improvement")),
                    rl_gain=mean_of(gains) if gains else None,
                    gap_closed=mean_of(closed) if closed else None,
                )
            )
    return tuple(rows)


def dataset_rows(study: Study) -> tuple[DatasetRow, ...]:
    """Every dataset on which a run finished."""
    rows = []
    for dataset in study.datasets:
        known = {name: study.references(dataset, f"{name}_score") for name in ("behavior", "imitation", "random")}
        headroom = study.references(dataset, "headroom")
        if headroom:
            means = {name: Spread.of(values).mean for name, values in known.items()}
            drawn = study.references(dataset, "clone_shrunk_score")
            shrunk = Spread.of(drawn).mean if len(drawn) == len(headroom) else None
            rows.append(DatasetRow(dataset, len(headroom), shrunk=shrunk, headroom=Spread.of(headroom).mean, **means))
    return tuple(rows)


def count(number: int, noun: str) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def count_range(low: int, high: int, noun: str) -> str:
    """`3 seeds`, `9 to 10 seeds`."""
    return count(high, noun) if low == high else f"{low} to {high} {noun}s"


def distinct(labels: Iterable[T]) -> tuple[T, ...]:
    """Each label once, in order of first appearance."""
    return tuple(dict.fromkeys(labels))
