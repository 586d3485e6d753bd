"""Who stands where: the numbers of the leaderboard's page, from its results. Needs no torch.

Ranked is by the interquartile mean of the gap closed, on the datasets that leave the reward enough to teach;
controls are left out. Both tiers are ranked apart; a flagged entry stands in its place without a rank, and a
partial one apart.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smeoffline.bench.drawing.panels import RankingPanel
from smeoffline.bench.leaderboard.flags import INFORMED
from smeoffline.bench.leaderboard.lines import SELF_REPORTED, VERIFIED, Line
from smeoffline.bench.leaderboard.place_score import PlaceScore, Scores
from smeoffline.bench.report.numbers import Spread, tidy
from smeoffline.bench.report.ranking import RANKED_HEADROOM, ScoreTable, compare
from smeoffline.errors import BenchmarkError
from smeoffline.score.statistics import Estimate

BASELINE = "BC"  # the name of the entry, in each tier, that the others are compared with: imitation
# Row -> (its score in a `PlaceScore`, what it means).
REFERENCES = {
    "optimal": (None, "the optimum, known in every state"),
    "shrunk": ("clone_shrunk_score", "imitation drawn towards 1/2 as far as helps: needs no reward"),
    "imitation": ("imitation_score", "the best that cloning can do"),
    "behavior": ("behavior_score", "what the dataset shows"),
    "random": ("random_score", "uniform actions"),
}


@dataclass(frozen=True)
class DatasetScore:
    """An entry on one dataset.

    Attributes:
        dataset: Its name.
        label: What a person calls it.
        kind: What it is used for.
        ranked: Whether the ranking has it.
        headroom: Mean over seeds.
        score, outside, improvement, gap_closed: Over seeds; the last is None without headroom.
    """

    dataset: str
    label: str
    kind: str
    ranked: bool
    headroom: float
    score: Spread
    outside: Spread
    improvement: Spread
    gap_closed: Spread | None


@dataclass(frozen=True)
class Row:
    """An entry or a reference row.

    Attributes:
        rank: From 1; None for references, and for what is flagged or not ranked.
        name: The entry's, or the reference's.
        line: The entry's; None for a reference.
        meaning: Of a reference.
        closed: Interquartile mean of the gap closed with its interval; None where it can't be compared.
        score, improvement, outside: Means over the ranked datasets; None where there is none.
        wins: Probability that it beats BC on the same data; None for BC, and where BC is not there.
        datasets: Every dataset it has.
    """

    rank: int | None
    name: str
    line: Line | None
    meaning: str
    closed: Estimate | None
    score: float | None
    improvement: float | None
    outside: float | None
    wins: Estimate | None
    datasets: tuple[DatasetScore, ...]


@dataclass(frozen=True)
class Standing:
    """One tier.

    Attributes:
        tier: Its name.
        rows: Entries that can be compared, the references in their places among them; best first.
        others: Partial entries, and those that answer other probes than the newest.
        panel: What the figure shows; None without two entries to compare.
        datasets: Labels of the datasets that are ranked by.
        seeds: Seeds of each.
    """

    tier: str
    rows: tuple[Row, ...]
    others: tuple[Row, ...]
    panel: RankingPanel | None
    datasets: tuple[str, ...]
    seeds: int


def standings(lines: Sequence[Line]) -> tuple[Standing, ...]:
    """Both tiers, self-reported first; one without an entry is left out.

    Raises:
        BenchmarkError: No entry, or entries of several suites.
    """
    suites = sorted({line.submission.suite for line in lines})
    if not suites:
        raise BenchmarkError("leaderboard: expected results with an entry, got none; `leaderboard score` adds one")
    if len(suites) > 1:
        raise BenchmarkError(
            f"leaderboard: expected results of one suite, got {' and '.join(map(repr, suites))}; "
            "keep a results file for each"
        )
    tiers = {tier: [line for line in lines if line.tier == tier] for tier in (SELF_REPORTED, VERIFIED)}
    return tuple(_standing(tier, listed) for tier, listed in tiers.items() if listed)


def ranked_by(kinds: Mapping[str, str], entries: Sequence[Scores]) -> tuple[str, ...]:
    """The datasets to rank by: they can teach, and all entries have a gap on them.

    Args:
        kinds: Dataset -> what it is used for.
        entries: Scores of each entry; the headroom is 0.05 or more on average over them and their seeds.
    """
    return tuple(
        dataset
        for dataset, kind in kinds.items()
        if kind == INFORMED
        and all(dataset in scores for scores in entries)
        and all(score.gap_closed is not None for scores in entries for score in scores[dataset])
        and statistics.fmean(s.headroom for scores in entries for s in scores[dataset]) >= RANKED_HEADROOM
    )


def _standing(tier: str, lines: Sequence[Line]) -> Standing:
    """Rank one tier's entries."""
    current = lines[-1].submission.probes_sha256
    ranked = [line for line in lines if not line.partial and line.submission.probes_sha256 == current]
    others = [line for line in lines if line not in ranked]
    datasets = ranked_by(ranked[0].kinds, [line.scores for line in ranked]) if ranked else ()
    rows: list[Row] = []
    panel = None
    if datasets:
        panel = compare(ScoreTable({line.submission.name: _closed(line, datasets) for line in ranked}))
        rows = _rows(ranked, panel, datasets) + _references(ranked[0], datasets)
        rows.sort(key=lambda row: -row.closed.value if row.closed is not None else 0.0)  # stable: optimal before a tie
    else:
        others = list(lines)
    labels = lines[-1].labels
    return Standing(
        tier=tier,
        rows=tuple(rows),
        others=tuple(_row(line, datasets) for line in others),
        panel=panel if panel is not None and len(panel.algorithms) > 1 else None,
        datasets=tuple(labels.get(dataset, dataset) for dataset in datasets),
        seeds=len(ranked[0].scores[datasets[0]]) if datasets else 0,
    )


def _closed(line: Line, datasets: Sequence[str]) -> dict[str, dict[int, float]]:
    """Dataset -> seed -> gap closed."""
    return {
        dataset: {score.seed: score.gap_closed for score in line.scores[dataset] if score.gap_closed is not None}
        for dataset in datasets
    }


def _rows(lines: Sequence[Line], panel: RankingPanel, datasets: Sequence[str]) -> list[Row]:
    """The ranked entries, best first."""
    known = {line.submission.name: line for line in lines}
    rows, rank = [], 0
    for name in panel.algorithms:
        wins = panel.wins.get((name, BASELINE))
        rank += not known[name].flags
        rows.append(_row(known[name], datasets, None if known[name].flags else rank, panel.iqm[name], wins))
    return rows


def _row(
    line: Line,
    datasets: Sequence[str],
    rank: int | None = None,
    closed: Estimate | None = None,
    wins: Estimate | None = None,
) -> Row:
    """One entry."""
    scores = [score for dataset in datasets for score in line.scores.get(dataset, ())]
    return Row(
        rank=rank,
        name=line.submission.name,
        line=line,
        meaning="",
        closed=closed,
        score=_mean([s.score_wd for s in scores]),
        improvement=_mean([s.improvement for s in scores]),
        outside=_mean([s.score_ood for s in scores]),
        wins=wins,
        datasets=tuple(_dataset(line, dataset, seeds, datasets) for dataset, seeds in line.scores.items()),
    )


def _mean(values: Sequence[float]) -> float | None:
    return tidy(statistics.fmean(values)) if values else None


def _dataset(line: Line, dataset: str, seeds: Sequence[PlaceScore], ranked: Sequence[str]) -> DatasetScore:
    """An entry's scores on one dataset."""
    closed = {s.seed: s.gap_closed for s in seeds if s.gap_closed is not None}
    return DatasetScore(
        dataset=dataset,
        label=line.labels[dataset],
        kind=line.kinds[dataset],
        ranked=dataset in ranked,
        headroom=tidy(statistics.fmean(s.headroom for s in seeds)),
        score=Spread.of({s.seed: s.score_wd for s in seeds}),
        outside=Spread.of({s.seed: s.score_ood for s in seeds}),
        improvement=Spread.of({s.seed: s.improvement for s in seeds}),
        gap_closed=Spread.of(closed) if len(closed) == len(seeds) else None,
    )


def _references(line: Line, datasets: Sequence[str]) -> list[Row]:
    """What needs no training, on the datasets of an entry."""
    rows = []
    for name, (key, meaning) in REFERENCES.items():
        score = {
            dataset: {s.seed: 1.0 if key is None else float(getattr(s, key)) for s in seeds}
            for dataset, seeds in line.scores.items()
            if dataset in datasets
        }
        closed, improved = _relative(line, score)
        iqm = compare(ScoreTable({name: closed})).iqm[name]
        every = [value for seeds in score.values() for value in seeds.values()]
        rows.append(Row(None, name, None, meaning, iqm, _mean(every), _mean(improved), None, None, ()))
    return rows


def _relative(line: Line, scores: Mapping[str, Mapping[int, float]]) -> tuple[dict[str, dict[int, float]], list[float]]:
    """Gaps closed, and improvements over the behavior, of reference scores."""
    closed: dict[str, dict[int, float]] = {}
    improved = []
    for dataset, seeds in scores.items():
        places = {place.seed: place for place in line.scores[dataset]}
        closed[dataset] = {s: (v - places[s].imitation_score) / places[s].headroom for s, v in seeds.items()}
        improved += [value - places[seed].behavior_score for seed, value in seeds.items()]
    return closed, improved


def record(found: Sequence[Standing]) -> list[dict[str, Any]]:
    """The ranking as JSON values."""
    return [
        {
            "tier": standing.tier,
            "datasets": list(standing.datasets),
            "seeds": standing.seeds,
            "entries": [_entry(row) for row in (*standing.rows, *standing.others)],
        }
        for standing in found
    ]


def _entry(row: Row) -> dict[str, Any]:
    """One row as JSON values."""
    closed, wins = row.closed, row.wins
    return {
        "rank": row.rank,
        "name": row.name,
        "reference": row.line is None,
        "partial": row.line is not None and row.line.partial,
        "flagged": row.line is not None and bool(row.line.flags),
        "gap_closed": None if closed is None else {"value": closed.value, "low": closed.low, "high": closed.high},
        "score": row.score,
        "improvement": row.improvement,
        "score_ood": row.outside,
        "better_than_bc": None if wins is None else {"value": wins.value, "low": wins.low, "high": wins.high},
    }
