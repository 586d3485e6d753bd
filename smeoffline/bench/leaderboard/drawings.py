"""The figures of the leaderboard's page, as SVG that stands inside it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from smeoffline.bench.drawing.key import Looks, draw_key, key_height, limits, marks
from smeoffline.bench.drawing.panels import RankingPanel
from smeoffline.bench.drawing.style import GRAY, PALE, WIDTH, looks, style, svg
from smeoffline.bench.drawing.tables import LOWEST_GAP, ranking_figure
from smeoffline.bench.leaderboard.flags import INFORMED
from smeoffline.bench.leaderboard.standings import DatasetScore, Row, Standing
from smeoffline.bench.report.labels import spell

MOST = 10  # entries in a figure, best first
LONGEST, LONGEST_DATASET = 18, 48  # characters of a name in a figure
TICK = 0.068  # inches of a character of a dataset's label
ROW = 0.3  # inches


@dataclass(frozen=True)
class Drawing:
    """One figure.

    Attributes:
        title: What stands above it.
        alt: What it shows, in words, with its main numbers.
        svg: An element that can stand in a page beside others.
    """

    title: str
    alt: str
    svg: str


def drawings(standing: Standing) -> tuple[Drawing, ...]:
    """The figures of a tier; none where there is nothing to compare."""
    entries = [row for row in standing.rows if row.rank is not None][:MOST]
    if standing.panel is None or len(entries) < 2:
        return ()
    names = short_names([row.name for row in entries])
    known = looks([(names[row.name], row.line.submission.algorithm) for row in entries if row.line is not None])
    panel = _renamed(standing.panel, names)
    order = spell(f"{name} {panel.iqm[name].value:+.2f}".replace("-", "−") for name in panel.algorithms)
    first = f"Share of the gap between imitation and optimum closed, interquartile mean, best first: {order}."
    second = (
        f"Share of the gap closed on each of {len(standing.datasets)} datasets that are ranked by, and on those with a "
        f"gap that are not, by {spell(names.values())}."
    )
    tier = standing.tier
    with style():
        return (
            _drawing("Ranking, and who beats whom", first, ranking_figure(panel, known), f"{tier}-ranking"),
            _drawing("Dataset by dataset", second, _datasets(entries, names, known), f"{tier}-datasets"),
        )


def short_names(names: Sequence[str]) -> dict[str, str]:
    """Names that fit into a figure, no two the same."""
    found: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        numbered = (f"{name[: LONGEST - 4]}… {n}" for n in itertools.count(number))
        tries = itertools.chain([_cut(name, LONGEST)], numbered)
        found[name] = next(short for short in tries if short not in found.values())
    return found


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _renamed(panel: RankingPanel, names: Mapping[str, str]) -> RankingPanel:
    """The panel of these entries alone, under these names."""
    kept = [name for name in panel.algorithms if name in names]
    wins = {(names[a], names[b]): panel.wins[a, b] for a in kept for b in kept if a != b}
    iqm = {names[name]: panel.iqm[name] for name in kept}
    return replace(panel, algorithms=tuple(iqm), iqm=iqm, wins=wins)


def _datasets(entries: Sequence[Row], names: Mapping[str, str], known: Looks) -> Figure:
    """A line for each dataset, a mark for each entry: mean over seeds, with the standard deviation."""
    shown = [score for score in entries[0].datasets if score.gap_closed is not None]
    shown.sort(key=lambda score: not score.ranked)
    labels = [_cut(f"{_use(score)}{score.label}", LONGEST_DATASET) for score in shown]
    left = 0.2 + TICK * max(map(len, labels))
    top, height = key_height(list(known)), ROW * len(shown)
    total = top + height + 0.55
    figure = Figure(figsize=(WIDTH, total))
    ax = figure.add_axes((left / WIDTH, 0.5 / total, (WIDTH - left - 0.15) / WIDTH, height / total))
    draw_key(figure, known)
    ends = [0.0, 1.0]
    for row in entries:
        ends += _marks(ax, row, [score.dataset for score in shown], known[names[row.name]])
    for x in (0, 1):
        ax.axvline(x, color=GRAY, linewidth=1.2, linestyle=(0, (3, 1.5)))
    ax.set_xlim(*limits(ends, LOWEST_GAP))
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_yticks(range(len(shown)), labels)
    ax.grid(axis="x", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    ax.set_xlabel("gap closed: 0 = imitation, 1 = optimal; what is below −1 stands at the edge")
    return figure


def _use(score: DatasetScore) -> str:
    """What stands before the name of a dataset that is not ranked by."""
    if score.ranked:
        return ""
    return "not ranked: " if score.kind == INFORMED else "control: "


def _marks(ax: Axes, row: Row, datasets: Sequence[str], look: tuple[str, str]) -> list[float]:
    """One entry's marks; returns where they are."""
    color, marker = look
    places = []
    for score in row.datasets:
        if score.dataset not in datasets or score.gap_closed is None:
            continue
        y, x = datasets.index(score.dataset), max(LOWEST_GAP, score.gap_closed.mean)
        spread = score.gap_closed.spread
        if spread is not None and score.gap_closed.mean > LOWEST_GAP:
            low = max(LOWEST_GAP, x - spread)
            ax.add_line(Line2D([low, x + spread], [y, y], color=color, linewidth=1.4, alpha=0.6))
            places += [low, x + spread]
        ax.add_line(marks([x], [y], color, marker))
        places.append(x)
    return places


def _drawing(title: str, alt: str, figure: Figure, prefix: str) -> Drawing:
    return Drawing(title, alt, inline(svg(figure, alt), alt, prefix))


def inline(text: str, alt: str, prefix: str) -> str:
    """A figure's SVG file as an element of a page: named for screen readers, its ids its own."""
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)  # words for other programs
    text = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', text)
    text = re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}-", text)
    # a rule for every element would reach beyond the figure
    text = re.sub(r"<style[^>]*>\*\{([^}]*)\}</style>", "", text)
    return text.replace("<svg ", f'<svg role="img" aria-label="{escape(alt)}" ', 1)
