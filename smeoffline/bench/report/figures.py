"""Which figures a report has, how they are laid out, and what they say to who cannot see them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.figure import Figure

from smeoffline.bench.drawing.key import Looks
from smeoffline.bench.drawing.panels import DotPanel, HeatPanel, LinePanel, RankingPanel
from smeoffline.bench.drawing.points import dot_figure, line_figure
from smeoffline.bench.drawing.style import WIDTH, looks, style, svg
from smeoffline.bench.drawing.tables import heat_figure, ranking_figure
from smeoffline.bench.report.findings import Findings
from smeoffline.bench.report.labels import spell
from smeoffline.bench.report.numbers import distinct
from smeoffline.bench.report.tables import number
from smeoffline.bench.report.views import exploration

ACROSS = 3  # panels side by side, at most, of points and lines
CURVES_A_FIGURE = 12
HEAT_CELL = 0.26  # inches: the narrowest column in which a value can be read
HEAT_ACROSS = 5
MOST_TITLES = 6
TITLE_CHARACTER, TICK_CHARACTER = 0.078, 0.07  # inches, on average


@dataclass(frozen=True)
class Drawing:
    """One figure.

    Attributes:
        name: Of its file, without the ending.
        alt: What it shows, in words, with its main numbers.
        svg: The file's text.
    """

    name: str
    alt: str
    svg: str


def drawings(found: Findings) -> dict[str, tuple[Drawing, ...]]:
    """The figures of each section that has any: improvement, gains, ranking, distances, curves."""
    known = looks([(label, variant.algo) for label, variant in found.study.algorithms.items()])
    made: dict[str, tuple[Drawing, ...]] = {}
    with style():
        if found.improvement:
            across = _improvement_columns(found)
            figure = dot_figure(found.improvement, known, across, "improvement over behavior")
            made["improvement"] = (_drawing("improvement", _improvement_alt(found.improvement), figure),)
        if found.gains:
            panels, across = _heat_layout(found.gains)
            made["gains"] = (_drawing("gain", _gain_alt(panels), heat_figure(panels, across)),)
        if found.ranking is not None:
            panel = found.ranking.panel
            made["ranking"] = (_drawing("ranking", _ranking_alt(panel), ranking_figure(panel, known)),)
        if found.distances:
            made["distances"] = (_distances(found.distances, known),)
        if found.curves:
            made["curves"] = _curves(found.curves, known)
    return made


def _drawing(name: str, alt: str, figure: Figure) -> Drawing:
    return Drawing(name, alt, svg(figure, alt))


def _improvement_columns(found: Findings) -> int:
    """One column for each task where there are two or three, so that explorations are below each other."""
    panels = found.improvement
    tasks = len({row.dataset.task_label for row in found.datasets if row.dataset.noise is not None})
    groups = max(len(panel.groups) * max(map(len, panel.groups)) for panel in panels)
    return _across(tasks if tasks in (2, 3) else len(panels), [panel.title for panel in panels], groups)


def _across(panels: int, titles: Sequence[str], ticks: int = 0) -> int:
    """Panels side by side: two or three, whichever fills the rows, but so few that their texts fit.

    Args:
        panels: How many should fill the rows.
        titles: Of the panels.
        ticks: Characters of a panel's tick labels.
    """
    wanted = 2 if panels in (2, 4) else ACROSS
    needed = max(TITLE_CHARACTER * max(map(len, titles)), TICK_CHARACTER * ticks)
    return max(1, min(wanted, int((WIDTH - 0.5) / (needed + 0.3))))


def _improvement_alt(panels: Sequence[DotPanel]) -> str:
    """The range of each algorithm."""
    found: dict[str, list[float]] = {}
    for panel in panels:
        for algorithm, points in panel.points.items():
            found.setdefault(algorithm, []).extend(point.value for point in points.values())
    ranges = spell(f"{algorithm} {_signed(min(v))} to {_signed(max(v))}" for algorithm, v in found.items())
    return f"Improvement over the behavior policy by base error, in panels for {_titles(panels)}: {ranges}."


def _gain_alt(panels: Sequence[HeatPanel]) -> str:
    """The best place of each panel's algorithm."""
    best = []
    for panel in panels:
        known = [(value, *place) for place, value in panel.values.items() if value is not None]
        if known:
            value, row, noise = max(known)
            best.append(f"{panel.title}: {_signed(value)} at {row}, {exploration(noise)}")
    return f"Gain over imitation by base error and exploration, the highest of each panel: {'; '.join(best)}."


def _ranking_alt(panel: RankingPanel) -> str:
    """The order, with means."""
    order = spell(f"{algorithm} {_signed(panel.iqm[algorithm].value)}" for algorithm in panel.algorithms)
    return f"Share of the gap between imitation and optimum closed, interquartile mean, best first: {order}."


def _distances(panels: Sequence[LinePanel], known: Looks) -> Drawing:
    """Score by distance."""
    across, xlabel = _across(len(panels), [panel.title for panel in panels]), "distance from the cube"
    figure = line_figure(panels, known, across, xlabel, shared=True, xlim=(-0.03, 1.0))
    return _drawing("distance", _distance_alt(panels), figure)


def _distance_alt(panels: Sequence[LinePanel]) -> str:
    """Where each line begins and ends."""
    told = [
        f"{panel.title}: " + spell(f"{s.label} from {s.y[0].value:.2f} to {s.y[-1].value:.2f}" for s in panel.series)
        for panel in panels
    ]
    return f"Score from inside the training distribution to a distance of 1 from it. {'; '.join(told)}."


def _curves(panels: Sequence[LinePanel], known: Looks) -> tuple[Drawing, ...]:
    """Learning curves, a dozen datasets a figure."""
    parts = [panels[i : i + CURVES_A_FIGURE] for i in range(0, len(panels), CURVES_A_FIGURE)]
    made = []
    for i, part in enumerate(parts, 1):
        across = _across(len(part), [panel.title for panel in panels])
        figure = line_figure(part, known, across, "training steps", shared=False)
        alt = f"Score by training step, in panels for {_titles(part)}; the table of all results has the last."
        made.append(_drawing("curves" if len(parts) == 1 else f"curves-{i}", alt, figure))
    return tuple(made)


def _heat_layout(panels: Sequence[HeatPanel]) -> tuple[Sequence[HeatPanel], int]:
    """The panels in order, and how many stand side by side, as far as their texts fit.

    A row is a task with every algorithm. Where that does not fit, an algorithm's tasks stay together in a row.
    """
    algorithms = distinct(panel.algorithm for panel in panels)
    cells = HEAT_CELL * max(len(panel.columns) for panel in panels)
    needed = max(cells, TITLE_CHARACTER * max(len(panel.title) for panel in panels))
    fit = max(1, min(HEAT_ACROSS, int((WIDTH - 0.8) / (needed + 0.16))))
    if len(algorithms) <= fit:
        return panels, len(algorithms)
    tasks = len({panel.task for panel in panels})
    together = sorted(panels, key=lambda panel: algorithms.index(panel.algorithm))
    return together, fit - fit % tasks if tasks <= fit else fit


def _titles(panels: Sequence[DotPanel] | Sequence[LinePanel]) -> str:
    """The panels' titles, or their number where there are too many to listen to."""
    titles = [panel.title for panel in panels]
    return "; ".join(titles) if len(titles) <= MOST_TITLES else f"{len(titles)} datasets or tasks"


def _signed(value: float) -> str:
    """`+0.05`, `−0.12`, `0.00`."""
    return number(value, 2, sign=True)
