"""Figures of points and lines over seeds, drawn from plain data; nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smeoffline.bench.drawing.key import (
    LEFT,
    LINES,
    TICK_STEPS,
    Looks,
    draw_key,
    dress,
    key_height,
    limits,
    marks,
    tick_text,
)
from smeoffline.bench.drawing.panels import DotPanel, LinePanel
from smeoffline.bench.drawing.style import GRAY, grid
from smeoffline.score.statistics import Estimate

GROUP = 0.72  # of the room of a group that its points take
BAND = 0.16  # opacity
LOWEST = -0.25  # improvement that is drawn; what is lower is an arrow with a number
DEPTH = 0.3  # below the best, how far learning curves are drawn
WIDEST, NARROWEST = 2.8, 1.3  # lines, in points


def dot_figure(panels: Sequence[DotPanel], looks: Looks, columns: int, ylabel: str) -> Figure:
    """Algorithms side by side in groups, with their intervals, and reference lines across each group."""
    shown = {a: look for a, look in looks.items() if any(a in panel.points for panel in panels)}
    references = [name for name in LINES if any(name in panel.references for panel in panels)]
    figure, axes = grid(len(panels), columns, 1.75, left=LEFT, top=key_height([*shown, *references]))
    draw_key(figure, shown, references)
    low, high = limits([0.0, *(value for panel in panels for value in _dot_values(panel))], LOWEST)
    for i, (panel, ax) in enumerate(zip(panels, axes, strict=True)):
        _dots(ax, panel, shown)
        ax.set_ylim(low, high)
        ax.yaxis.set_major_locator(MaxNLocator(5, steps=TICK_STEPS))
        dress(ax, panel.title, ylabel=ylabel if i % columns == 0 else None)
    return figure


def _dot_values(panel: DotPanel) -> Iterator[float]:
    """Everything that must fit into the panel."""
    for points in panel.points.values():
        for point in points.values():
            yield from _ends(point)
    for line in panel.references.values():
        yield from line.values()


def _ends(point: Estimate) -> list[float]:
    """The estimate and its interval."""
    return [value for value in (point.value, point.low, point.high) if value is not None]


def _dots(ax: Axes, panel: DotPanel, shown: Looks) -> None:
    """One panel."""
    ax.axhline(0, color=GRAY, linewidth=0.8)
    for name, heights in panel.references.items():
        color, dashes = LINES[name]
        for i, group in enumerate(panel.groups):
            y = heights[group]
            ax.plot([i - 0.44, i + 0.44], [y, y], color=color, linewidth=1.4, linestyle=dashes)
    step = GROUP / len(shown)
    for k, (algorithm, (color, marker)) in enumerate(shown.items()):
        shift = (k - (len(shown) - 1) / 2) * step
        for group, point in panel.points.get(algorithm, {}).items():
            x = panel.groups.index(group) + shift
            if point.value < LOWEST:
                _below(ax, x, point.value, color)
                continue
            if point.low is not None and point.high is not None:
                ax.plot([x, x], [point.low, point.high], color=color, linewidth=1.6)
            ax.add_line(marks([x], [point.value], color, marker))
    ax.set_xticks(range(len(panel.groups)), panel.groups)
    ax.set_xlim(-0.5, len(panel.groups) - 0.5)


def _below(ax: Axes, x: float, value: float, color: str) -> None:
    """An arrow and the value of a point that lies below the axis."""
    ax.annotate("", (x, LOWEST - 0.01), (x, LOWEST + 0.025), arrowprops={"arrowstyle": "->", "color": color})
    text = f"{value:.2f}".replace("-", "−")
    ax.text(x, LOWEST + 0.03, text, color=color, fontsize=7.5, rotation=90, ha="center", va="bottom")


def line_figure(
    panels: Sequence[LinePanel],
    looks: Looks,
    columns: int,
    xlabel: str,
    *,
    shared: bool,
    xlim: tuple[float, float] | None = None,
) -> Figure:
    """Scores as lines with bands over seeds, and horizontal reference lines.

    Args:
        panels: At least one.
        looks: Of all algorithms.
        columns: At most so many panels side by side.
        xlabel: Below the last panel of each column.
        shared: Whether all panels have one y axis.
        xlim: Range of x; None for that of the points.
    """
    shown = {a: k for a, k in looks.items() if any(a == line.label for p in panels for line in p.series)}
    references = [name for name in LINES if any(name in panel.references for panel in panels)]
    gap = (0.3 if shared else 0.55, 0.62)
    figure, axes = grid(len(panels), columns, 1.6, left=LEFT, top=key_height([*shown, *references]), gap=gap)
    draw_key(figure, shown, references)
    common = limits([value for panel in panels for value in _line_values(panel)])
    for i, (panel, ax) in enumerate(zip(panels, axes, strict=True)):
        _lines(ax, panel, shown)
        ax.set_ylim(*(common if shared else limits(_line_values(panel), max(_line_values(panel)) - DEPTH)))
        first = i % columns == 0
        dress(ax, panel.title, ylabel="score" if first else (None if shared else ""))
        ax.xaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
        ax.yaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
        ax.xaxis.set_major_formatter(FuncFormatter(tick_text))
        if xlim is not None:
            ax.set_xlim(*xlim)
        if i + columns >= len(panels):
            ax.set_xlabel(xlabel)
    return figure


def _line_values(panel: LinePanel) -> list[float]:
    """Everything that must fit into the panel."""
    found = [value for line in panel.series for point in line.y for value in _ends(point)]
    return [*found, *panel.references.values()]


def _lines(ax: Axes, panel: LinePanel, shown: Looks) -> None:
    """One panel."""
    for name, height in panel.references.items():
        color, dashes = LINES[name]
        ax.axhline(height, color=color, linewidth=1.2, linestyle=dashes)
    for k, line in enumerate(panel.series):
        color, marker = shown[line.label]
        bounded = [(x, p.low, p.high) for x, p in zip(line.x, line.y, strict=True) if p.low is not None]
        if len(bounded) == len(line.x):
            xs, low, high = zip(*bounded, strict=True)
            ax.fill_between(xs, low, high, color=color, alpha=BAND, linewidth=0)
        values = [point.value for point in line.y]
        # Where lines coincide, the wider ones below still show, and no marker hides another.
        thin = k / (len(panel.series) - 1) if len(panel.series) > 1 else 0.5
        ax.plot(line.x, values, color=color, linewidth=WIDEST - thin * (WIDEST - NARROWEST))
        at = len(line.x) - 1 - k % len(line.x)
        ax.add_line(marks(line.x[at : at + 1], values[at : at + 1], color, marker))
