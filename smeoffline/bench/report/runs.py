"""From the cells of a results file to labelled runs, every number checked on the way."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from smeoffline.bench.report.labels import (
    SIZES,
    DatasetLabels,
    Variant,
    algorithm_labels,
    algorithm_order,
    noise_order,
)
from smeoffline.bench.report.study import Dataset, Failure, Run, Study
from smeoffline.bench.results import CellResult
from smeoffline.errors import BenchmarkError

SCORES = (
    "score_wd",
    "score_ood",
    "behavior_score",
    "imitation_score",
    "headroom",
    "random_score",
    "improvement",
)
NULLABLE_SCORES = ("rl_gain", "gap_closed", "clone_shrunk_score")  # earlier results lack the last
REFERENCES = ("behavior_score", "imitation_score", "headroom")
SAME_REFERENCE = 1e-3  # reference rows of one dataset differ by less than this between processor types


def study(cells: Iterable[CellResult]) -> Study:
    """Label and sort the cells of a results file.

    Args:
        cells: Each cell once, in any order.

    Raises:
        BenchmarkError: A number is missing or is none; names the cell.
    """
    kept = sorted(cells, key=lambda cell: (cell.suite, cell.cell))
    specs = [_spec(cell) for cell in kept]
    labels = DatasetLabels.of(specs)
    datasets = [_dataset(cell.dataset_name, spec, labels) for cell, spec in zip(kept, specs, strict=True)]
    variants = [Variant(cell.algo, cell.variant, cell.settings, cell.steps) for cell in kept]
    runs: dict[tuple[str, str, int], Run] = {}
    failures = []
    for cell, data, variant, label in zip(kept, datasets, variants, algorithm_labels(variants), strict=True):
        if cell.done:
            runs.setdefault((data.key, label, cell.seed), _run(cell, data, label, variant))
        else:
            failures.append(Failure(cell.cell, data, label, cell.seed, _reason(cell)))
    known = {run.algorithm: run.variant for run in runs.values()}
    order = algorithm_order({label: variant.algo for label, variant in known.items()})
    ranked = sorted(runs.values(), key=lambda r: (r.dataset.order, order.index(r.algorithm), r.seed))
    return Study(
        suites=tuple(sorted({cell.suite for cell in kept})),
        runs=tuple(ranked),
        failures=tuple(sorted(failures, key=lambda f: (f.dataset.order, f.algorithm, f.seed, f.cell))),
        datasets=tuple(sorted(set(datasets), key=lambda d: d.order)),
        algorithms={label: known[label] for label in order},
        versions=_counts(cell.versions for cell in kept if cell.done),
        platforms=_counts(cell.platform for cell in kept if cell.done),
        notes=_disagreements(ranked),
    )


def _spec(cell: CellResult) -> dict[str, Any]:
    """All of a dataset but its seed."""
    for behavior in cell.behavior:
        for name in ("nu", "sigma"):
            _finite(cell, f"behavior {name}", behavior.get(name))
    return {"task": cell.task, "behavior": cell.behavior, "episodes": cell.dataset.get("episodes")}


def _dataset(key: str, spec: Mapping[str, Any], labels: DatasetLabels) -> Dataset:
    only = spec["behavior"][0] if len(spec["behavior"]) == 1 else None
    return Dataset(
        key=key,
        label=labels.dataset(spec),
        label_without_size=labels.dataset(spec, SIZES),
        task_label=labels.task(spec),
        base_label=labels.base(spec),
        noise=labels.noise(spec),
        order=(*labels.order(spec), key),
        noise_order=noise_order(spec["behavior"][0]["explore"], spec["behavior"][0]["sigma"]),
        task=spec["task"],
        behavior=tuple(spec["behavior"]),
        base=str(only["base"]) if only else None,
        nu=float(only["nu"]) if only else None,
        sigma=float(only["sigma"]) if only else None,
        episodes=spec["episodes"],
    )


def _reason(cell: CellResult) -> str:
    """Why a cell failed, on one line."""
    return " ".join(cell.reason.split()) if cell.reason is not None else "no reason was recorded"


def _run(cell: CellResult, dataset: Dataset, label: str, variant: Variant) -> Run:
    """A finished cell."""
    evaluation: Mapping[str, Any] = cell.evaluation if cell.evaluation is not None else {}
    scores: dict[str, float | None] = {n: _finite(cell, n, evaluation.get(n)) for n in SCORES}
    for name in NULLABLE_SCORES:
        value = evaluation.get(name)
        scores[name] = None if value is None else _finite(cell, name, value)
    return Run(
        cell=cell.cell,
        dataset=dataset,
        algorithm=label,
        variant=variant,
        seed=cell.seed,
        scores=scores,
        ood=_distances(cell, evaluation.get("ood_curve")),
        curve=tuple(sorted((point.step, _finite(cell, "curve", point.score_wd)) for point in cell.curve)),
        seconds=_finite(cell, "seconds", cell.seconds),
    )


def _distances(cell: CellResult, points: Any) -> tuple[tuple[float, float], ...]:
    """(distance, score) by rising distance, without the bins that no probe fell into."""
    if points is None:
        return ()
    if not isinstance(points, list) or not all(isinstance(point, Mapping) for point in points):
        raise BenchmarkError(f"results: cell {cell.cell!r}: expected a list for ood_curve, got {points!r}")
    found = [(p.get("distance"), p.get("score")) for p in points if p.get("score") is not None]
    return tuple(sorted((_finite(cell, "distance", x), _finite(cell, "ood_curve", y)) for x, y in found))


def _finite(cell: CellResult, name: str, value: Any) -> float:
    """A number that is one."""
    # Compared, not converted: a whole number may be beyond the largest float.
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= sys.float_info.max:
        raise BenchmarkError(
            f"results: cell {cell.cell!r}: expected a finite number for {name}, got {value!r}; "
            "remove that line and run benchmark again"
        )
    return float(value)


def _counts(tables: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """For each key, how often each value occurs, the commonest first."""
    counters: dict[str, Counter[str]] = {}
    for table in tables:
        for key, value in table.items():
            counters.setdefault(key, Counter())[str(value)] += 1
    return {
        key: dict(sorted(counter.items(), key=lambda item: (-item[1], item[0])))
        for key, counter in sorted(counters.items())
    }


def _disagreements(runs: Sequence[Run]) -> tuple[str, ...]:
    """Datasets whose reference rows are not the same in all cells: these did not see the same data."""
    seen: dict[tuple[Dataset, int, str], list[float]] = {}
    for run in runs:
        for name in REFERENCES:
            seen.setdefault((run.dataset, run.seed, name), []).append(run.score(name))
    return tuple(
        f"{dataset.label}, seed {seed}: {name} differs between cells by {max(values) - min(values):.4f}, "
        "so they did not see the same dataset."
        for (dataset, seed, name), values in seen.items()
        if max(values) - min(values) > SAME_REFERENCE
    )
