"""What a report is made from: labelled runs, looked up by dataset, algorithm and seed.

No axis is positional (a score table with swapped axes gives absurdly narrow intervals and no error), and no
meaning is parsed out of a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smeoffline.bench.report.labels import Variant


@dataclass(frozen=True)
class Dataset:
    """A dataset without its seed: suite seed i draws the i-th dataset of this kind.

    Attributes:
        key: The dataset's id without the seed.
        label: For tables: what differs between the datasets of these results.
        label_without_size: The same without N_s and N_a.
        task_label: The part of it that the task decides.
        base_label: The behavior's systematic error; None for a mixture.
        noise: Kind and size of its exploration, `("none", "")` without one; None for a mixture.
        order: Sorts datasets: by task, then base error, then exploration.
        noise_order: Sorts explorations.
        task: The task's fields.
        behavior: The fields of each behavior, with its share.
        base, nu, sigma: Of the only behavior; None for a mixture.
        episodes: Of the dataset.
    """

    key: str
    label: str = field(compare=False)
    label_without_size: str = field(compare=False)
    task_label: str = field(compare=False)
    base_label: str | None = field(compare=False)
    noise: tuple[str, str] | None = field(compare=False)
    order: tuple[Any, ...] = field(compare=False)
    noise_order: tuple[Any, ...] = field(compare=False)
    task: Mapping[str, Any] = field(compare=False)
    behavior: tuple[Mapping[str, Any], ...] = field(compare=False)
    base: str | None = field(compare=False)
    nu: float | None = field(compare=False)
    sigma: float | None = field(compare=False)
    episodes: int | None = field(compare=False)


@dataclass(frozen=True)
class Run:
    """One finished cell.

    Attributes:
        cell: Its key in the suite.
        dataset: What it learnt from.
        algorithm: Its label, which tells variants of one algorithm apart.
        variant: What the label stands for.
        seed: Of the suite.
        scores: Numbers of its evaluation by name; `rl_gain` and `gap_closed` may be None.
        ood: (distance, score) by rising distance; empty bins are left out.
        curve: (step, score) by rising step; may be empty.
        seconds: It took.
    """

    cell: str
    dataset: Dataset
    algorithm: str
    variant: Variant
    seed: int
    scores: Mapping[str, float | None]
    ood: tuple[tuple[float, float], ...]
    curve: tuple[tuple[int, float], ...]
    seconds: float

    def score(self, name: str) -> float:
        """A score that exists in this run.

        Raises:
            KeyError: It is None.
        """
        value = self.scores[name]
        if value is None:
            raise KeyError(name)
        return value


@dataclass(frozen=True)
class Failure:
    """A cell that failed, and why (one line)."""

    cell: str
    dataset: Dataset
    algorithm: str
    seed: int
    reason: str


@dataclass(frozen=True)
class Study:
    """All cells of a results file, sorted, so that the order of its lines is of no consequence.

    Attributes:
        suites: Names of the suites.
        runs: Finished cells, by dataset, algorithm and seed; each such triple once.
        failures: Failed cells that no later call finished.
        datasets: Of finished and failed cells.
        algorithms: Label -> variant of the finished runs' algorithms, BC first.
        versions, platforms: For each key, how many runs had each value.
        notes: What a reader should know about the results, one sentence each.
    """

    suites: tuple[str, ...]
    runs: tuple[Run, ...]
    failures: tuple[Failure, ...]
    datasets: tuple[Dataset, ...]
    algorithms: Mapping[str, Variant]
    versions: Mapping[str, Mapping[str, int]]
    platforms: Mapping[str, Mapping[str, int]]
    notes: tuple[str, ...]

    @property
    def seeds(self) -> tuple[int, ...]:
        """Suite seeds of the finished runs."""
        return tuple(sorted({run.seed for run in self.runs}))

    @property
    def steps(self) -> tuple[int, ...]:
        """Training steps of the finished runs."""
        return tuple(sorted({run.variant.steps for run in self.runs}))

    @cached_property
    def _index(self) -> Mapping[tuple[Dataset, str], tuple[Run, ...]]:
        """The runs of each dataset and algorithm, by seed."""
        found: dict[tuple[Dataset, str], list[Run]] = {}
        for run in self.runs:
            found.setdefault((run.dataset, run.algorithm), []).append(run)
        return {place: tuple(runs) for place, runs in found.items()}

    def select(self, dataset: Dataset, algorithm: str) -> tuple[Run, ...]:
        """The runs of an algorithm on a dataset, by seed."""
        return self._index.get((dataset, algorithm), ())

    def by_seed(self, dataset: Dataset, algorithm: str, name: str) -> dict[int, float]:
        """Seed -> score of an algorithm on a dataset, without the runs where it is None."""
        found = {run.seed: run.scores[name] for run in self.select(dataset, algorithm)}
        return {seed: value for seed, value in found.items() if value is not None}

    def references(self, dataset: Dataset, name: str) -> dict[int, float]:
        """Seed -> a reference score of that seed's dataset, which every run on it repeats.

        A seed is left out if none of its runs has the score: results of earlier versions lack some rows.
        """
        found: dict[int, float] = {}
        for algorithm in self.algorithms:
            for run in self.select(dataset, algorithm):
                value = run.scores[name]
                if value is not None:
                    found.setdefault(run.seed, value)
        return found
