"""Figures that are colored tables: gains over imitation, and who beats whom."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from smeoffline.bench.drawing.key import CHARACTER, TICK_STEPS, Looks, limits, marks
from smeoffline.bench.drawing.panels import HeatPanel, RankingPanel
from smeoffline.bench.drawing.style import DASHED, GRAY, INK, PALE, WIDTH, at_inches, grid
from smeoffline.score.statistics import Estimate

# The same in every report, so that colors can be compared; the printed values go on where the colors end.
GAIN_LIMIT = 0.1
# Orange below, blue above: told apart with the common kinds of color blindness.
BELOW, MIDDLE, ABOVE = (0.835, 0.369, 0.0), (0.97, 0.97, 0.97), (0.0, 0.447, 0.698)
EMPTY = "#ECECEC"
LOWEST_GAP = -1.0  # that is drawn; what is lower is an arrow with a number
SHORT = 9  # characters of a name that fits into a column
DARK = 0.5  # luminance under which text on a color is white


def shade(value: float, limit: float) -> tuple[float, float, float]:
    """A color for a value in [-limit, limit]; beyond, the color of the end."""
    share = min(1.0, abs(value) / limit)
    end = ABOVE if value > 0 else BELOW
    red, green, blue = (round(m + share * (e - m), 4) for m, e in zip(MIDDLE, end, strict=True))
    return red, green, blue


def ink_on(color: tuple[float, float, float]) -> str:
    """Black or white, whichever is read more easily on a color."""
    red, green, blue = color
    return "white" if 0.299 * red + 0.587 * green + 0.114 * blue < DARK else INK


def signed(value: float) -> str:
    """`+.05`, `−.12`, `0`: two decimals, short enough for a small cell."""
    text = f"{value:+.2f}".replace("-", "−").replace("0.", ".", 1)
    return text if text[1:] != ".00" else "0"


def heat_figure(panels: Sequence[HeatPanel], columns: int) -> Figure:
    """Gains over imitation by base error (rows) and exploration (columns)."""
    alike = len({(panel.rows, panel.columns) for panel in panels}) == 1
    label = 0.1 + 0.075 * max(len(row) for panel in panels for row in panel.rows)
    height = 0.26 * max(len(panel.rows) for panel in panels)
    gap = (0.16 if alike else label, 0.82)
    figure, axes = grid(len(panels), columns, height, left=label + 0.02, top=0.82, bottom=0.58, gap=gap)
    _scale(figure, label)
    for i, (panel, ax) in enumerate(zip(panels, axes, strict=True)):
        _cells(ax, panel, labelled=i % columns == 0 or not alike)
    return figure


def _scale(figure: Figure, left: float) -> None:
    """The color scale, above the panels."""
    steps, size, top = 9, 0.3, 0.08
    for i in range(steps):
        value = GAIN_LIMIT * (2 * i / (steps - 1) - 1)
        x, y = at_inches(figure, left + size * i, top + 0.14)
        width, height = size / WIDTH, 0.14 / float(figure.get_size_inches()[1])
        figure.add_artist(Rectangle((x, y), width, height, facecolor=shade(value, GAIN_LIMIT)))
    for value, text in ((-1, f"≤ −{GAIN_LIMIT:g}"), (0, "0"), (1, f"≥ +{GAIN_LIMIT:g}")):
        middle = left + size * (steps / 2 + value * (steps - 1) / 2)
        figure.text(*at_inches(figure, middle, top + 0.27), text, fontsize=7.5, ha="center", va="center")
    notes = ("gain over imitation", "–   no headroom: nothing left for the reward to teach")
    for i, note in enumerate(notes):
        place = at_inches(figure, left + size * steps + 0.2 + 1.5 * i, top + 0.08)
        figure.text(*place, note, fontsize=8, va="center")


def _cells(ax: Axes, panel: HeatPanel, *, labelled: bool) -> None:
    """One panel."""
    for i, row in enumerate(panel.rows):
        for j, column in enumerate(panel.columns):
            if (row, column) in panel.values:
                _cell(ax, j, i, panel.values[row, column])
    ax.set_xlim(-0.5, len(panel.columns) - 0.5)
    ax.set_ylim(len(panel.rows) - 0.5, -0.5)
    ax.set_yticks(range(len(panel.rows)), panel.rows if labelled else [""] * len(panel.rows))
    ax.set_xticks(range(len(panel.columns)), [size if size else kind for kind, size in panel.columns])
    for kind in dict.fromkeys(kind for kind, size in panel.columns if size):
        places = [j for j, (other, _) in enumerate(panel.columns) if other == kind]
        middle = ((min(places) + max(places)) / 2, 0)
        below = ("data", "axes fraction")
        points = "offset points"
        ax.annotate(kind, middle, (0, -25), xycoords=below, textcoords=points, ha="center", fontsize=8)
    _bare(ax)
    ax.set_title(panel.title, fontweight="bold")


def _cell(ax: Axes, x: float, y: float, value: float | None) -> None:
    """One colored rectangle with its number."""
    color = shade(value, GAIN_LIMIT) if value is not None else EMPTY
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=1.2))
    text, ink = ("–", GRAY) if value is None else (signed(value), ink_on(shade(value, GAIN_LIMIT)))
    ax.text(x, y, text, color=ink, fontsize=7.5, ha="center", va="center")


def _bare(ax: Axes) -> None:
    """No frame and no tick marks."""
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    ax.tick_params(length=0)


def ranking_figure(panel: RankingPanel, looks: Looks) -> Figure:
    """Interquartile means with intervals at the left, probabilities of improvement at the right."""
    n, longest = len(panel.algorithms), max(map(len, panel.algorithms))
    # Long names stand once, at the left; in the table at the right, their ranks.
    ranks = [str(i) for i in range(1, n + 1)] if longest > SHORT else []
    names = [" ".join(pair) for pair in zip(ranks, panel.algorithms, strict=True)] if ranks else []
    label = 0.2 + CHARACTER * max(map(len, names if names else panel.algorithms))
    middle = 0.3 if ranks else label
    total, height = 0.3 * n + 0.85, 0.3 * n
    figure = Figure(figsize=(WIDTH, total))
    width = max(1.0, (WIDTH - label - middle - 0.6) * (0.45 if ranks else 0.5))
    start = label + width + 0.5 + middle
    left = figure.add_axes((label / WIDTH, 0.5 / total, width / WIDTH, height / total))
    right = figure.add_axes((start / WIDTH, 0.5 / total, (WIDTH - start - 0.1) / WIDTH, height / total))
    _means(left, panel, looks, names if names else panel.algorithms)
    _wins(right, panel, ranks if ranks else panel.algorithms, digits=_digits((WIDTH - start) / n))
    return figure


def _digits(width: float) -> int | None:
    """The digits of a probability for which a cell of so many inches has room; None where it has room for no number."""
    if width < 0.3:
        return None
    return 2 if width > 0.4 else 1


def _means(ax: Axes, panel: RankingPanel, looks: Looks, names: Sequence[str]) -> None:
    """A dot and an interval for each algorithm, best on top; 0 is imitation."""
    ax.axvline(0, color=GRAY, linewidth=1.2, linestyle=DASHED)
    ends = [0.0]
    for i, algorithm in enumerate(panel.algorithms):
        color, marker = looks[algorithm]
        found = panel.iqm[algorithm]
        if found.value < LOWEST_GAP:
            text = f"← {found.value:.2f}".replace("-", "−")
            ax.text(LOWEST_GAP, i, text, color=color, fontsize=8, va="center")
            ends.append(LOWEST_GAP)
            continue
        ends += [value for value in (found.value, found.low, found.high) if value is not None]
        if found.low is not None and found.high is not None:
            ax.add_line(Line2D([found.low, found.high], [i, i], color=color, linewidth=2.2))
        ax.add_line(marks([found.value], [i], color, marker))
    ax.set_xlim(*limits(ends, LOWEST_GAP))
    ax.xaxis.set_major_locator(MaxNLocator(5, steps=TICK_STEPS))
    ax.set_ylim(len(panel.algorithms) - 0.5, -0.5)
    ax.set_yticks(range(len(names)), names)
    for tick, algorithm in zip(ax.get_yticklabels(), panel.algorithms, strict=True):
        tick.set_color(looks[algorithm][0])
        tick.set_fontweight("bold")
    ax.grid(axis="x", color=PALE, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.tick_params(length=0)
    ax.spines["left"].set_visible(False)
    ax.set_title("gap closed (IQM)", fontweight="bold")
    ax.set_xlabel("0 = imitation, 1 = optimal")


def _wins(ax: Axes, panel: RankingPanel, names: Sequence[str], *, digits: int | None) -> None:
    """The probability that the row beats the column."""
    for i, one in enumerate(panel.algorithms):
        for j, other in enumerate(panel.algorithms):
            if one != other:
                _win(ax, j, i, panel.wins[one, other], digits)
    n = len(panel.algorithms)
    ax.set_xlim(-0.5, n - 0.5)
    ax.set_ylim(n - 0.5, -0.5)
    ax.set_xticks(range(n), names)
    ax.set_yticks(range(n), names)
    _bare(ax)
    # Without numbers the colors have to be told.
    ax.set_title("P(row beats column)" if digits is not None else "blue: row beats column", fontweight="bold")


def _win(ax: Axes, x: float, y: float, found: Estimate, digits: int | None) -> None:
    """One cell; bold where the interval excludes one half, without a number where there is no room."""
    color = shade(found.value - 0.5, 0.5)
    ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=color, edgecolor="white", linewidth=1.2))
    if digits is None:
        return
    clear = found.low is not None and found.high is not None and not found.low <= 0.5 <= found.high
    weight = "bold" if clear else "normal"
    text = f"{found.value:.{digits}f}"
    ax.text(x, y, text, color=ink_on(color), fontweight=weight, fontsize=8, ha="center", va="center")
