"""Table 1 of arXiv 2603.06252 beside ours, cell by cell, and what pooling task sizes does to its spread."""

from __future__ import annotations

import csv
import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources

from smeoffline.bench.report.labels import SIZES, Variant, freeze
from smeoffline.bench.report.numbers import Spread, tidy
from smeoffline.bench.report.study import Dataset, Study

ROWS = ("bp", "bc", "iql")  # behavior policy, behavior cloning, implicit Q-learning
PAPER_SEEDS = 10
LEAST_TOLERANCE = 0.01
PREFERRED_SIZE = (8, 4)  # our default, where the results have several: the paper does not tell its own

Key = tuple[float, int, str]


@dataclass(frozen=True)
class PaperCell:
    """What the paper prints for one cell."""

    mean: float
    spread: float

    @property
    def tolerance(self) -> float:
        """How far ours may be: two standard errors of the paper's mean, but not less than 0.01."""
        return max(LEAST_TOLERANCE, 2 * self.spread / math.sqrt(PAPER_SEEDS))


@dataclass(frozen=True)
class Cell:
    """One cell of the table, ours beside the paper's.

    Attributes:
        nu: Of the behavior policy.
        complexity: C.
        row: `bp`, `bc` or `iql`.
        mean, spread: Ours: mean and standard deviation over seeds; None where there are too few.
        n: Our seeds.
        paper_mean, paper_spread: As printed.
        difference: Ours minus the paper's.
        tolerance: How large it may be.
        within: Whether it is no larger; None where there is none.
    """

    nu: float
    complexity: int
    row: str
    mean: float | None
    spread: float | None
    n: int
    paper_mean: float
    paper_spread: float
    difference: float | None
    tolerance: float
    within: bool | None


@dataclass(frozen=True)
class Table1:
    """The whole table.

    Attributes:
        cells: By nu, complexity and row.
        size: (N_s, N_a) of our tasks; the paper does not tell its own.
        algorithms: Label of the runs in row `bc` and in row `iql`, where there are any.
    """

    cells: tuple[Cell, ...]
    size: tuple[int, int]
    algorithms: Mapping[str, str]


@dataclass(frozen=True)
class PooledSizes:
    """One algorithm on one kind of dataset at several sizes of the task.

    Attributes:
        label: The dataset, without the size.
        algorithm: Label.
        sizes: (N_s, N_a) -> score over seeds.
        pooled: Over all seeds and sizes.
        paper: The paper's cell, where it has one.
    """

    label: str
    algorithm: str
    sizes: Mapping[tuple[int, int], Spread]
    pooled: Spread
    paper: PaperCell | None


def paper_table() -> dict[Key, PaperCell]:
    """(nu, complexity, row), sorted -> what the paper prints, from the file beside this module."""
    text = resources.files("smeoffline.bench").joinpath("paper_table1.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    printed = {
        (float(line["nu"]), int(line["complexity"]), row): PaperCell(
            float(line[f"{row}_mean"]), float(line[f"{row}_spread"])
        )
        for line in csv.DictReader(lines)
        for row in ROWS
    }
    return dict(sorted(printed.items(), key=lambda item: (*item[0][:2], ROWS.index(item[0][2]))))


def table1(study: Study) -> Table1 | None:
    """The table; None where the results do not contain the paper's six datasets.

    A failed cell's dataset counts as contained: its cells are shown empty.
    """
    paper = paper_table()
    grids = _grids(study, {(nu, complexity) for nu, complexity, _ in paper})
    if not grids:
        return None
    datasets = min(grids, key=lambda grid: _preference(grid, study))
    plainest = {row: _plainest(study, row, list(datasets.values())) for row in ROWS if row != "bp"}
    algorithms = {row: label for row, label in plainest.items() if label is not None}
    cells = []
    for (nu, complexity, row), printed in paper.items():
        dataset = datasets[nu, complexity]
        values: Mapping[int, float] = {}
        if row == "bp":
            values = study.references(dataset, "behavior_score")
        elif row in algorithms:
            values = study.by_seed(dataset, algorithms[row], "score_wd")
        cells.append(_cell((nu, complexity, row), values, printed))
    task = next(iter(datasets.values())).task
    return Table1(tuple(cells), (int(task["state_dim"]), int(task["action_dim"])), algorithms)


def _cell(key: Key, values: Mapping[int, float], paper: PaperCell) -> Cell:
    """One cell, from seed -> score."""
    ours = Spread.of(values) if values else None
    difference = None if ours is None else tidy(ours.mean - paper.mean)
    return Cell(
        *key,
        mean=None if ours is None else ours.mean,
        spread=None if ours is None else ours.spread,
        n=len(values),
        paper_mean=paper.mean,
        paper_spread=paper.spread,
        difference=difference,
        tolerance=tidy(paper.tolerance),
        within=None if difference is None else abs(difference) <= paper.tolerance,
    )


def _grids(study: Study, places: set[tuple[float, int]]) -> list[dict[tuple[float, int], Dataset]]:
    """The sets of datasets that differ only in nu and complexity, and have all of the paper's."""
    found: dict[Hashable, dict[tuple[float, int], Dataset]] = {}
    for dataset in study.datasets:
        if not _like_the_paper(dataset):
            continue
        place = (dataset.nu if dataset.nu is not None else math.nan, int(dataset.task["complexity"]))
        rest = {**dataset.task, "complexity": None, "episodes": dataset.episodes}
        found.setdefault(freeze(rest), {})[place] = dataset
    return [grid for grid in found.values() if places <= set(grid)]


def _like_the_paper(dataset: Dataset) -> bool:
    """Biased behavior without exploration; rewards at every step, without threshold, kill or shaping."""
    plain = {"reward_every": 1, "min_reward": 0, "kill_threshold": 0, "shaping": 0}
    paid = all(dataset.task.get(name, value) == value for name, value in plain.items())
    return dataset.base == "bias" and dataset.sigma == 0 and paid


def _preference(grid: Mapping[tuple[float, int], Dataset], study: Study) -> tuple[object, ...]:
    """Of several grids: the size of our defaults, then most runs, then the first."""
    datasets = list(grid.values())
    size = tuple(datasets[0].task[name] for name in SIZES)
    runs = sum(len(study.select(dataset, a)) for dataset in datasets for a in study.algorithms)
    return (size != PREFERRED_SIZE, -runs, datasets[0].order)


def _plainest(study: Study, algo: str, datasets: Sequence[Dataset]) -> str | None:
    """Of several variants of an algorithm: default settings, then most runs, then most steps."""

    def key(label: str) -> tuple[object, ...]:
        variant: Variant = study.algorithms[label]
        runs = sum(len(study.select(dataset, label)) for dataset in datasets)
        return (len(variant.settings), -runs, -variant.steps, label)

    return min((a for a, variant in study.algorithms.items() if variant.algo == algo), key=key, default=None)


def pooled_sizes(study: Study) -> tuple[PooledSizes, ...]:
    """Scores by size of the task, where datasets differ in nothing else, and over all sizes together."""
    found: dict[tuple[Hashable, str], dict[Dataset, dict[int, float]]] = {}
    labels: dict[Hashable, str] = {}
    for dataset in study.datasets:
        rest = {k: v for k, v in dataset.task.items() if k not in SIZES}
        key = freeze([rest, list(dataset.behavior), dataset.episodes])
        labels.setdefault(key, dataset.label_without_size)
        for algorithm in study.algorithms:
            values = study.by_seed(dataset, algorithm, "score_wd")
            if values:
                found.setdefault((key, algorithm), {})[dataset] = values
    return tuple(
        _pool(labels[key], algorithm, study.algorithms[algorithm], members)
        for (key, algorithm), members in found.items()
        if len(members) > 1
    )


def _pool(label: str, algorithm: str, variant: Variant, members: Mapping[Dataset, Mapping[int, float]]) -> PooledSizes:
    first = next(iter(members))
    key = (first.nu if first.nu is not None else math.nan, int(first.task["complexity"]), variant.algo)
    plain = _like_the_paper(first) and not variant.settings
    everything = [value for values in members.values() for _, value in sorted(values.items())]
    return PooledSizes(
        label=label,
        algorithm=algorithm,
        sizes={
            (int(d.task["state_dim"]), int(d.task["action_dim"])): Spread.of(values) for d, values in members.items()
        },
        pooled=Spread.of(dict(enumerate(everything))),
        paper=paper_table().get(key) if plain else None,
    )
