"""A progress bar with rate and time left on stderr, where stderr is a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from smeoffline_cli.edge import interruption


class Report(Protocol):
    """Shows progress."""

    def __call__(self, done: int, total: int, note: str = "", /) -> None:
        """Show `done` of `total`, and a note behind them."""


@contextmanager
def progress_bar(label: str, unit: str) -> Iterator[Report]:
    """A callback that shows `done` of `total`.

    Args:
        label: What is going on, e.g. `"generating"`.
        unit: What is counted, in the plural, e.g. `"transitions"`.

    Yields:
        `report(done, total, note)`, to be called from the main thread. On a terminal or not, it also raises
        a KeyboardInterrupt that was swallowed elsewhere.
    """
    if not sys.stderr.isatty():
        yield _check_only
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
