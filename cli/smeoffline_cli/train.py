"""`sme-offline train`: one algorithm on one dataset, with exact resume."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption, resumable
from smeoffline_cli.output import emit_fields, emit_json, emit_note
from smeoffline_cli.progress import progress_bar

if TYPE_CHECKING:
    from smeoffline.train.job import TrainedRun


ALGORITHMS = (
    "bc", "iql", "awac", "bcq", "bear", "calql", "cql", "crr",
    "ddpg", "plas", "prdc", "rebrac", "sac", "td3", "td3plusbc",
)  # fmt: skip
# How the library's messages about an option begin.
FLAGS = {"algorithm": "--algo", "train: seed": "--seed", "train: steps": "--steps", "setting": "--set"}
KEPT = "stopped before the end; a run that had begun keeps its last checkpoint: run the same command with --resume"


@click.command("train")
@options.dataset_argument
@click.option(
    "--algo",
    required=True,
    metavar="NAME",
    shell_complete=complete.algorithms,
    help=f"{', '.join(ALGORITHMS)} (of d3rlpy), or your own as module:function.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws weights and batches.")
@click.option("--steps", type=int, default=10_000, show_default=True, help="Updates in all, also when resuming.")
@click.option(
    "--set", "pairs", multiple=True, metavar="NAME=VALUE", help="A hyperparameter, e.g. batch_size=512; repeatable."
)
@click.option("--out", type=paths.Folder(Path), default=Path("runs"), show_default=True, help="Parent of runs.")
@click.option("--resume", is_flag=True, help="Go on from the last checkpoint, extend a finished run, or begin one.")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    dataset: str,
    algo: str,
    seed: int,
    steps: int,
    pairs: tuple[str, ...],
    out: Path,
    resume: bool,
    as_json: bool,
) -> None:
    """Train an algorithm on a dataset, with exact resume.

    DATASET is an id or a folder; any Minari dataset with vector observations and bounded continuous actions
    trains, those made by `sme-offline generate` can be scored exactly afterwards. The run's folder,
    OUT/<dataset>--<algo>-s<seed>, holds run.json, metrics.jsonl (readable while it trains), the policy as ONNX
    and the last checkpoint. The same seed gives the same weights, in one sitting or in several.
    """
    with interruption.at_once():  # nothing is written yet
        from smeoffline.train import shipped_run  # noqa: F401 - torch, while an interruption can't abort it
        from smeoffline.train.algorithms import parse_settings
        from smeoffline.train.run import train

        with options.refusals(ctx, FLAGS):
            settings = parse_settings(pairs) if pairs or not resume else None
    with options.refusals(ctx, FLAGS), resumable(KEPT), _bar() as progress:
        made = train(
            dataset,
            algo=algo,
            seed=seed,
            steps=steps,
            settings=settings,
            out=out,
            resume=resume,
            progress=progress,
            tell=emit_note,
        )
    if as_json:
        emit_json(made.to_dict())
    else:
        _show(made)


@contextmanager
def _bar() -> Iterator[Callable[[int, int, Mapping[str, float]], None]]:
    """A progress bar of steps that also tells the current losses."""
    with progress_bar("training", "steps") as report:

        def progress(step: int, steps: int, losses: Mapping[str, float]) -> None:
            report(step, steps, "  ".join(f"{name} {value:.4g}" for name, value in losses.items()))

        yield progress


def _show(made: TrainedRun) -> None:
    """Print what was trained, and the command that comes next."""
    fields: dict[str, Any] = {"steps": made.steps, "seconds": f"{made.seconds:.1f}", "policy": made.policy}
    emit_fields(str(made.run), fields)
    for note in made.notes:
        click.echo(f"note: {note}")
    if made.policy is not None:
        click.echo(f"\nnext: sme-offline evaluate {shlex.quote(str(made.run))}")
