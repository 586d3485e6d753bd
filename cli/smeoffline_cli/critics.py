"""Critics beside the truth: what `evaluate --values` prints and draws."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smeoffline_cli.output import emit_table

if TYPE_CHECKING:
    from smeoffline.score.critics.records import CriticValues

PROBES = {
    "data": "states and actions of the data",
    "uniform": "uniform states, other actions",
    "policy": "uniform states, its own actions",
    "ood": "states outside the cube",
    "value": "V of uniform states",
}
COLUMNS = ("true", "estimate", "bias", "scatter", "rank_correlation", "action_rank_correlation")
OWN_COLUMNS = ("true", "standard_error", "estimate", "bias", "scatter", "noise", "rank_correlation", "noise_ceiling")
SHORT = {"rank_correlation": "ranks", "action_rank_correlation": "ranks a state", "standard_error": "+-"}


def emit_critics(values: Mapping[str, Any]) -> None:
    """Print a critic beside Q*, by action distance, and beside Q of its policy."""
    kind = "the value network" if values["baseline"] == "value_func" else "Q of the policy's action"
    several = f"the mean of {values['critics']} critics" if values["critics"] > 1 else "its critic"
    click.echo(f"Q is {several}, V {kind}, the discount {values['discount']:g}. Bias above 0 is overestimation.\n")
    headers = ["beside Q*", *_short(COLUMNS), "probes"]
    rows = [[PROBES[row["probes"]], *(row[c] for c in COLUMNS), row["n"]] for row in values["optimal"]]
    emit_table(headers, rows)
    if values["by_distance"]:
        click.echo()
        keys = ("distance", "bias", "scatter", "n")
        rows = [[row[k] for k in keys] for row in values["by_distance"]]
        emit_table(["action distance", "bias", "scatter", "probes"], rows)
    click.echo()
    rows = [[PROBES[row["probes"]], *(row[c] for c in OWN_COLUMNS), row["n"]] for row in values["own"]]
    emit_table(["beside Q of its policy", *_short(OWN_COLUMNS), "probes"], rows)


def emit_critics_beside(values: Mapping[str, Mapping[str, Any]]) -> None:
    """Print the critics of several runs in one table: bias and ranks on each kind of probes."""
    rows = []
    for name, found in values.items():
        optimal = {row["probes"]: row for row in found["optimal"]}
        own = {row["probes"]: row for row in found["own"]}
        rows.append(
            [
                name,
                *(optimal[kind]["bias"] for kind in ("data", "uniform", "policy", "ood")),
                optimal["uniform"]["action_rank_correlation"],
                own["policy"]["bias"],
            ]
        )
    emit_table(["bias of Q", "data", "uniform", "policy", "ood", "ranks a state", "policy, beside its own Q"], rows)


def draw_critics(path: Path, values: Mapping[str, CriticValues | None]) -> None:
    """Write the figure of one or several critics.

    Args:
        path: An SVG file; replaced where it exists.
        values: By name of the run.
    """
    from smeoffline.bench.drawing.critics import critics_svg  # matplotlib
    from smeoffline.train.files import write_atomically

    points = {name: found.points for name, found in values.items() if found is not None}
    short = {name.rpartition("--")[2]: shown for name, shown in points.items()}  # `iql-s0`, where that is enough
    write_atomically(path, critics_svg(short if len(short) == len(points) else points).encode())


def _short(names: tuple[str, ...]) -> list[str]:
    return [SHORT.get(name, name) for name in names]
