"""A picture of a run: losses and speed while it trained, and its scores beside the reference rows."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from smeoffline.bench.drawing.key import LINES, TICK_STEPS, dress, limits, marks, tick_text
from smeoffline.bench.drawing.style import BLUE, GRAY, INK, PALE, WIDTH, at_inches, style
from smeoffline.bench.pictures.canvas import Picture, panel
from smeoffline.errors import TrainingError
from smeoffline.train.metrics import FILE as METRICS
from smeoffline.train.metrics import read_metrics
from smeoffline.train.record import RunRecord, read_run
from smeoffline.train.run_folder import EVALUATION, find_run

ACROSS = 3
LEFT, TOP, HEIGHT = 0.62, 0.72, 1.55  # inches
GAP, BELOW, BOTTOM = 0.62, 0.8, 0.5
MOST_LOSSES = 6
ROWS = ("optimal", "imitation", "behavior", "random")  # keys of an evaluation, less their `_score`


@dataclass(frozen=True)
class Told:
    """What a run's files tell.

    Attributes:
        curves: Name -> (steps, values): a curve for each loss, then one of the rate; your own algorithm has none.
        scores: Name -> score, of this run and of the reference rows; empty before it is evaluated.
        distances: (distance, score) outside the cube, rising; empty likewise.
    """

    curves: Mapping[str, tuple[list[float], list[float]]]
    scores: Mapping[str, float]
    distances: Sequence[tuple[float, float]]


def run_picture(run: str | Path) -> Picture:
    """Learning curves, and the evaluation where there is one.

    Args:
        run: A run's folder, or one with a single run in it; it may be training still.

    Raises:
        TrainingError: No run, one with neither metrics nor an evaluation yet, or damaged files.
        VersionError: Another version wrote it.
    """
    folder = find_run(Path(run))
    record = read_run(folder)
    scores, distances = _evaluation(folder)
    told = Told(_curves(folder), scores, distances)
    if not told.curves and not told.scores:
        raise TrainingError(f"run {folder}: {_missing(folder, record)}")
    name = f"{record.algorithm} on {record.dataset_id}, seed {record.seed}: {record.status} at step {record.step:,}"
    with style():
        return _draw(f"{folder.resolve().name}-run", name, told)


def _missing(folder: Path, record: RunRecord) -> str:
    """Why there is nothing to draw, and what to do."""
    if ":" not in record.algorithm:
        return f"has no lines in {METRICS} yet; there is one every 100 steps"
    own = f"{record.algorithm} is your own algorithm, which writes no {METRICS}"
    if not record.reloadable:
        return f"{own}, and its policy is in no file that could be evaluated: there is nothing to draw"
    return f"{own}, and has no evaluation yet; evaluate it first: sme-offline evaluate {folder}"


def _curves(folder: Path) -> dict[str, tuple[list[float], list[float]]]:
    """Losses and rate by step, from the lines that are whole; none where there are no lines."""
    curves: dict[str, tuple[list[float], list[float]]] = {}
    for line in read_metrics(folder):
        losses = line.get("losses")
        for name, value in [*(losses if isinstance(losses, dict) else {}).items(), ("rate", line.get("rate"))]:
            if _number(value) and _number(line.get("step")):
                steps, values = curves.setdefault(str(name), ([], []))
                steps.append(float(line["step"]))
                values.append(float(value))
    rate = curves.pop("rate", None)
    kept = dict(list(curves.items())[:MOST_LOSSES])
    return kept if rate is None else {**kept, "rate": rate}


def _evaluation(folder: Path) -> tuple[dict[str, float], list[tuple[float, float]]]:
    """The scores and the curve in `evaluation.json`; nothing where it is not there."""
    try:
        found: Any = json.loads((folder / EVALUATION).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError, RecursionError):
        found = None
    keys = {"this run": "score_wd", **{name: f"{name}_score" for name in ROWS}}
    if not isinstance(found, dict) or not all(_number(found.get(key)) for key in keys.values()):
        raise TrainingError(f"run {folder}: {EVALUATION} is damaged; write it anew with: sme-offline evaluate {folder}")
    curve = found.get("ood_curve")
    points = [point for point in curve if isinstance(point, dict)] if isinstance(curve, list) else []
    distances = [
        (float(point["distance"]), float(point["score"]))
        for point in points
        if _number(point.get("distance")) and _number(point.get("score"))
    ]
    return {name: float(found[key]) for name, key in keys.items()}, sorted(distances)


def _number(value: object) -> bool:
    """Whether it is a finite number, and one that fits into a float."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def _draw(file: str, name: str, told: Told) -> Picture:
    """The scores first, then a panel for each curve."""
    drawers: list[tuple[str, Any]] = []
    if told.scores:
        drawers.append(("scores on uniform states", lambda ax: _scores(ax, told.scores)))
    if told.distances:
        drawers.append(("score outside the cube", lambda ax: _distances(ax, told)))
    for title, (steps, values) in told.curves.items():
        named = "steps a second" if title == "rate" else title.replace("_", " ")
        drawers.append((named, lambda ax, steps=steps, values=values: _curve(ax, steps, values)))
    rows = -(-len(drawers) // ACROSS)
    width = (WIDTH - LEFT - 0.15 - (ACROSS - 1) * GAP) / ACROSS
    figure = Figure(figsize=(WIDTH, TOP + rows * (HEIGHT + BELOW) - BELOW + BOTTOM))
    figure.text(*at_inches(figure, LEFT, 0.16), name[:110], fontsize=9, fontweight="bold", va="center")
    for i, (title, drawer) in enumerate(drawers):
        place = LEFT + (i % ACROSS) * (width + GAP), TOP + (i // ACROSS) * (HEIGHT + BELOW)
        ax = panel(figure, *place, width, HEIGHT)
        dress(ax, title, ylabel="")
        drawer(ax)
    return Picture(file, _alt(name, told), figure)


def _curve(ax: Axes, steps: list[float], values: list[float]) -> None:
    """A curve over training steps."""
    ax.plot(steps, values, color=BLUE, linewidth=1.4, marker="o" if len(steps) < 4 else None, markersize=3)
    ax.set_xlim(0, max(1.0, 1.02 * max(steps)))
    low = min(values)
    if low >= 0:  # a loss or a rate that cannot be negative: its height means something
        ax.set_ylim(0, 1.08 * max(values) if max(values) > 0 else 1)
    ax.xaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
    ax.xaxis.set_major_formatter(FuncFormatter(tick_text))
    ax.set_xlabel("training steps")


def _scores(ax: Axes, scores: Mapping[str, float]) -> None:
    """A row for each score, best on top."""
    ordered = sorted(scores.items(), key=lambda item: -item[1])
    for i, (name, value) in enumerate(ordered):
        own = name == "this run"
        color = BLUE if own else GRAY
        ax.plot([0, value], [i, i], color=PALE, linewidth=1.0)
        ax.add_line(marks([value], [i], color, "o"))
        ax.text(value, i - 0.32, f"{value:.3f}", color=color, fontsize=7.5, ha="right", va="center")
    low, high = limits(scores.values())
    ax.set_xlim(max(0.0, low - 0.15 * (high - low)), high)
    ax.set_ylim(len(ordered) - 0.6, -0.7)
    ax.grid(visible=False)
    ax.set_yticks(range(len(ordered)), [name for name, _ in ordered], fontsize=7.5)
    for tick, (name, _) in zip(ax.get_yticklabels(), ordered, strict=True):
        tick.set_color(BLUE if name == "this run" else INK)
        tick.set_fontweight("bold" if name == "this run" else "normal")
    ax.xaxis.set_major_locator(MaxNLocator(3, steps=TICK_STEPS))
    ax.set_xlabel("score, 1 = optimal")


def _distances(ax: Axes, told: Told) -> None:
    """Score by distance from the cube, with what it is inside at distance 0."""
    inside = told.scores["this run"]
    points = [(0.0, inside), *told.distances]
    ax.plot(*zip(*points, strict=True), color=BLUE, linewidth=1.4, marker="o", markersize=3)
    color, dashes = LINES["imitation"]
    ax.axhline(told.scores["random"], color=color, linewidth=1.2, linestyle=dashes)
    ax.text(1.0, told.scores["random"], "random, inside", color=color, fontsize=7.5, ha="right", va="bottom")
    ax.set_ylim(*limits([told.scores["random"], *(score for _, score in points)]))
    ax.set_xlim(-0.03, 1.0)
    ax.yaxis.set_major_locator(MaxNLocator(4, steps=TICK_STEPS))
    ax.set_xlabel("distance from the cube")


def _alt(name: str, told: Told) -> str:
    """What is seen, in words."""
    scores = ", ".join(f"{row} {value:.3f}" for row, value in told.scores.items())
    losses = ", ".join(
        f"{title.replace('_', ' ')} from {values[0]:.3g} to {values[-1]:.3g}"
        for title, (_, values) in told.curves.items()
    )
    parts = [name, f"Scores: {scores}" if scores else "", f"While it trained: {losses}" if losses else ""]
    return " ".join(f"{part}." for part in parts if part)
