"""Everything a report says, computed once: the tables, the figures and the JSON are made from this."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from smeoffline.bench.drawing.panels import DotPanel, HeatPanel, LinePanel
from smeoffline.bench.report.numbers import DatasetRow, ResultRow, dataset_rows, result_rows
from smeoffline.bench.report.ranking import Ranking, ranking
from smeoffline.bench.report.study import Study
from smeoffline.bench.report.table1 import PooledSizes, Table1, pooled_sizes, table1
from smeoffline.bench.report.views import (
    curve_panels,
    distance_panels,
    gain_panels,
    improvement_panels,
)

SCHEMA = 1


@dataclass(frozen=True)
class Findings:
    """What there is to tell; empty or None where the results do not have what it needs.

    Attributes:
        study: The runs.
        results: Every algorithm on every dataset.
        datasets: Every dataset with its reference rows.
        table1: Of the paper, ours beside it.
        sizes: Scores by size of the task.
        improvement: Over the behavior policy, by base error.
        gains: Over imitation, by base error and exploration.
        ranking: Of the algorithms, by gap closed.
        distances: Score by distance from the training distribution.
        curves: Score by training step.
    """

    study: Study
    results: tuple[ResultRow, ...]
    datasets: tuple[DatasetRow, ...]
    table1: Table1 | None
    sizes: tuple[PooledSizes, ...]
    improvement: tuple[DotPanel, ...]
    gains: tuple[HeatPanel, ...]
    ranking: Ranking | None
    distances: tuple[LinePanel, ...]
    curves: tuple[LinePanel, ...]

    @property
    def single(self) -> bool:
        """Whether every result is of one seed, so that nothing has an interval."""
        return all(row.score.n == 1 for row in self.results)


def findings(study: Study) -> Findings:
    """Compute all of it."""
    results, datasets = result_rows(study), dataset_rows(study)
    return Findings(
        study=study,
        results=results,
        datasets=datasets,
        table1=table1(study),
        sizes=pooled_sizes(study),
        improvement=improvement_panels(results, datasets),
        gains=gain_panels(results),
        ranking=ranking(study),
        distances=distance_panels(study),
        curves=curve_panels(study),
    )


def record(found: Findings) -> dict[str, Any]:
    """All of it as JSON values: what `report.json` holds."""
    study = found.study
    return {
        "schema": SCHEMA,
        "suites": list(study.suites),
        "done": len(study.runs),
        "failed": [
            {
                "cell": f.cell,
                "dataset": f.dataset.label,
                "algorithm": f.algorithm,
                "seed": f.seed,
                "reason": f.reason,
            }
            for f in study.failures
        ],
        "seeds": list(study.seeds),
        "steps": list(study.steps),
        "algorithms": {label: asdict(variant) for label, variant in study.algorithms.items()},
        "datasets": [_dataset(row) for row in found.datasets],
        "results": [_result(row) for row in found.results],
        "cells": [] if found.table1 is None else [asdict(cell) for cell in found.table1.cells],
        "sizes": [_sizes(pooled) for pooled in found.sizes],
        "ranking": None if found.ranking is None else _ranking(found.ranking),
        "distances": list(_lines(found.distances, "distance")),
        "curves": list(_lines(found.curves, "step")),
        "versions": study.versions,
        "platforms": study.platforms,
        "notes": list(study.notes),
    }


def _dataset(row: DatasetRow) -> dict[str, Any]:
    dataset = row.dataset
    return {
        "dataset": dataset.label,
        "name": dataset.key,
        "task": dict(dataset.task),
        "behavior": [dict(behavior) for behavior in dataset.behavior],
        "episodes": dataset.episodes,
        "n": row.seeds,
        "behavior_score": row.behavior,
        "imitation_score": row.imitation,
        "clone_shrunk_score": row.shrunk,
        "headroom": row.headroom,
        "random_score": row.random,
    }


def _result(row: ResultRow) -> dict[str, Any]:
    optional = {"rl_gain": row.rl_gain, "gap_closed": row.gap_closed}
    return {
        "dataset": row.dataset.label,
        "algorithm": row.algorithm,
        "score_wd": asdict(row.score),
        "improvement": asdict(row.improvement),
        **{name: None if value is None else asdict(value) for name, value in optional.items()},
    }


def _sizes(pooled: PooledSizes) -> dict[str, Any]:
    return {
        "dataset": pooled.label,
        "algorithm": pooled.algorithm,
        "sizes": [{"state_dim": n, "action_dim": a, **asdict(s)} for (n, a), s in pooled.sizes.items()],
        "pooled": asdict(pooled.pooled),
        "paper": None if pooled.paper is None else asdict(pooled.paper),
    }


def _ranking(found: Ranking) -> dict[str, Any]:
    panel = found.panel
    return {
        "datasets": list(found.datasets),
        "iqm": [{"algorithm": a, **asdict(value)} for a, value in panel.iqm.items()],
        "improvement": [{"better": a, "than": b, **asdict(value)} for (a, b), value in panel.wins.items()],
        "excluded": dict(found.excluded),
        "dropped": found.dropped,
    }


def _lines(panels: Iterable[LinePanel], x_name: str) -> Iterable[Mapping[str, Any]]:
    for panel in panels:
        for line in panel.series:
            points = [{x_name: x, **asdict(y)} for x, y in zip(line.x, line.y, strict=True)]
            yield {"panel": panel.title, "algorithm": line.label, "points": points}
