"""Style of the figures, and SVG files whose bytes depend on what is drawn and on nothing else.

Text stays text, so that a figure can be searched, and a changed number is one changed line in a diff. Nothing
is laid out by the width of a text: a machine's fonts do not matter.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe & Ito 2008: told apart with the common kinds of color blindness too. Their yellow is too pale.
BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
INK, GRAY, PALE = "#222222", "#767676", "#DDDDDD"
DASHED = (0, (3, 1.5))  # a reference line
# The same color and marker in every figure of every report.
KNOWN = {
    "bc": (BLUE, "o"),
    "iql": (VERMILION, "s"),
    "td3plusbc": (GREEN, "^"),
    "plas": (PURPLE, "D"),
    "crr": (ORANGE, "v"),
}
# For further algorithms and variants, in order; then again, with other markers.
SPARE_COLORS = (SKY, INK, BLUE, VERMILION, GREEN, PURPLE, ORANGE)
SPARE_MARKERS = ("P", "X", "<", ">", "p", "h", "*")

WIDEST_PANEL = 5.0  # inches
WIDTH = 8.4  # inches: 605 points, about the width of a README
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": GRAY,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.titlepad": 5.0,
    "axes.unicode_minus": True,
    "xtick.color": GRAY,
    "ytick.color": GRAY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 8.0,
    "ytick.labelsize": 8.0,
    "figure.facecolor": "white",  # also on a dark page
    "text.parse_math": False,  # a dollar sign in a label is one
    "svg.fonttype": "none",
    "svg.hashsalt": "smeoffline",
    "path.simplify": False,
}
NO_METADATA = {"Creator": None, "Date": None, "Format": None, "Type": None}
# A viewer without DejaVu Sans takes Verdana, whose widths are the same.
FONTS = "'DejaVu Sans', Verdana, sans-serif"


@contextmanager
def style() -> Iterator[None]:
    """Our style over matplotlib's defaults: a matplotlibrc of the user's changes nothing."""
    with mpl.rc_context():
        mpl.rcdefaults()
        with mpl.rc_context(STYLE):
            yield


def looks(algorithms: Sequence[tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """A color and a marker for each algorithm.

    Args:
        algorithms: (label, name on the command line) in the report's order.

    Returns:
        Label -> (color, marker), no pair twice among the first dozens.
    """
    found: dict[str, tuple[str, str]] = {}
    for label, algo in algorithms:
        if algo in KNOWN and KNOWN[algo] not in found.values():
            found[label] = KNOWN[algo]
    spare = (
        (color, SPARE_MARKERS[(i + round_) % len(SPARE_MARKERS)])
        for round_ in range(len(algorithms))
        for i, color in enumerate(SPARE_COLORS)
    )
    for label, _ in algorithms:
        if label not in found:
            found[label] = next(spare)
    return {label: found[label] for label, _ in algorithms}


def grid(
    n: int,
    columns: int,
    height: float,
    *,
    left: float = 0.62,
    right: float = 0.15,
    top: float = 0.62,
    bottom: float = 0.5,
    gap: tuple[float, float] = (0.3, 0.62),
) -> tuple[Figure, list[Axes]]:
    """A figure of n panels, row by row.

    Args:
        n: Panels.
        columns: At most so many side by side.
        height: Of a panel, in inches; so are all lengths.
        left: Margin, as are the next three.
        right: See `left`.
        top: See `left`.
        bottom: See `left`.
        gap: Between columns and between rows.
    """
    columns = min(n, columns)
    rows = -(-n // columns)
    total = top + rows * height + (rows - 1) * gap[1] + bottom
    width = min(WIDEST_PANEL, (WIDTH - left - right - (columns - 1) * gap[0]) / columns)
    figure = Figure(figsize=(WIDTH, total))
    axes = []
    for i in range(n):
        x = left + (i % columns) * (width + gap[0])
        y = total - top - height - (i // columns) * (height + gap[1])
        axes.append(figure.add_axes((x / WIDTH, y / total, width / WIDTH, height / total)))
    return figure, axes


def at_inches(figure: Figure, x: float, from_top: float) -> tuple[float, float]:
    """Figure coordinates of a place given in inches from the left and from the top."""
    width, height = figure.get_size_inches()
    return x / float(width), 1 - from_top / float(height)


def svg(figure: Figure, title: str) -> str:
    """The figure as SVG text.

    Args:
        figure: Made and drawn within `style()`.
        title: What a screen reader says.
    """
    page = io.StringIO()
    figure.savefig(page, format="svg", metadata={**NO_METADATA, "Title": title})
    return _canonical(page.getvalue())


def _canonical(text: str) -> str:
    """The same picture with coordinates of two decimals and ids counted in order of appearance.

    Processors differ in the last bits of a coordinate, and matplotlib's ids are hashes of coordinates.
    """
    text = re.sub(r"<[^>]+>", lambda tag: re.sub(r"-?\d+\.\d{3,}", _two_decimals, tag[0]), text)
    text = text.replace("'DejaVu Sans', sans-serif", FONTS)
    names: dict[str, str] = {}
    hashed = re.compile(r'(?<=id=")[a-z][0-9a-f]{10}(?=")|(?<=#)[a-z][0-9a-f]{10}\b')
    text = hashed.sub(lambda found: names.setdefault(found[0], f"i{len(names)}"), text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def _two_decimals(number: re.Match[str]) -> str:
    short = f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
