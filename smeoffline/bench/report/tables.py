"""The tables of a report in Markdown."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from smeoffline.bench.report.findings import Findings
from smeoffline.bench.report.numbers import Spread, distinct
from smeoffline.bench.report.ranking import Ranking
from smeoffline.bench.report.table1 import Cell, PooledSizes
from smeoffline.score.statistics import Estimate

MISSING = "–"
SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~#])")


def escaped(text: str) -> str:
    """Text from outside, so that it shows as it is and breaks no table."""
    return SPECIAL.sub(r"\\\1", " ".join(text.split()))


def code(text: str) -> str:
    """Text from outside as code within a line."""
    return f"`{' '.join(text.replace('`', ' ').split())}`"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], *, right: Collection[str] = ()) -> str:
    """A Markdown table.

    Args:
        headers: Of the columns.
        rows: Their cells, escaped.
        right: Headers of the columns that are aligned right.
    """
    rule = ["---:" if header in right else "---" for header in headers]
    return "\n".join(f"| {' | '.join(row)} |" for row in [headers, rule, *rows])


def number(value: float | None, digits: int = 4, *, sign: bool = False) -> str:
    """`0.9812`, `+0.0012`, `−0.0300`; a dash for none, and no sign for zero."""
    if value is None:
        return MISSING
    text = f"{value:+.{digits}f}" if sign else f"{value:.{digits}f}"
    zero = float(text) == 0
    return text.lstrip("+-") if zero else text.replace("-", "−")


def spread(value: Spread | None, seeds: int | None = None) -> str:
    """`0.981 ± 0.008`, and the number of seeds where it is not `seeds`."""
    if value is None:
        return MISSING
    text = number(value.mean) + (f" ± {number(value.spread)}" if value.spread is not None else "")
    return text if value.n == seeds else f"{text} (n = {value.n})"


def interval(value: Estimate | None, *, sign: bool = False, digits: int = 3, seeds: int | None = None) -> str:
    """`+0.047 (+0.031 to +0.060)`: an estimate, its interval if it has one, and n where it is not `seeds`."""
    if value is None:
        return MISSING
    told = []
    if value.low is not None and value.high is not None:
        told.append(f"{number(value.low, digits, sign=sign)} to {number(value.high, digits, sign=sign)}")
    if seeds is not None and value.n != seeds:
        told.append(f"n = {value.n}")
    text = number(value.value, digits, sign=sign)
    return f"{text} ({', '.join(told)})" if told else text


def cells_table(cells: Sequence[Cell]) -> str:
    """Table 1, a line for each cell."""
    rows = [
        (
            f"{cell.nu:g}",
            str(cell.complexity),
            cell.row.upper(),
            MISSING if cell.mean is None else number(cell.mean) + _plus_minus(cell.spread, 4),
            str(cell.n),
            number(cell.paper_mean, 3) + _plus_minus(cell.paper_spread, 2),
            number(cell.difference, sign=True),
            number(cell.tolerance, 3),
            MISSING if cell.within is None else ("yes" if cell.within else "**no**"),
        )
        for cell in cells
    ]
    headers = ("ν", "C", "row", "ours", "n", "paper", "difference", "tolerance", "agrees")
    return table(headers, rows, right=("ν", "C", "ours", "n", "paper", "difference", "tolerance"))


def _plus_minus(value: float | None, digits: int) -> str:
    return "" if value is None else f" ± {number(value, digits)}"


def sizes_table(sizes: Sequence[PooledSizes]) -> str:
    """A line for each dataset and algorithm, a column for each size."""
    known = distinct(size for pooled in sizes for size in pooled.sizes)
    columns = [f"{n} × {a}" for n, a in known]
    rows = [
        (
            escaped(pooled.label),
            escaped(pooled.algorithm),
            *(spread(pooled.sizes.get(size)) for size in known),
            spread(pooled.pooled),
            MISSING if pooled.paper is None else number(pooled.paper.mean, 3) + _plus_minus(pooled.paper.spread, 2),
        )
        for pooled in sizes
    ]
    return table(("dataset", "algorithm", *columns, "all sizes", "paper"), rows)


def datasets_table(found: Findings) -> str:
    """A line for each dataset: its reference rows, then the score of each algorithm."""
    algorithms = list(found.study.algorithms)
    known = {(row.dataset, row.algorithm): row for row in found.results}
    rows = []
    for row in found.datasets:
        results = [known.get((row.dataset, algorithm)) for algorithm in algorithms]
        rows.append(
            (
                escaped(row.dataset.label),
                str(row.seeds),
                number(row.behavior),
                number(row.imitation),
                number(row.headroom),
                *(spread(r.score if r is not None else None, row.seeds) for r in results),
            )
        )
    headers = ("dataset", "n", "behavior", "imitation", "headroom", *map(escaped, algorithms))
    return table(headers, rows, right=headers[1:])


def gains_table(found: Findings) -> str | None:
    """A line for each dataset with headroom: gain over imitation of each algorithm; None without any."""
    known = {(row.dataset, row.algorithm): row for row in found.results}
    algorithms = list(found.study.algorithms)
    shrinks = any(row.shrunk is not None for row in found.datasets)

    rows = []
    for row in found.datasets:
        results = [known.get((row.dataset, algorithm)) for algorithm in algorithms]
        gains = [result.rl_gain if result is not None else None for result in results]
        if any(gain is not None for gain in gains):
            shown = [interval(gain, sign=True, seeds=row.seeds) for gain in gains]
            shrinkage = number(None if row.shrunk is None else row.shrunk - row.imitation, 3, sign=True)
            head = (escaped(row.dataset.label), str(row.seeds), number(row.headroom, 3))
            rows.append((*head, *([shrinkage] if shrinks else []), *shown))
    headers = ("dataset", "n", "headroom", *(["shrinkage"] if shrinks else []), *map(escaped, algorithms))
    return table(headers, rows, right=headers[1:]) if rows else None


def ranking_table(ranking: Ranking) -> str:
    """A line for each algorithm, best first."""
    rows = [
        (escaped(algorithm), interval(value, sign=True), str(value.n)) for algorithm, value in ranking.panel.iqm.items()
    ]
    return table(("algorithm", "gap closed (IQM)", "runs"), rows, right=("gap closed (IQM)", "runs"))


def pairs_table(ranking: Ranking) -> str:
    """A line for each pair, the better ranked first."""
    order = ranking.panel.algorithms
    rows = [
        (escaped(one), escaped(other), interval(ranking.panel.wins[one, other], digits=2))
        for i, one in enumerate(order)
        for other in order[i + 1 :]
    ]
    return table(("better ranked", "worse ranked", "probability that it is better"), rows)


def folded(title: str, text: str) -> str:
    """Text that a reader opens."""
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>"
