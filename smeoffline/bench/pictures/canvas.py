"""Pictures of a task, behaviors, a dataset or a run: what they share, and their files."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import PathPatch
from matplotlib.path import Path as MplPath

from smeoffline.bench.drawing.style import DASHED, GRAY, INK, at_inches, style, svg
from smeoffline.errors import SpecError
from smeoffline.sme.arrays import Floats
from smeoffline.sme.model import Sme
from smeoffline.train.files import write_atomically

ENDINGS = (".svg", ".png")
DOTS_AN_INCH = 200  # of a PNG
# From blue to yellow, rising in lightness: the same to readers with and without color blindness.
ACTIONS = "cividis"
PIXELS = 160  # of a side of the unit square
GAP = 0.14  # inches between the entries of a key
DASH = 0.002  # of the axis: so short that it looks like a point, too long to be dropped by a renderer
SAMPLE = 0.25  # inches of the mark in front of a name in a key


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure.

    Attributes:
        name: Of its file, where none is given.
        alt: What it shows, in words, with its main numbers.
        figure: Drawn within `style()`.
    """

    name: str
    alt: str
    figure: Figure

    def save(self, target: Path | None = None) -> Path:
        """Write it as SVG or PNG, by the file's ending; the same picture gives the same bytes.

        Args:
            target: The file; None for `NAME.svg` in the current folder.

        Returns:
            The file.

        Raises:
            SpecError: Another ending, or a folder that is not there.
        """
        path = target if target is not None else Path(f"{self.name}.svg")
        _check_target(path)
        with style():
            data = svg(self.figure, self.alt).encode() if path.suffix == ".svg" else self._png()
        write_atomically(path, data)
        return path

    def _png(self) -> bytes:
        page = io.BytesIO()
        self.figure.savefig(page, format="png", dpi=DOTS_AN_INCH, metadata={"Software": None, "Title": self.alt})
        return page.getvalue()


def _check_target(path: Path) -> None:
    """Refuse a file that could not be written.

    Raises:
        SpecError: Another ending, or a folder that is not there.
    """
    if path.suffix not in ENDINGS:
        raise SpecError(f"picture {str(path)!r}: expected a name that ends in {' or '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise SpecError(f"picture {str(path)!r}: there is no folder {str(path.parent)!r}; make it first")


def panel(figure: Figure, left: float, top: float, width: float, height: float) -> Axes:
    """Axes whose upper left corner and size are given in inches."""
    x, y = at_inches(figure, left, top + height)
    total_width, total_height = (float(size) for size in figure.get_size_inches())
    return figure.add_axes((x, y, width / total_width, height / total_height))


def square(ax: Axes, xlabel: str | None, ylabel: str | None) -> None:
    """Both axes from 0 to 1, with ticks at the ends and in the middle; labels where there is one."""
    for axis, label in ((ax.xaxis, xlabel), (ax.yaxis, ylabel)):
        axis.set_ticks([0, 0.5, 1], ["0", "0.5", "1"] if label is not None else ["", "", ""])
        if label is not None:
            axis.set_label_text(label, fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_ylim(0, 1)
    ax.tick_params(length=0)


def draw_entries(figure: Figure, entries: Sequence[tuple[str, Line2D]], *, left: float, top: float) -> None:
    """A key in one row: each mark with its name behind it.

    Args:
        figure: Where.
        entries: Name and how it is drawn (its color, marker and line; the place is set here).
        left: Inches from the left.
        top: Inches from the top.
    """
    x = left
    for name, mark in entries:
        lines = mark.get_linestyle() != "None"
        ends = (x, x + SAMPLE - 0.07) if lines else (x + 0.09,)
        places = [at_inches(figure, end, top) for end in ends]
        mark.set_data([place[0] for place in places], [place[1] for place in places])
        figure.add_artist(mark)
        figure.text(*at_inches(figure, x + SAMPLE, top + 0.01), name, fontsize=8, va="center_baseline")
        x += SAMPLE + 0.066 * len(name) + GAP


def draw_scale(figure: Figure, text: str, *, left: float, top: float) -> None:
    """The color scale of actions: a bar from 0 to 1, and what it stands for."""
    width, height = 1.2, 0.12
    ax = panel(figure, left, top, width, height)
    ax.imshow(np.linspace(0, 1, 64)[np.newaxis], aspect="auto", cmap=ACTIONS, vmin=0, vmax=1, extent=(0, 1, 0, 1))
    ax.set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=7)
    ax.set_yticks([])
    ax.tick_params(length=0, pad=1)
    for spine in ax.spines.values():
        spine.set_visible(False)
    figure.text(*at_inches(figure, left + width + 0.15, top + height / 2), text, fontsize=8, va="center")


def action_map(ax: Axes, actions: Floats) -> None:
    """Actions (n, n) over the unit square, the second axis being the first state channel."""
    ax.imshow(actions, origin="lower", extent=(0, 1, 0, 1), cmap=ACTIONS, vmin=0, vmax=1, aspect="auto")


def optimal_square(sme: Sme) -> Floats:
    """The first channel of the optimal action over the unit square, (PIXELS, PIXELS), of a task with N_s = 2."""
    return sme.optimal_action(square_states(PIXELS))[:, 0].reshape(PIXELS, PIXELS)


def square_states(n: int) -> Floats:
    """(n * n, 2) float32 states: the middles of n x n cells of the unit square, row by row."""
    middles = (np.arange(n, dtype=np.float32) + np.float32(0.5)) / np.float32(n)
    first, second = np.meshgrid(middles, middles)
    return np.stack([first.ravel(), second.ravel()], axis=1)


def cloud(ax: Axes, x: Floats, y: Floats, color: str, *, size: float = 2.2, alpha: float = 0.55) -> None:
    """Points (n,) and (n,) as one path of short round-capped dashes: a fraction of an SVG with a marker for each."""
    begins = np.stack([x, y], axis=1).astype(np.float64)
    vertices = np.stack([begins, begins + np.array([DASH, 0.0])], axis=1).reshape(-1, 2)
    codes = np.tile(np.array([MplPath.MOVETO, MplPath.LINETO], dtype=np.uint8), len(begins))
    look = {"color": color, "linewidth": size, "capstyle": "round", "alpha": alpha}
    ax.add_patch(PathPatch(MplPath(vertices, codes), fill=False, snap=False, **look))


def dot(color: str) -> Line2D:
    """How a key shows a cloud of points."""
    return Line2D([], [], linestyle="None", marker="o", markersize=4, color=color, markeredgewidth=0)


def rule(color: str = INK, *, dashed: bool = False, width: float = 1.2) -> Line2D:
    """How a reference line is drawn."""
    return Line2D([], [], color=color, linewidth=width, linestyle=DASHED if dashed else "solid")


def caption(figure: Figure, text: str, *, left: float) -> None:
    """A line in gray at the bottom."""
    height = float(figure.get_size_inches()[1])
    figure.text(*at_inches(figure, left, height - 0.13), text, fontsize=8, color=GRAY, va="center")


def corner(ax: Axes, text: str) -> None:
    """A few words in a panel's upper left corner, on white so that it can be read over points."""
    box = {"boxstyle": "square,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.85}
    ax.text(0.03, 0.97, text, transform=ax.transAxes, fontsize=7.5, va="top", color=GRAY, bbox=box)
