"""A picture of what complexity does: how layers fold the optimal policy, and how far its actions spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smeoffline.bench.drawing.style import DASHED, GRAY, INK, PALE, WIDTH, at_inches, style
from smeoffline.bench.pictures.canvas import (
    Picture,
    action_map,
    draw_entries,
    draw_scale,
    optimal_square,
    panel,
    rule,
    square,
)
from smeoffline.errors import SpecError
from smeoffline.sme import probes
from smeoffline.sme.arrays import Doubles, Floats
from smeoffline.sme.task import Task

COMPLEXITIES = (1, 2, 5, 10, 50)
STATE_DIMS = (2, 8, 32)
MOST = 6  # columns and rows that can still be read
BINS = 25
LEAST = 4.0  # density that the axis reaches: what is uniform lies below its middle
TICKS = (0, 1, 4, 9, 16, 25)  # densities, of which BINS is the highest there can be
# Inches: margins, the widest square, the height of a distribution, the room between columns and between rows.
LEFT, RIGHT, TOP = 0.72, 0.1, 0.72
WIDEST, HEIGHT, GAP, ROW_GAP = 2.4, 0.95, 0.16, 0.26


@dataclass(frozen=True, eq=False)
class Spread:
    """How the optimal action is distributed over uniform states.

    Attributes:
        densities: (N_a, BINS) of each channel.
        distance: Kolmogorov-Smirnov distance of all channels together from uniform, in [0, 1].
    """

    densities: Doubles
    distance: float


def spread(actions: Floats) -> Spread:
    """The distribution of actions (B, N_a) in [0, 1]."""
    counts = [np.histogram(channel, bins=BINS, range=(0, 1), density=True)[0] for channel in actions.T]
    together = np.sort(actions, axis=None).astype(np.float64)
    steps = np.arange(len(together) + 1) / len(together)
    distance = max(float((steps[1:] - together).max()), float((together - steps[:-1]).max()))
    return Spread(np.asarray(counts), distance)


def task_picture(
    complexities: Sequence[int] = COMPLEXITIES,
    state_dims: Sequence[int] = STATE_DIMS,
    *,
    action_dim: int = 4,
    seed: int = 1,
) -> Picture:
    """Optimal actions over a two-dimensional square, and their distribution over uniform states.

    Args:
        complexities: A column for each.
        state_dims: N_s, a row of distributions for each.
        action_dim: N_a of all these tasks.
        seed: Of all these tasks, in [0, 2^32).

    Raises:
        SpecError: A value that no task has, or more of them than a page holds.
    """
    columns, rows = tuple(dict.fromkeys(complexities)), tuple(dict.fromkeys(state_dims))
    for name, values in (("complexity", columns), ("state_dim", rows)):
        if len(values) > MOST:
            raise SpecError(f"task: {name} can be compared at {MOST} values at most, got {len(values)}")
    tasks = {
        (n, c): Task(state_dim=n, action_dim=action_dim, complexity=c, seed=seed)
        for n in dict.fromkeys((2, *rows))
        for c in columns
    }
    maps = [optimal_square(tasks[2, c].build()) for c in columns]
    spreads = {(n, c): spread(tasks[n, c].build().optimal_action(probes.within(n))) for n in rows for c in columns}
    with style():
        return _draw(columns, rows, maps, spreads, f"N_a = {action_dim}, task seed {seed}")


def _draw(
    columns: tuple[int, ...],
    rows: tuple[int, ...],
    maps: list[Floats],
    spreads: dict[tuple[int, int], Spread],
    which: str,
) -> Picture:
    """A row of squares above rows of distributions."""
    side = min(WIDEST, (WIDTH - LEFT - RIGHT) / len(columns) - GAP)
    lefts = [LEFT + i * (side + GAP) for i in range(len(columns))]
    key = TOP + side + 0.68
    tops = [key + 0.32 + j * (HEIGHT + ROW_GAP) for j in range(len(rows))]
    figure = Figure(figsize=(WIDTH, tops[-1] + HEIGHT + 0.45))
    whose = "of N_s = 2" if 2 in rows else "of N_s = 2 (whatever is compared below)"
    draw_scale(figure, f"optimal action, first channel {whose}", left=LEFT, top=0.12)
    figure.text(*at_inches(figure, WIDTH - RIGHT, 0.18), which, fontsize=8, ha="right", va="center", color=GRAY)
    for i, (c, actions) in enumerate(zip(columns, maps, strict=True)):
        ax = panel(figure, lefts[i], TOP, side, side)
        action_map(ax, actions)
        square(ax, "state channel 1", "state channel 2" if i == 0 else None)
        ax.set_title(f"C = {c}", fontweight="bold")
    top = 1.05 * max(LEAST, *(float(found.densities.max()) for found in spreads.values()))
    for j, n in enumerate(rows):
        for i, c in enumerate(columns):
            ax = panel(figure, lefts[i], tops[j], side, HEIGHT)
            ylabel = f"N_s = {n}\ndensity" if i == 0 else None
            _distribution(ax, spreads[n, c], top, "optimal action" if j == len(rows) - 1 else None, ylabel)
    entries = [("each action channel", rule(GRAY, width=0.8)), ("all channels together", rule(width=1.8))]
    entries.append(("uniform", rule(GRAY, dashed=True)))
    draw_entries(figure, entries, left=LEFT, top=key)
    note = "KS: distance from uniform"
    figure.text(*at_inches(figure, WIDTH - RIGHT, key), note, fontsize=8, ha="right", va="center", color=GRAY)
    return Picture("task", _alt(columns, rows, spreads), figure)


def _distribution(ax: Axes, found: Spread, top: float, xlabel: str | None, ylabel: str | None) -> None:
    """Densities as steps: a thin line for each channel, a thick one for all; none is cut off.

    With few state channels single actions are dense: on a square root's axis others remain to be seen beside them.
    """
    edges = np.linspace(0, 1, BINS + 1)
    ax.axhline(1, color=GRAY, linewidth=1.2, linestyle=DASHED)
    for density in found.densities:
        ax.stairs(density, edges, color=GRAY, linewidth=0.6, baseline=None)
    ax.stairs(found.densities.mean(axis=0), edges, color=INK, linewidth=1.6, baseline=None)
    square(ax, xlabel, ylabel)
    ax.set_yscale("function", functions=(np.sqrt, np.square))
    ax.set_ylim(0, top)
    marks = [mark for mark in TICKS if mark <= top]
    ax.set_yticks(marks, [str(mark) for mark in marks] if ylabel is not None else [""] * len(marks))
    ax.grid(axis="y", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.text(0, 1.03, f"KS {found.distance:.2f}", transform=ax.transAxes, fontsize=7.5, va="bottom", color=GRAY)


def _alt(columns: tuple[int, ...], rows: tuple[int, ...], spreads: dict[tuple[int, int], Spread]) -> str:
    """What is seen, in words."""
    told = "; ".join(f"N_s {n}: " + ", ".join(f"{spreads[n, c].distance:.2f} at C {c}" for c in columns) for n in rows)
    return (
        f"The optimal action over a two-dimensional square for C {', '.join(map(str, columns))}, and how far it is "
        f"from uniform over uniform states (Kolmogorov-Smirnov distance of all channels together): {told}."
    )
