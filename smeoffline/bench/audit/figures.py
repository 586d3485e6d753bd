"""The figures of an audit's page, each as wide as a phone; their colors follow the page's light or dark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from smeoffline.bench.drawing.key import dress
from smeoffline.bench.drawing.style import BLUE, DASHED, GRAY, INK, PALE, VERMILION, style, svg
from smeoffline.data.audit.portrait import Field, Histogram, Portrait

WIDE, HIGH = 4.8, 3.2  # inches
MOST_CHANNELS = 24
LEVELS = (0.25, 0.5, 0.8, 1.25, 2.0, 4.0)  # of density, relative to uniform: where the shade changes
MAP = "cividis"  # uniform in lightness for all kinds of color blindness
REFERENCES = (("random_score", "random"), ("behavior_score", "behavior"), ("imitation_score", "imitation"))
WHITE = "#FFFFFF"
PATH_LOOKS = ((VERMILION, "o"), (WHITE, "s"))
THEME = {INK: "var(--ink)", GRAY: "var(--gray)", PALE: "var(--pale)"}


@dataclass(frozen=True)
class Plate:
    """One figure of the page.

    Attributes:
        title: Its heading.
        words: What it shows, and how it is to be read.
        svg: An <svg> element that loads nothing and shares no id with others.
    """

    title: str
    words: str
    svg: str


def plates(portrait: Portrait, scores: Mapping[str, float]) -> list[Plate]:
    """The figures that a dataset allows.

    Args:
        portrait: Of the dataset.
        scores: Its reference rows, as far as they are numbers.
    """
    made = []
    with style(), mpl.rc_context({"figure.facecolor": "none", "axes.facecolor": "none"}):
        if portrait.scores is not None:
            made.append(_scores(portrait.scores, scores))
        if portrait.returns is not None:
            made.append(_returns(portrait.returns))
        if portrait.coverage is not None:
            made.append(_channels(portrait))
        if len(portrait.dots):
            made += _states(portrait)
    return [Plate(plate.title, plate.words, _embedded(plate, i)) for i, plate in enumerate(made)]


def _scores(found: Histogram, scores: Mapping[str, float]) -> Plate:
    """How near each action of the data is to the optimum."""
    figure, ax = _panel(top=0.75)
    _bars(ax, found)
    lines = [(scores[key], label) for key, label in REFERENCES if key in scores]
    seen = [edge for edge, count in zip(found.edges, found.counts, strict=False) if count]
    ax.set_xlim(max(0, min([*seen, *(value for value, _ in lines)]) - 0.05), 1)
    _marked(ax, [*lines, (found.mean, "data")])
    ax.set_xlabel("score of an action (1 is optimal)")
    words = f"Score of every action of the data, in share of actions; their mean is {found.mean:.3f}."
    if lines:
        words += f" Expected on uniform states: {', '.join(f'{label} {value:.3f}' for value, label in lines)}."
    return Plate("Scores", words, svg(figure, "Histogram of scores"))


def _returns(found: Histogram) -> Plate:
    """What the episodes earn."""
    figure, ax = _panel(top=0.4)
    _bars(ax, found)
    _marked(ax, [(found.mean, "mean")])
    ax.set_xlabel("return of an episode, undiscounted")
    words = f"Returns of the {sum(found.counts):,} episodes; their mean is {found.mean:.4g}."
    return Plate("Returns", words, svg(figure, "Histogram of returns"))


def _bars(ax: Axes, found: Histogram) -> None:
    """Shares of the numbers by bin."""
    shares = np.array(found.counts) / sum(found.counts)
    ax.bar(found.edges[:-1], shares, np.diff(found.edges), align="edge", color=BLUE, linewidth=0)
    dress(ax, "", ylabel="share")


def _marked(ax: Axes, lines: Sequence[tuple[float, str]]) -> None:
    """Vertical lines whose names stand above the panel, one below the other so that none covers another."""
    low, high = ax.get_xlim()
    for i, (value, label) in enumerate(sorted(lines)):
        dashes = "solid" if label in ("data", "mean") else DASHED
        ax.axvline(value, color=INK, linewidth=1.3, linestyle=dashes)
        right = value > (low + high) / 2
        top = 1.02 + 0.065 * (len(lines) - 1 - i)
        ax.plot([value, value], [1, top + 0.03], color=GRAY, linewidth=0.6, transform=ax.get_xaxis_transform(),
                clip_on=False)  # fmt: skip
        text = f"{label} {value:.3g} " if right else f" {label} {value:.3g}"
        ax.text(value, top, text, ha="right" if right else "left", transform=ax.get_xaxis_transform(), fontsize=8)


def _channels(portrait: Portrait) -> Plate:
    """Where each channel's values lie, against uniform ones."""
    rows = list(range(len(portrait.channels)))
    if len(rows) > MOST_CHANNELS:
        rows = rows[: MOST_CHANNELS // 2] + rows[-(MOST_CHANNELS // 2) :]
    counts = portrait.histogram[rows]
    density = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1) * counts.shape[1]
    figure, ax = _panel(height=1.15 + 0.19 * len(rows), left=0.8, top=0.5)
    shades = mpl.colormaps[MAP](np.linspace(0, 1, len(LEVELS) + 1))
    for y, row in enumerate(density):
        for x, level in enumerate(np.searchsorted(LEVELS, row, side="right")):
            ax.add_patch(Rectangle((x / len(row), y + 0.05), 1 / len(row), 0.9, color=shades[level], linewidth=0))
    ax.set_xlim(0, 1)
    ax.set_ylim(len(rows), 0)
    ax.set_yticks(np.arange(len(rows)) + 0.5, [portrait.channels[i] for i in rows])
    ax.tick_params(length=0)
    ours = set(portrait.low) == {0.0} and set(portrait.high) == {1.0}
    ax.set_xlabel("value" if ours else "value, from the least to the greatest of the channel")
    _shade_key(figure, shades)
    left_out = len(portrait.channels) - len(rows)
    words = "Density of each channel's values, relative to a uniform distribution (1)."
    words += " Channels are counted from 1, as in plots: state 1 is channel 0 of the arrays, and of a fault."
    if left_out:
        words += f" {left_out} channels between those shown are left out."
    return Plate("Coverage by channel", words, svg(figure, "Density of each channel"))


def _shade_key(figure: Figure, shades: Any) -> None:
    """What the shades mean."""
    width, height = figure.get_size_inches()
    texts = [f"<{LEVELS[0]:g}", *(f"{level:g}+" for level in LEVELS)]
    for i, text in enumerate(texts):
        x, y = (0.8 + 0.55 * i) / width, 1 - 0.33 / height
        box = Rectangle((x, y), 0.14 / width, 0.14 / height, color=shades[i], transform=figure.transFigure)
        figure.add_artist(box)
        figure.text(x + 0.18 / width, y + 0.01 / height, text, fontsize=8)


def _states(portrait: Portrait) -> list[Plate]:
    """Where the data are, over what would be optimal there."""
    field = portrait.field
    if field is not None and field.actions.ndim == 2:
        return [_one_state(portrait, field, j) for j in range(field.actions.shape[1])]
    if portrait.dots.shape[1] == 1:
        return []
    if field is None:
        return [_plane(portrait, None, 0)]
    return [_plane(portrait, field, j) for j in range(field.actions.shape[2])]


def _plane(portrait: Portrait, field: Field | None, channel: int) -> Plate:
    """Two state channels: the field of one action channel, states of the data, the beginnings of some episodes."""
    figure, ax = _panel(height=4.4, top=0.2 if field is None else 0.75)
    if field is not None:
        _shades(figure, ax, field, channel)
    ax.plot(*portrait.dots.T, linestyle="none", marker=".", markersize=2.6, color=INK if field is None else "#000000")
    for path, (color, marker) in zip(portrait.paths, PATH_LOOKS, strict=False):  # a dataset may have one episode
        on_page = BLUE if field is None and color == WHITE else color
        look: Any = {"color": on_page, "marker": marker, "markeredgecolor": "#000000", "markeredgewidth": 0.5}
        ax.plot(*path.T, linewidth=1.3, markersize=4.5, **look)
        ax.plot(*path[:1].T, markersize=9, **look)
    ax.set_xlabel(portrait.channels[0])
    ax.set_ylabel(portrait.channels[1])
    if field is not None:
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
    steps = max(len(path) - 1 for path in portrait.paths)
    lines = (
        f"Lines: up to {steps} first steps of {len(portrait.paths)} episodes, from the large marker on."
        if len(portrait.paths) > 1
        else f"Line: up to {steps} first steps of an episode, from the large marker on."
    )
    dots = f"Dots: {len(portrait.dots)} states of the data, spread over it."
    if field is None:
        return Plate("States", f"{dots} {lines}", svg(figure, "States in the first two channels"))
    title = f"States, and the optimal action {channel + 1}"
    fixed = f", where all other state channels are {field.fixed:g}" if len(portrait.channels) > 2 else ""
    words = (
        f"Shade: channel {channel + 1} of the optimal action{fixed}; the data's other channels are not. {dots} {lines}"
    )
    return Plate(title, words, svg(figure, title))


def _shades(figure: Figure, ax: Axes, field: Field, channel: int) -> None:
    """The field in ten shades, and their key above it."""
    edges = np.concatenate([[0], (field.at[1:] + field.at[:-1]) / 2, [1]])
    color = mpl.colormaps[MAP].resampled(10)
    ax.pcolormesh(
        edges, edges, field.actions[:, :, channel], cmap=color, vmin=0, vmax=1, linewidth=0.3, edgecolors="face"
    )
    width, height = figure.get_size_inches()
    for i in range(10):
        x, y = (0.62 + 0.3 * i) / width, 1 - 0.33 / height
        box = Rectangle((x, y), 0.3 / width, 0.14 / height, color=color(i), linewidth=0, transform=figure.transFigure)
        figure.add_artist(box)
    for i in (0, 5, 10):
        figure.text((0.62 + 0.3 * i) / width, 1 - 0.5 / height, f"{i / 10:g}", fontsize=8, ha="center")


def _one_state(portrait: Portrait, field: Field, channel: int) -> Plate:
    """One state channel: the optimal action as a line, the data's actions as dots."""
    figure, ax = _panel(height=HIGH)
    ax.plot(
        portrait.dots[:, 0], portrait.dot_actions[:, channel], linestyle="none", marker="o", markersize=2.6, color=BLUE
    )
    ax.plot(field.at, field.actions[:, channel], color=VERMILION, linewidth=1.8)
    ax.set_xlim(0, 1)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel(portrait.channels[0])
    ax.set_ylabel(f"action {channel + 1}")
    title = f"Actions, and the optimal action {channel + 1}"
    words = f"Line: the optimal action in each state. Dots: {len(portrait.dots)} actions of the data."
    return Plate(title, words, svg(figure, title))


def _panel(height: float = HIGH, left: float = 0.62, top: float = 0.2) -> tuple[Figure, Axes]:
    """A figure of one panel; lengths in inches."""
    figure = Figure(figsize=(WIDE, height))
    bottom, right = 0.48, 0.18
    box = (left / WIDE, bottom / height, (WIDE - left - right) / WIDE, (height - bottom - top) / height)
    return figure, figure.add_axes(box)


def _embedded(plate: Plate, number: int) -> str:
    """An SVG file's text as an element of a page: ids of its own, the page's colors, and no outside names."""
    text = plate.svg[plate.svg.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="f{number}-', text)
    text = re.sub(r'(url\(|href=")#', lambda found: f"{found[0]}f{number}-", text)
    for color, name in THEME.items():
        text = re.sub(color, name, text, flags=re.IGNORECASE)
    text = text.replace("<svg ", f'<svg role="img" aria-label="{plate.title}" ', 1)
    return re.sub(r' (width|height)="[\d.]+pt"', "", text, count=2)
