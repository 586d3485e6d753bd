"""What critics say against what is true: a row of two panels for each critic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from smeoffline.bench.drawing.key import LEFT, Looks, draw_key, dress, key_height, limits
from smeoffline.bench.drawing.style import BLUE, GRAY, GREEN, ORANGE, VERMILION, grid, style, svg
from smeoffline.score.critics.records import Points

LOOKS: Looks = {
    "data": (BLUE, "o"),
    "uniform": (ORANGE, "o"),
    "policy": (GREEN, "o"),
    "ood": (VERMILION, "o"),
}
TICKS = 4


def critics_svg(critics: Mapping[str, Sequence[Points]]) -> str:
    """A figure as SVG text: Q against Q* on the left, against Q of the critic's own policy on the right.

    A critic that is off by fifty would show as a flat cloud, so each panel's mean error is taken off and told.

    Args:
        critics: Points of each critic, by its name; at least one.
    """
    with style():
        figure, axes = grid(2 * len(critics), 2, 2.2, left=LEFT, top=key_height(list(LOOKS)), gap=(0.7, 0.9))
        draw_key(figure, LOOKS)
        for i, (name, points) in enumerate(critics.items()):
            exact = [p for p in points if p.standard_error is None]
            measured = [p for p in points if p.standard_error is not None]
            _panel(axes[2 * i], name, exact, "Q*")
            _panel(axes[2 * i + 1], name, measured, "Q of its policy, by rollouts")
        return svg(figure, f"What critics say against what is true: {', '.join(critics)}")


def _panel(ax: Axes, name: str, points: Sequence[Points], xlabel: str) -> None:
    """Points less their mean error, and the line on which those of a perfect critic lie."""
    bias = float(np.mean(np.concatenate([p.estimate - p.true for p in points]))) if points else 0.0
    for group in points:
        color, marker = LOOKS[group.probes]
        y = group.estimate - bias
        if group.standard_error is not None:
            errors = group.standard_error
            ax.errorbar(group.true, y, xerr=errors, fmt="none", ecolor=color, elinewidth=0.6, alpha=0.5)
        ax.plot(group.true, y, color=color, marker=marker, linestyle="none", markersize=2.2, alpha=0.6)
    if points:
        low, high = limits([x for group in points for x in group.true.tolist()])
        ax.set_xlim(low, high)
        ax.set_ylim(*limits([y for p in points for y in (*(p.estimate - bias).tolist(), *p.true.tolist())]))
        ax.plot([low, high], [low, high], color=GRAY, linewidth=1.0, zorder=0)
    shown = f"{bias:+.2f}".replace("-", "\N{MINUS SIGN}")
    dress(ax, f"{name}: bias {shown}", ylabel="Q, bias taken off")
    ax.set_xlabel(xlabel)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(TICKS))
