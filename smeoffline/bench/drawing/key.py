"""What the panels of a figure share: the key above them, reference lines, limits, ticks, titles and grid lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from smeoffline.bench.drawing.style import DASHED, GRAY, INK, PALE, WIDTH, at_inches

Looks = Mapping[str, tuple[str, str]]  # algorithm -> color, marker

# Name -> color and dashes of a reference line.
LINES: Mapping[str, tuple[str, Any]] = {
    "optimal": (INK, "solid"),
    "imitation": (GRAY, DASHED),
    "behavior": (GRAY, (0, (1, 1.5))),
}
LEFT = 0.68  # of the first panel and of the key, inches
SAMPLE = 0.3  # inches of the line or marker in front of a name in the key
CHARACTER = 0.088  # inches of a character in 9 point text, rather too wide than too narrow
KEY_ROW = 0.21  # inches
PAD = 0.06  # of the range of values, above and below
LEAST_RANGE = 0.03  # of scores on an axis
TICK_STEPS = (1, 2, 2.5, 5, 10)


def key_places(labels: Sequence[str]) -> list[tuple[float, int]]:
    """Where each entry of a key begins: inches from the left, and its row."""
    places, x, row = [], LEFT, 0
    for label in labels:
        width = SAMPLE + CHARACTER * len(label) + 0.12
        if x + width > WIDTH and x > LEFT:
            x, row = LEFT, row + 1
        places.append((x, row))
        x += width
    return places


def key_height(labels: Sequence[str]) -> float:
    """Inches that a key takes above the panels' titles."""
    return 0.42 + KEY_ROW * (1 + max((row for _, row in key_places(labels)), default=-1))


def draw_key(figure: Figure, looks: Looks, references: Sequence[str] = ()) -> None:
    """Name every algorithm in its color, and every reference line."""
    labels = [*looks, *references]
    for label, (x, row) in zip(labels, key_places(labels), strict=True):
        y = 0.16 + KEY_ROW * row
        ends = [at_inches(figure, x + dx, y) for dx in (0.0, SAMPLE - 0.1)]
        xs, ys = [end[0] for end in ends], [end[1] for end in ends]
        if label in looks:
            color, marker = looks[label]
            figure.add_artist(Line2D(xs, ys, color=color, linewidth=1.6))
            figure.add_artist(marks([sum(xs) / 2], ys[:1], color, marker))
        else:
            color, dashes = LINES[label]
            figure.add_artist(Line2D(xs, ys, color=color, linewidth=1.4, linestyle=dashes))
        place = at_inches(figure, x + SAMPLE - 0.04, y + 0.01)
        weight = "bold" if label in looks else "normal"
        figure.text(*place, label, color=color, fontweight=weight, va="center_baseline")


def marks(xs: Sequence[float], ys: Sequence[float], color: str, marker: str) -> Line2D:
    """Markers with a white rim, so that they stay apart where they overlap."""
    return Line2D(
        xs,
        ys,
        linestyle="none",
        marker=marker,
        markersize=6.2,
        markerfacecolor=color,
        markeredgecolor="white",
        markeredgewidth=0.8,
        zorder=3,  # above all lines
    )


def limits(values: Iterable[float], floor: float | None = None) -> tuple[float, float]:
    """A range that holds all values with a little room, not so narrow that noise looks like an effect.

    Args:
        values: At least one.
        floor: The range begins no lower, so that one that fails altogether does not flatten all others.
    """
    listed = list(values)
    high = max(listed)
    low = min(listed) if floor is None else min(high, max(floor, min(listed)))
    room = max(PAD * (high - low), (LEAST_RANGE - (high - low)) / 2)
    return low - room, high + room


def tick_text(value: float, _: object) -> str:
    """`0.5`, `20k`: short enough for four ticks in a small panel; for a `FuncFormatter`."""
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def dress(ax: Axes, title: str, *, ylabel: str | None) -> None:
    """Title, faint horizontal grid lines, and a y label where there is one."""
    ax.set_title(title, fontweight="bold", color=INK)
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    if ylabel is None:
        ax.tick_params(labelleft=False)
    else:
        ax.set_ylabel(ylabel)
