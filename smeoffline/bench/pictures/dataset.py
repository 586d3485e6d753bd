"""A picture of a dataset: the states it visits, its actions beside the optimal ones, and their scores."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from smeoffline.bench.drawing.key import TICK_STEPS
from smeoffline.bench.drawing.style import BLUE, DASHED, GRAY, INK, PALE, VERMILION, WIDTH, at_inches, style
from smeoffline.bench.pictures.behaviors import CHANNELS
from smeoffline.bench.pictures.canvas import (
    ACTIONS,
    Picture,
    action_map,
    caption,
    cloud,
    corner,
    dot,
    draw_entries,
    draw_scale,
    optimal_square,
    panel,
    rule,
    square,
)
from smeoffline.data.recipe import Recipe
from smeoffline.data.reference import references
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.errors import DatasetError, PolicyError
from smeoffline.score.runs import recipe_of
from smeoffline.sme.arrays import Floats
from smeoffline.sme.model import Sme, score

SAMPLE = 20_000  # steps that are looked at, evenly over the dataset
SHOWN = 600  # of them that are drawn as points
PATH = 8  # steps of the first episode that are drawn as arrows
CELLS = 20  # of a histogram of states
BINS = 40
WIDEST, LONGEST = 100, 200  # characters of the id that fit above the panels, and into a file's name
LEFT, TOP, SIDE, GAP, BOTTOM = 0.6, 0.85, 2.15, 0.6, 0.62  # inches


@dataclass(frozen=True, eq=False)
class Steps:
    """Steps of a dataset, and the optimum at their states.

    Attributes:
        states: (n, N_s).
        actions: (n, N_a).
        optimal: (n, N_a).
        path: (<= PATH + 1, N_s), the first states of the first episode.
    """

    states: Floats
    actions: Floats
    optimal: Floats
    path: Floats


def dataset_picture(dataset: str | Path) -> Picture:
    """Visited states, actions against optimal actions, and the distribution of scores.

    Args:
        dataset: An id or a folder.

    Raises:
        DatasetError: There is no such dataset, its data are at fault, or it is not an SME.
        VersionError: A newer version wrote it.
    """
    recipe = recipe_of(dataset)
    held = store.read(dataset)
    task = recipe.task
    has, wanted = (held.observations.shape[1], held.actions.shape[1]), (task.state_dim + 2, task.action_dim)
    if has != wanted:
        raise DatasetError(
            f"dataset {held.id!r}: expected {wanted[0]} observation and {wanted[1]} action channels, as its task has, "
            f"got {has[0]} and {has[1]}; run sme-offline inspect on it"
        )
    if len(held.actions) == 0:
        raise DatasetError(f"dataset {held.id!r}: has no steps, so there is nothing to draw")
    sme = task.build()
    with style():
        return _draw(held.id, _steps(held, sme), sme, _rows(recipe))


def _rows(recipe: Recipe) -> dict[str, float]:
    """The reference rows that are drawn; none where the file of base `policy` is elsewhere."""
    try:
        rows = references(Rollout.prepare(recipe))
    except PolicyError:
        return {}
    return {"behavior": rows.behavior_score, "imitation": rows.imitation_score}


def _steps(held: store.Dataset, sme: Sme) -> Steps:
    """An even sample of a dataset's steps."""
    total = len(held.actions)
    chosen = np.unique(np.linspace(0, total - 1, min(SAMPLE, total)).astype(np.int64))
    # An episode has one observation more than actions: step i of episode e is observation i + e.
    episode = np.searchsorted(np.cumsum(held.lengths), chosen, side="right")
    n = sme.task.state_dim
    states = np.ascontiguousarray(held.observations[chosen + episode, :n])
    path = held.observations[: min(PATH, int(held.lengths[0])) + 1, :n]
    return Steps(states, held.actions[chosen], sme.optimal_action(states), path)


def _draw(name: str, steps: Steps, sme: Sme, rows: Mapping[str, float]) -> Picture:
    """Three panels side by side."""
    figure = Figure(figsize=(WIDTH, TOP + SIDE + BOTTOM))
    figure.text(*at_inches(figure, LEFT, 0.14), name[:WIDEST], fontsize=9, fontweight="bold", va="center")
    lefts = [LEFT + i * (SIDE + GAP) for i in range(3)]
    axes = [panel(figure, left, TOP, SIDE, SIDE) for left in lefts]
    scores = score(steps.actions, steps.optimal)
    (_folded if sme.task.state_dim == 2 else _visited)(axes[0], steps, sme)
    if sme.task.state_dim == 2:
        draw_scale(figure, "first channel", left=lefts[0], top=0.36)
    _agreement(axes[1], steps)
    _scores(axes[2], scores)
    entries = [(str(i), dot(color)) for i, color in enumerate(CHANNELS[: sme.task.action_dim], 1)]
    draw_entries(figure, entries, left=lefts[1], top=0.48)
    kinds = []
    for (row, value), color in zip(rows.items(), (BLUE, VERMILION), strict=False):
        line = rule(color, dashed=row == "imitation", width=1.6)
        axes[2].axvline(value, color=color, linewidth=1.6, linestyle=line.get_linestyle())
        kinds.append((f"{row} {value:.2f}", line))
    draw_entries(figure, kinds, left=lefts[2] - 0.2, top=0.48)
    arrows = "" if sme.task.state_dim == 1 else f"Arrows: the first {len(steps.path) - 1} steps of episode 0. "
    on_uniform = "Behavior and imitation: their scores on uniform states." if rows else ""
    caption(figure, arrows + on_uniform, left=LEFT)
    told = "".join(f", {row} on uniform states {value:.2f}" for row, value in rows.items())
    alt = (
        f"{name}: its states, its actions against the optimal ones, and the scores of its steps: mean "
        f"{scores.mean():.2f}{told}."
    )
    return Picture(name.replace("/", "-")[:LONGEST], alt, figure)


def _folded(ax: Axes, steps: Steps, sme: Sme) -> None:
    """The optimum's first channel over the square; on it states in the color of the action that was taken."""
    action_map(ax, optimal_square(sme))
    few = _few(len(steps.states))
    x, y = steps.states[few].T
    look: dict[str, Any] = {"cmap": ACTIONS, "vmin": 0, "vmax": 1, "s": 13, "edgecolors": "white", "linewidths": 0.5}
    ax.scatter(x, y, c=steps.actions[few, 0], **look)
    _arrows(ax, steps.path)
    square(ax, "state channel 1", "state channel 2")
    ax.set_title("optimum; points: action taken", fontweight="bold")


def _visited(ax: Axes, steps: Steps, sme: Sme) -> None:
    """How often the first two state channels are visited, relative to uniform."""
    if sme.task.state_dim == 1:
        counts, edges = np.histogram(steps.states[:, 0], bins=CELLS, range=(0, 1), density=True)
        ax.stairs(counts, edges, fill=True, color=PALE, edgecolor=GRAY)
        ax.axhline(1, color=INK, linewidth=1.2, linestyle=DASHED)
        square(ax, "state", "")
        ax.set_ylim(0, 1.15 * max(1.0, float(counts.max())))
        ax.set_yticks([0, 1], ["0", "1"])
        ax.set_title("visits, 1 = uniform", fontweight="bold")
        return
    many = _few(len(steps.states), 4 * SHOWN)
    cloud(ax, steps.states[many, 0], steps.states[many, 1], GRAY, size=1.8)
    _arrows(ax, steps.path[:, :2])
    square(ax, "state channel 1", "state channel 2")
    ax.set_title("visited states", fontweight="bold")


def _arrows(ax: Axes, path: Floats) -> None:
    """The first steps of an episode, and where it begins."""
    points = [(float(x), float(y)) for x, y in path]
    arrow = {"arrowstyle": "->", "color": VERMILION, "linewidth": 1.0, "shrinkA": 0, "shrinkB": 0}
    for begin, end in itertools.pairwise(points):
        ax.annotate("", end, begin, arrowprops=arrow)
    ax.plot(*points[0], marker="o", color=VERMILION, markersize=6, markeredgecolor="white")


def _agreement(ax: Axes, steps: Steps) -> None:
    """Actions by optimal actions, a color for each of the first channels."""
    few = _few(len(steps.actions))
    for i, color in enumerate(CHANNELS[: steps.actions.shape[1]]):
        cloud(ax, steps.optimal[few, i], steps.actions[few, i], color)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=1.2, linestyle=DASHED)
    square(ax, "optimal action", "action taken")
    corner(ax, "dashed: optimal")
    more = steps.actions.shape[1] > len(CHANNELS)
    ax.set_title(f"actions, {'first channels' if more else 'by channel'}", fontweight="bold")


def _scores(ax: Axes, scores: Floats) -> None:
    """A histogram of the scores of single steps."""
    counts, edges = np.histogram(scores, bins=BINS, range=(0, 1))
    shares = 100 * counts / len(scores)
    ax.stairs(shares, edges, fill=True, color=PALE, edgecolor=GRAY, linewidth=0.6)
    low = min(0.9, max(0.0, float(np.floor(scores.min() * 10)) / 10))
    ax.set_xlim(low, 1.0)
    ax.set_ylim(0, 1.08 * float(shares.max()))
    ax.tick_params(length=0)
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=TICK_STEPS))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=TICK_STEPS, integer=True))
    ax.set_xlabel("score of a step, 1 = optimal", fontsize=8)
    ax.set_ylabel("% of steps", fontsize=8)
    ax.set_title("scores", fontweight="bold")


def _few(n: int, wanted: int = SHOWN) -> slice:
    """An even choice among n rows."""
    return slice(None, None, max(1, n // wanted))
