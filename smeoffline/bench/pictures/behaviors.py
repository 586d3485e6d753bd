"""A picture of every base beside every exploration: what they do around the optimum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from smeoffline.bench.drawing.style import BLUE, GREEN, PALE, PURPLE, VERMILION, WIDTH, at_inches, style
from smeoffline.bench.pictures.canvas import Picture, caption, cloud, corner, dot, draw_entries, panel, rule, square
from smeoffline.data.acting import Actor, intend_at
from smeoffline.data.behavior import BASES, WITHOUT_NU, Behavior
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.streams import component_stream, episode_stream
from smeoffline.sme import probes
from smeoffline.sme.arrays import Floats
from smeoffline.sme.model import score
from smeoffline.sme.task import Task

CHANNELS = (BLUE, VERMILION, GREEN, PURPLE)  # of the first action channels; further ones are not drawn
POINTS = 250  # states
STEPS = 60  # of the strip below each panel
LEFT, RIGHT, TOP, BOTTOM, GAP = 0.95, 0.1, 0.66, 0.36, 0.14
STRIP, BETWEEN = 0.42, 0.22  # inches
DEEPEST = 0.8  # error that is drawn
SEED = 0


@dataclass(frozen=True, eq=False)
class Seen:
    """What a behavior does at uniform states.

    Attributes:
        actions: (POINTS, N_a).
        optimal: (POINTS, N_a).
        score: Mean score of these actions.
    """

    actions: Floats
    optimal: Floats
    score: float


def seen(behavior: Behavior, task: Task) -> Seen:
    """Let a behavior act at POINTS uniform states, as if they came one after the other."""
    sme = task.build()
    actor = Actor(behavior, sme, component_stream(SEED, 0))
    states = probes.within(task.state_dim, POINTS, SEED)
    u, m = intend_at(actor, states, sme.preactivation(states))
    kind = actor.exploration
    noise = kind.prepare(kind.draw(episode_stream(SEED), POINTS, task.action_dim)[:, np.newaxis])[:, 0]
    actions, optimal = kind.act(u, m, noise), sme.optimal_action(states)
    return Seen(actions, optimal, float(score(actions, optimal).mean()))


def behaviors_picture(task: Task, *, nu: float = 0.3, sigma: float = 0.3, policy: str | None = None) -> Picture:
    """Actions against optimal actions for every base and every exploration.

    Args:
        task: Where they act.
        nu: Of the bases that have one, in [0, 1000].
        sigma: Of every exploration, in [0, 1]: of `uniform` it is a probability.
        policy: An ONNX file: a row for base `policy` too.

    Raises:
        SpecError: `nu` or `sigma` is out of range.
        PolicyError: The file can't be used.
    """
    bases = [base for base in BASES if base != "policy" or policy is not None]
    found = {
        (base, explore): seen(
            Behavior(
                base=base,
                nu=0.0 if base in WITHOUT_NU else nu,
                explore=explore,
                sigma=0.0 if explore == "none" else sigma,
                policy=policy if base == "policy" else None,
            ),
            task,
        )
        for base in bases
        for explore in (EXPLORATIONS if base != "random" else ("none",))
    }
    with style():
        return _draw(bases, found, task, nu, sigma)


def _draw(bases: list[str], found: dict[tuple[str, str], Seen], task: Task, nu: float, sigma: float) -> Picture:
    """A row for each base, a column for each exploration."""
    kinds = list(EXPLORATIONS)
    side = (WIDTH - LEFT - RIGHT) / len(kinds) - GAP
    height = side + STRIP + 0.06
    figure = Figure(figsize=(WIDTH, TOP + len(bases) * (height + BETWEEN) - BETWEEN + BOTTOM))
    channels = CHANNELS[: task.action_dim]
    entries = [(f"action channel {i}", dot(color)) for i, color in enumerate(channels, 1)]
    draw_entries(figure, [*entries, ("optimum", rule(dashed=True))], left=LEFT, top=0.16)
    for j, base in enumerate(bases):
        top = TOP + j * (height + BETWEEN)
        size = "" if base in WITHOUT_NU else f"\nnu {nu:g}"
        place = at_inches(figure, 0.08, top + 0.12)
        figure.text(*place, base + size, fontsize=9, fontweight="bold", va="center", linespacing=1.3)
        for i, kind in enumerate(k for k in kinds if (base, k) in found):
            left = LEFT + i * (side + GAP)
            ax = panel(figure, left, top, side, side)
            strip = panel(figure, left, top + side + 0.06, side, STRIP)
            _cell(ax, strip, found[base, kind], first=i == 0)
            if j == 0:
                ax.set_title(kind, fontweight="bold")
            if i == 0:
                strip.set_ylabel("error", fontsize=7.5)
    told = "Squares: the action taken, by the optimal action. Strips: error of channel 1, step by step."
    more = "" if len(channels) == task.action_dim else f"The first {len(channels)} of {task.action_dim} channels. "
    caption(figure, f"{more}Sigma {sigma:g}. {told}", left=LEFT)
    return Picture("behaviors", _alt(found, nu, sigma), figure)


def _cell(ax: Axes, strip: Axes, what: Seen, *, first: bool) -> None:
    """One behavior: actions against the optimum, and errors over time."""
    for i, color in enumerate(CHANNELS[: what.actions.shape[1]]):
        cloud(ax, what.optimal[:, i], what.actions[:, i], color)
    line = rule(dashed=True)
    line.set_data([0, 1], [0, 1])
    ax.add_line(line)
    square(ax, None, "action" if first else None)
    ax.set_xticks([])
    corner(ax, f"score {what.score:.2f}")
    error = np.clip(what.actions[:STEPS, 0] - what.optimal[:STEPS, 0], -DEEPEST, DEEPEST)
    strip.vlines(np.arange(STEPS), 0, error, color=CHANNELS[0], linewidth=1.0)
    strip.axhline(0, color=PALE, linewidth=0.6)
    strip.set_xlim(-1, STEPS)
    strip.set_ylim(-DEEPEST, DEEPEST)
    strip.set_xticks([])
    strip.set_yticks([])


def _alt(found: dict[tuple[str, str], Seen], nu: float, sigma: float) -> str:
    """The score of each."""
    told = ", ".join(f"{base} with {kind} {what.score:.2f}" for (base, kind), what in found.items())
    return (
        f"Actions against optimal actions for every base (nu {nu:g}) and exploration (sigma {sigma:g}); scores: {told}."
    )
