"""A progress bar with rate and time left on stderr, where stderr is a terminal.

In a pipe there is nothing, or a line now and then where a command that says nothing for minutes asks for it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

import click

from smeoffline_cli.edge import interruption

LINE_SECONDS = 10.0  # between two lines in a pipe


class Report(Protocol):
    """Shows progress."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None:
        """Show `done` of `total`, and a note behind them."""


@contextmanager
def progress_bar(label: str, unit: str, *, lines: bool = False) -> Iterator[Report]:
    """A callback that shows `done` of `total`.

    Args:
        label: What is going on, e.g. `"generating"`.
        unit: What is counted, in the plural, e.g. `"transitions"`.
        lines: Whether a pipe gets a line every `LINE_SECONDS`, the first after as many: a quick command stays silent.

    Yields:
        `report(done, total, note)`, to be called from the main thread. On a terminal or not, it also raises
        a KeyboardInterrupt that was swallowed elsewhere.
    """
    if not sys.stderr.isatty():
        yield _lines(label, unit) if lines else _check_only
        return

    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f}/{task.total:,.0f} " + unit),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
        TextColumn("{task.fields[note]}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        shown: list[TaskID] = []  # the total is known at the first call

        def report(done: int, total: int, note: str = "", /) -> None:
            interruption.check()
            if not shown:
                shown.append(bar.add_task(label, total=total, rate="", note=""))
            bar.update(shown[0], completed=done, total=total, note=note)
            speed = bar.tasks[0].speed
            if speed is not None:
                bar.update(shown[0], rate=f"{speed:,.0f}/s")

        yield report


def _check_only(done: int, total: int, note: str = "", /) -> None:
    """Show nothing."""
    del done, total, note
    interruption.check()


def _lines(label: str, unit: str) -> Report:
    """Show a line now and then."""
    last = time.monotonic()

    def report(done: int, total: int, note: str = "", /) -> None:
        nonlocal last
        interruption.check()
        now = time.monotonic()
        if now - last >= LINE_SECONDS:
            last = now
            click.echo(f"{label}: {done:,}/{total:,} {unit}" + (f", {note}" if note else ""), err=True)

    return report
