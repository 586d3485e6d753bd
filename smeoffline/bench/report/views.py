"""What the figures of points, colors and lines show: results arranged in panels, on axes named by labels."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence

from smeoffline.bench.drawing.panels import DotPanel, HeatPanel, LinePanel, Noise, Series
from smeoffline.bench.report.numbers import (
    DatasetRow,
    ResultRow,
    count,
    dataset_rows,
    distinct,
    means_of,
    tidy,
)
from smeoffline.bench.report.study import Dataset, Run, Study
from smeoffline.score.statistics import Estimate


def improvement_panels(rows: Sequence[ResultRow], datasets: Sequence[DatasetRow]) -> tuple[DotPanel, ...]:
    """Improvement over the behavior policy by base error: one panel for each exploration and task.

    The imitation line is what perfect cloning improves, the optimal line what is possible at all.
    """
    found: dict[tuple[Noise, str], list[DatasetRow]] = {}
    for row in sorted(datasets, key=lambda r: r.dataset.noise_order):
        if row.dataset.noise is not None:
            found.setdefault((row.dataset.noise, row.dataset.task_label), []).append(row)
    told = any(size for (_, size), _ in found)  # not where nothing explores
    panels = []
    for (noise, task), members in found.items():
        groups = {row.dataset: str(row.dataset.base_label) for row in members}
        points: dict[str, dict[str, Estimate]] = {}
        for result in rows:
            if result.dataset in groups:
                points.setdefault(result.algorithm, {})[groups[result.dataset]] = result.improvement
        panels.append(
            DotPanel(
                title=f"{task}, {exploration(noise)}" if told else task,
                groups=tuple(groups.values()),
                points=points,
                references={
                    "optimal": {groups[r.dataset]: tidy(1 - r.behavior) for r in members},
                    "imitation": {groups[r.dataset]: tidy(r.imitation - r.behavior) for r in members},
                },
            )
        )
    return _side_by_side(panels)


def _side_by_side(panels: Sequence[DotPanel]) -> tuple[DotPanel, ...]:
    """One panel with a group for each task, where each would be a panel of the same single group."""
    if len(panels) < 2 or len({panel.groups for panel in panels}) > 1 or len(panels[0].groups) > 1:
        return tuple(panels)
    (group,) = panels[0].groups
    algorithms = distinct(algorithm for panel in panels for algorithm in panel.points)
    merged = DotPanel(
        title=group,
        groups=tuple(panel.title for panel in panels),
        points={a: {panel.title: panel.points[a][group] for panel in panels if a in panel.points} for a in algorithms},
        references={
            name: {panel.title: panel.references[name][group] for panel in panels} for name in panels[0].references
        },
    )
    return (merged,)


def gain_panels(rows: Sequence[ResultRow]) -> tuple[HeatPanel, ...]:
    """rl_gain by base error and exploration: one panel for each algorithm and task in which both vary."""
    found: dict[tuple[str, str], list[ResultRow]] = {}
    for row in rows:
        if row.dataset.base_label is not None:
            found.setdefault((row.algorithm, row.dataset.task_label), []).append(row)
    panels = []
    for (algorithm, task), members in found.items():
        by_noise = sorted(members, key=lambda row: row.dataset.noise_order)
        bases = distinct(str(row.dataset.base_label) for row in members)
        noises = distinct(row.dataset.noise for row in by_noise if row.dataset.noise is not None)
        if len(bases) < 2 or len(noises) < 2:
            continue
        values = {
            (str(row.dataset.base_label), row.dataset.noise): row.rl_gain.value if row.rl_gain else None
            for row in members
            if row.dataset.noise is not None
        }
        panels.append(HeatPanel(algorithm, task, bases, noises, values))
    return tuple(panels)


def distance_panels(study: Study) -> tuple[LinePanel, ...]:
    """Score by distance from the training distribution: one panel for each task.

    A seed's curve is its mean over the datasets of the task that every algorithm finished for that seed, so
    that all lines of a panel are about the same data. Distance 0 is the score inside the cube.
    """
    panels = []
    for task in distinct(dataset.task_label for dataset in study.datasets):
        runs = [run for run in study.runs if run.dataset.task_label == task and run.ood]
        algorithms = [a for a in study.algorithms if any(run.algorithm == a for run in runs)]
        shared = _shared(runs, algorithms)
        series = [
            Series(algorithm, *_curve(_distance_points(run) for run in shared if run.algorithm == algorithm))
            for algorithm in algorithms
        ]
        kept = tuple(line for line in series if len(line.x) > 1)
        if kept:
            panels.append(LinePanel(_counted(task, shared), kept, {}))
    return tuple(panels)


def _shared(runs: Sequence[Run], algorithms: Sequence[str]) -> list[Run]:
    """The runs on datasets and seeds that every algorithm finished."""
    places: dict[tuple[Dataset, int], set[str]] = {}
    for run in runs:
        places.setdefault((run.dataset, run.seed), set()).add(run.algorithm)
    return [run for run in runs if places[run.dataset, run.seed] == set(algorithms)]


def _counted(task: str, runs: Sequence[Run]) -> str:
    """`C = 50 (2 datasets, 10 seeds)`."""
    datasets, seeds = len({run.dataset for run in runs}), len({run.seed for run in runs})
    return f"{task} ({count(datasets, 'dataset')}, {count(seeds, 'seed')})"


def _distance_points(run: Run) -> tuple[int, Mapping[float, float]]:
    return run.seed, {0.0: run.score("score_wd"), **dict(run.ood)}


def _curve(
    curves: Iterable[tuple[int, Mapping[float, float]]],
) -> tuple[tuple[float, ...], tuple[Estimate, ...]]:
    """Estimates over seeds at every x that all curves have; curves of one seed are averaged first."""
    by_seed: dict[int, list[Mapping[float, float]]] = {}
    for seed, points in curves:
        by_seed.setdefault(seed, []).append(points)
    every = [points for group in by_seed.values() for points in group]
    xs = sorted(set.intersection(*(set(points) for points in every))) if every else []
    means = [{seed: statistics.fmean(points[x] for points in group) for seed, group in by_seed.items()} for x in xs]
    return tuple(xs), tuple(means_of(means))


def curve_panels(study: Study) -> tuple[LinePanel, ...]:
    """Learning curves: one panel for each dataset, with its imitation and behavior lines."""
    panels = []
    for row in dataset_rows(study):
        series = [
            Series(a, *_curve((r.seed, dict(r.curve)) for r in study.select(row.dataset, a) if r.curve))
            for a in study.algorithms
        ]
        kept = tuple(line for line in series if len(line.x) > 1)
        if kept:
            lines = {"imitation": row.imitation, "behavior": row.behavior}
            panels.append(LinePanel(row.dataset.label, kept, lines))
    return tuple(panels)


def exploration(noise: Noise) -> str:
    """`probit 0.3`, or `no exploration`."""
    return " ".join(noise) if noise[1] else "no exploration"
