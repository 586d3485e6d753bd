"""Which algorithm makes most of the reward: interquartile means and probabilities of improvement.

After Agarwal et al. 2021, "Deep reinforcement learning at the edge of the statistical precipice": runs are
resampled within each dataset, never datasets, and one run a dataset gives no interval.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from smeoffline.bench.drawing.panels import RankingPanel
from smeoffline.bench.report.numbers import Spread, count, count_range, tidy
from smeoffline.bench.report.study import Dataset, Study
from smeoffline.data.behavior import can_explore
from smeoffline.errors import SpecError
from smeoffline.score.statistics import DEFAULT_SEED, Estimate, Statistic, bootstrap_interval, interquartile_mean
from smeoffline.sme.arrays import Doubles

RANKED_HEADROOM = 0.05  # a gap smaller than this, as a divisor, would let noise decide the ranking

Cells = Mapping[str, Mapping[int, float]]
Place = tuple[Dataset, int]


@dataclass(frozen=True)
class ScoreTable:
    """Scores by algorithm, dataset and seed: three named axes, of which no two can be mistaken.

    Attributes:
        values: Algorithm (text) -> dataset (text) -> seed (whole number) -> score.

    Raises:
        SpecError: An axis has labels of another kind (as swapped axes do), the algorithms do not share their
            datasets and seeds, or a score is no finite number.
    """

    values: Mapping[str, Cells]

    def __post_init__(self) -> None:
        """Refuse what is not complete, or not labelled as it must be."""
        shapes = set()
        for algorithm, cells in self.values.items():
            _labels("algorithm", str, [algorithm])
            _labels("dataset", str, list(cells))
            for seeds in cells.values():
                _labels("seed", int, list(seeds))
                scores: list[Any] = list(seeds.values())
                if not all(isinstance(score, float) and math.isfinite(score) for score in scores):
                    raise SpecError(f"score table: expected finite scores, got {scores!r}")
            shapes.add(frozenset((name, frozenset(seeds)) for name, seeds in cells.items()))
        if len(shapes) != 1 or frozenset() in shapes:
            raise SpecError("score table: expected the same datasets and seeds, at least one, for each algorithm")

    def strata(self, algorithm: str) -> list[Doubles]:
        """The scores of an algorithm, one array a dataset, datasets and seeds in order of their labels."""
        cells = self.values[algorithm]
        return [np.array([cells[d][s] for s in sorted(cells[d])]) for d in sorted(cells)]


def _labels(axis: str, kind: type, labels: Sequence[Any]) -> None:
    """Refuse labels that belong to another axis."""
    for label in labels:
        if not isinstance(label, kind) or isinstance(label, bool):
            wanted = "text" if kind is str else "a whole number"
            raise SpecError(
                f"score table: expected {wanted} on the axis {axis!r}, got {label!r}; "
                "axes are algorithm, dataset, seed, from the outside in"
            )


@dataclass(frozen=True)
class Ranking:
    """Algorithms compared on the same datasets and seeds.

    Attributes:
        panel: The numbers.
        datasets: Labels of the datasets.
        seeds: Fewest and most seeds of a dataset.
        excluded: Algorithm -> why it is not ranked.
        dropped: Runs left out because another ranked algorithm has none on that dataset and seed.
        least_p: The smallest p-value that a comparison of two algorithms could have, by the exact two-sided
            permutation test within datasets: what it has if every run of one beats all of the other.
    """

    panel: RankingPanel
    datasets: tuple[str, ...]
    seeds: tuple[int, int]
    excluded: Mapping[str, str]
    dropped: int
    least_p: float


def ranking(study: Study) -> Ranking | None:
    """Rank by gap closed on datasets that can teach; None where there are not two algorithms to compare.

    An algorithm is ranked if it has finished on all of these datasets; all are compared on the datasets and
    seeds that every ranked one has finished.
    """
    eligible = _eligible(study)
    closed = {algorithm: _closed(study, algorithm, eligible) for algorithm in study.algorithms}
    covered = {algorithm: len({dataset for dataset, _ in places}) for algorithm, places in closed.items()}
    ranked = [algorithm for algorithm in study.algorithms if covered[algorithm] == len(eligible)]
    shared = set.intersection(*(set(closed[a]) for a in ranked)) if ranked else set()
    if len(ranked) < 2 or not shared:
        return None
    table = ScoreTable({algorithm: _nested(closed[algorithm], shared) for algorithm in ranked})
    sizes = [len(seeds) for seeds in table.values[ranked[0]].values()]
    return Ranking(
        panel=compare(table),
        datasets=tuple(d.label for d in eligible if d in {dataset for dataset, _ in shared}),
        seeds=(min(sizes), max(sizes)),
        excluded={
            a: f"finished on {covered[a]} of {count(len(eligible), 'dataset')} that can teach"
            for a in study.algorithms
            if a not in ranked
        },
        dropped=sum(len(closed[a]) - len(shared) for a in ranked),
        least_p=2 / math.prod(math.comb(2 * size, size) for size in sizes),
    )


def _eligible(study: Study) -> tuple[Dataset, ...]:
    """Datasets that leave the reward enough to teach, on average over their seeds, and show more than one action."""
    known = {d: study.references(d, "headroom") for d in study.datasets if can_explore(d.behavior)}
    return tuple(d for d, seeds in known.items() if seeds and Spread.of(seeds).mean >= RANKED_HEADROOM)


def _closed(study: Study, algorithm: str, datasets: Sequence[Dataset]) -> dict[Place, float]:
    """Gap closed, where there is a gap."""
    return {
        (dataset, seed): value
        for dataset in datasets
        for seed, value in study.by_seed(dataset, algorithm, "gap_closed").items()
    }


def _nested(values: Mapping[Place, float], places: set[Place]) -> dict[str, dict[int, float]]:
    """Dataset -> seed -> value, for these places only."""
    nested: dict[str, dict[int, float]] = {}
    for dataset, seed in places:
        nested.setdefault(dataset.label, {})[seed] = values[dataset, seed]
    return nested


def compare(table: ScoreTable) -> RankingPanel:
    """Interquartile means, best first, and the probability that one algorithm beats another.

    Agarwal et al. compare every run of one with every run of the other; here seed i of both has learnt from the same
    dataset, so runs are compared seed by seed, and a pair is what is resampled.
    """
    iqm = {a: stratified(table.strata(a), _pooled_iqm) for a in table.values}
    order = tuple(sorted(table.values, key=lambda a: (-iqm[a].value, a)))
    wins = {
        (one, other): stratified(_outcomes(table, one, other), mean_of_means)
        for one in order
        for other in order
        if one != other
    }
    return RankingPanel(order, {a: iqm[a] for a in order}, wins)


def _outcomes(table: ScoreTable, one: str, other: str) -> list[Doubles]:
    """1 where the one beats the other on the same dataset and seed, 1/2 for a tie; one array a dataset."""
    pairs = zip(table.strata(one), table.strata(other), strict=True)
    return [(np.sign(a - b) + 1) / 2 for a, b in pairs]


def _pooled_iqm(*strata: Doubles, axis: int = -1) -> Any:
    """Interquartile mean of all runs."""
    return interquartile_mean(np.concatenate(strata, axis=axis), axis=axis)


def mean_of_means(*strata: Doubles, axis: int = -1) -> Any:
    """Mean over datasets of the mean over seeds: each dataset counts the same."""
    return np.mean([stratum.mean(axis=axis) for stratum in strata], axis=0)


def stratified(strata: Sequence[Doubles], statistic: Statistic, *, seed: int = DEFAULT_SEED) -> Estimate:
    """A statistic with its 95% percentile bootstrap interval; runs are resampled within each stratum.

    Args:
        strata: One array of runs a dataset.
        statistic: Takes the strata and `axis`.
        seed: Draws the resamples.

    Returns:
        n counts all runs. No interval where a stratum has a single run: its variation is not known.
    """
    value, n = tidy(float(statistic(*strata))), sum(map(len, strata))
    if min(map(len, strata)) < 2:
        return Estimate(value, None, None, n)
    low, high = bootstrap_interval(strata, statistic, seed=seed)
    return Estimate(value, tidy(float(low)), tidy(float(high)), n)


def summary(found: Ranking) -> str:
    """How much was compared: `3 datasets, 5 to 10 seeds`."""
    return f"{count(len(found.datasets), 'dataset')}, {count_range(*found.seeds, 'seed')} each"
