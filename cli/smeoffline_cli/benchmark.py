"""`sme-offline benchmark`: run a suite's cells in parallel; called again, it goes on."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption, resumable
from smeoffline_cli.output import emit_fields, emit_json

if TYPE_CHECKING:
    from smeoffline.bench.status import Status


# How the library's messages about an option begin.
FLAGS = {"suite: seeds": "--seeds", "suite: steps": "--steps", "benchmark: workers": "--workers"}
KEPT = "stopped before the end; finished cells and last checkpoints are kept: run the same command again to go on"


@click.command("benchmark")
@click.argument("suite", type=paths.SUITE, shell_complete=complete.suites)
@click.option("--out", required=True, type=paths.Folder(), metavar="DIR", help="Folder for the results, data and runs.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Seeds, instead of the suite's.")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Training steps, instead of the suite's.")
@options.workers_option
@click.option("--dask", metavar="ADDRESS", help="Run the cells on a Dask cluster: tcp://HOST:8786.")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    suite: str,
    out: str,
    seeds: int | None,
    steps: int | None,
    workers: int | None,
    dask: str | None,
    as_json: bool,
) -> None:
    """Train and evaluate every cell of a suite.

    SUITE is a file, or the name of a shipped suite, such as table1, gain, size or smoke. A cell is one
    algorithm on one dataset with one seed; its result is a line in DIR/results.jsonl.

    A suite's file is TOML: seeds, steps, tables [[datasets]] (recipe, or task, behavior and dataset, in which a list
    is an axis of a grid) and tables [[algorithms]] (name, variant, settings, steps). docs/reference/formats.md has an
    example.

    Stopped and called again, the command goes on: no finished cell is repeated, one that was under way goes
    on from its checkpoint, and one that failed is tried again.
    """
    if dask is not None and workers is not None:
        raise click.UsageError(
            "--dask and --workers: the cluster decides how many cells run at once; leave one out", ctx
        )

    with interruption.at_once():
        from smeoffline.bench.run import run_suite  # torch and joblib: not before the options are right
        from smeoffline.bench.suite import Suite

        spec = Suite.load(suite)

    with options.refusals(ctx, FLAGS), resumable(KEPT), _progress() as progress:
        made = run_suite(spec, out, seeds=seeds, steps=steps, workers=workers, dask=dask, progress=progress)
    if as_json:
        emit_json(made.to_dict())
    else:
        fields = {"cells": made.cells, "done": made.done, "failed": made.failed, "results": made.results}
        emit_fields(suite, fields)
    if made.failed:
        cell, reason = next(iter(made.reasons.items()))
        raise click.ClickException(
            f"{made.failed} of {made.cells} cells failed, the first {cell}: {reason}; run the command again to retry"
        )
    if not as_json:
        click.echo(f"\nnext: sme-offline report {shlex.quote(out)}")


@contextmanager
def _progress() -> Iterator[Callable[[Status], None]]:
    """A callback that shows cells done, running and failed, and the time left.

    On a terminal a bar, and a line for each failure above it; in a pipe a line for each cell, which the log
    of a long run should have.
    """
    if not sys.stderr.isatty():
        yield _log
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.text import Text

    class TimeLeft(ProgressColumn):
        """Counts down between two cells."""

        def render(self, task: Task) -> Text:
            until = task.fields["until"]
            return Text(f"{duration(until - time.monotonic())} left" if until is not None else "")

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[told]}"), TimeLeft())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown = bar.add_task("cells", total=None, told="starting", until=None)

        def report(status: Status) -> None:
            interruption.check()
            last, left = status.last, status.seconds_left
            if last is not None and not last.done:
                bar.console.print(f"failed: {last.cell}: {last.reason}", markup=False, highlight=False)
            bar.update(
                shown,
                completed=status.done,
                total=status.cells,
                told=counts(status),
                until=None if left is None else time.monotonic() + left,
            )

        yield report


def _log(status: Status) -> None:
    """Print a line for a cell that ended."""
    interruption.check()
    last, left = status.last, status.seconds_left
    told = counts(status)
    if left is not None:
        told += f", {duration(left)} left"
    if last is not None:
        result = f"score {last.metric('score_wd'):.4f}" if last.done else f"failed: {last.reason}"
        told += f"; {last.cell}: {result}"
    click.echo(told, err=True)


def counts(status: Status) -> str:
    """`12/120 done, 2 running, 1 failed`."""
    failed = f", {status.failed} failed" if status.failed else ""
    return f"{status.done}/{status.cells} done, {status.running} running{failed}"


def duration(seconds: float) -> str:
    """A length of time as a person says it: `2 h 05 min`, `3 min`, `40 s`."""
    whole = max(0, round(seconds))
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 60} min" if whole >= 60 else f"{whole} s"
