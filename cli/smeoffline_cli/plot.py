"""`sme-offline plot`: pictures of a task, of behaviors, of a dataset or of a run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_fields, emit_json

if TYPE_CHECKING:
    from smeoffline.bench.pictures.canvas import Picture

ENDINGS = (".svg", ".png")  # as the library has them; a test compares the two


@click.group("plot")
def command() -> None:
    """Draw a task, behaviors, a dataset or a run.

    Everything is computed from the real thing; the same input gives the same bytes.
    """


def _output(function: options.Decorated) -> options.Decorated:
    """`-o` and `--json`."""
    text = "The picture, .svg or .png.  [default: an SVG in the current folder]"
    path = click.option("-o", "--out", "target", metavar="FILE", type=paths.NewFile(Path, ENDINGS), help=text)
    return path(options.json_option(function))


@command.command("task")
@click.option(
    "--state-dim", type=int, multiple=True, metavar="N", help="Compare these; repeatable.  [default: 2, 8, 32]"
)
@click.option("--action-dim", type=int, default=4, show_default=True, metavar="N", help="Action channels, N_a.")
@click.option(
    "--complexity", type=int, multiple=True, metavar="C", help="Compare these; repeatable.  [default: 1, 2, 5, 10, 50]"
)
@click.option("--task-seed", type=int, default=1, show_default=True, help="Draws the optimal policy.")
@_output
@click.pass_context
def task(
    ctx: click.Context,
    state_dim: tuple[int, ...],
    action_dim: int,
    complexity: tuple[int, ...],
    task_seed: int,
    target: Path | None,
    as_json: bool,
) -> None:
    """What complexity does to the optimal policy.

    Above: its first action over a square of two state channels, folded by C layers. Below: how its actions are
    distributed over uniform states, by the number of state channels.
    """

    def draw() -> Picture:
        from smeoffline.bench.pictures.task import COMPLEXITIES, STATE_DIMS, task_picture

        with options.refusals(ctx):
            return task_picture(
                complexity if complexity else COMPLEXITIES,
                state_dim if state_dim else STATE_DIMS,
                action_dim=action_dim,
                seed=task_seed,
            )

    _emit(draw, target, as_json=as_json)


@command.command("behaviors")
@options.field_options("task", names=("state_dim", "action_dim", "complexity", "seed"))
@click.option("--nu", type=float, default=0.3, show_default=True, help="Systematic error of the bases that have one.")
@click.option("--sigma", type=float, default=0.3, show_default=True, help="Size of every exploration.")
@click.option("--policy", type=paths.POLICY, metavar="FILE", help="An ONNX file, to draw base policy too.")
@_output
@click.pass_context
def behaviors(
    ctx: click.Context, /, nu: float, sigma: float, policy: str | None, target: Path | None, as_json: bool, **_: Any
) -> None:
    """Every base with every exploration, around the optimum.

    Squares show the actions that are taken by the optimal action; strips show the error of the first channel at
    one step after the other.
    """

    def draw() -> Picture:
        from smeoffline.bench.pictures.behaviors import behaviors_picture
        from smeoffline.sme.task import Task

        with options.refusals(ctx):
            made = Task(**options.typed_fields(ctx, "task"))
            return behaviors_picture(made, nu=nu, sigma=sigma, policy=policy)

    _emit(draw, target, as_json=as_json)


@command.command("dataset")
@options.dataset_argument
@_output
def dataset(dataset: str, target: Path | None, as_json: bool) -> None:
    """Visited states, actions beside the optimum, and scores.

    DATASET is an id or a folder. With two state channels, states are drawn in the color of the action taken on
    the color of the optimal one.
    """

    def draw() -> Picture:
        from smeoffline.bench.pictures.dataset import dataset_picture

        return dataset_picture(dataset)

    _emit(draw, target, as_json=as_json)


@command.command("run")
@click.argument("run", type=paths.RUN, shell_complete=complete.runs)
@_output
def run(run: str, target: Path | None, as_json: bool) -> None:
    """Learning curves, and scores once it is evaluated.

    RUN is the folder of a run, or one with a single run in it, as a benchmark makes for each cell; it may be training
    still. Your own algorithm has scores alone.
    """

    def draw() -> Picture:
        from smeoffline.bench.pictures.run import run_picture

        return run_picture(run)

    _emit(draw, target, as_json=as_json)


def _emit(draw: Callable[[], Picture], target: Path | None, *, as_json: bool) -> None:
    """Draw, write and print what was written and what it shows."""
    with interruption.at_once():  # nothing is written yet
        picture = draw()
    path = picture.save(target)
    if as_json:
        emit_json({"files": [path], "shows": picture.alt})
    else:
        emit_fields(str(path), {"shows": picture.alt})
