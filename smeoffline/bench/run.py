"""Run a suite: the cells that have no result yet, in parallel, each result on disk before the next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.bench.journal import Journal, open_journal
from smeoffline.bench.lines import CellResult
from smeoffline.bench.local import run_local
from smeoffline.bench.status import Progress, Tracker
from smeoffline.bench.suite import Suite
from smeoffline.bench.worker import Job, discard_checkpoint
from smeoffline.errors import BenchmarkError, SmeofflineError, SpecError
from smeoffline.sme.cores import default_workers
from smeoffline.sme.task import whole_number

MAX_WORKERS = 4096

Execute = Callable[[Sequence[Job]], Generator[CellResult, None, None]]


@dataclass(frozen=True)
class BenchmarkSummary:
    """Where a benchmark stands after a call.

    Attributes:
        cells: Of the suite.
        done: Cells with a result, of earlier calls too.
        failed: Cells that failed in this call; the next one tries them again.
        results: The file with a line for each.
        reasons: Why the failed ones failed, by cell.
    """

    cells: int
    done: int
    failed: int
    results: Path
    reasons: dict[str, str]

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {
            "cells": self.cells,
            "done": self.done,
            "failed": self.failed,
            "results": str(self.results),
            "reasons": dict(self.reasons),
        }


def run_suite(
    suite: Suite | str | Path,
    out: str | Path,
    *,
    seeds: int | None = None,
    steps: int | None = None,
    workers: int | None = None,
    dask: str | None = None,
    progress: Progress | None = None,
) -> BenchmarkSummary:
    """Run the cells of a suite that have no result in a folder yet.

    Killed at any time and called again, it goes on: cells with a result are never repeated, those that were
    under way go on from their checkpoint, those that failed are tried again.

    Args:
        suite: A suite, its file, or the name of a shipped one.
        out: The benchmark's folder: `results.jsonl`, and below it datasets and runs.
        seeds: Instead of the suite's.
        steps: Instead of the suite's and its algorithms'. Other steps are other cells: results of both stay.
        workers: Processes, in [1, 4096]; None for one a core this process may use, at most OMP_NUM_THREADS. No
            result depends on it.
        dask: A Dask scheduler's address, as `tcp://10.0.0.1:8786`, instead of processes here.
        progress: Called in this thread at the beginning and after every cell.

    Returns:
        How many cells are done and failed.

    Raises:
        SpecError: The suite has a fault, or a value is out of range.
        BenchmarkError: The folder is in use, holds another suite's results or damaged ones, or the Dask
            cluster can't be used.
        VersionError: The folder's results are of a newer schema.
    """
    suite = suite if isinstance(suite, Suite) else Suite.load(suite)
    suite = suite.with_size(seeds=seeds, steps=steps)
    if workers is not None:
        workers = whole_number("benchmark", "workers", workers, 1, MAX_WORKERS)
        if dask is not None:
            raise SpecError("benchmark: a Dask cluster decides how many cells run at once; leave workers out")
    check_algorithms(suite)
    out = Path(out).absolute()  # worker processes may have another current folder
    if dask is None:
        count = workers if workers is not None else default_workers()
        with open_journal(out) as journal:
            return _run(suite, journal, progress, lambda: count, lambda jobs: run_local(jobs, count))

    from smeoffline.bench.cluster import check_workers, connected, run_on_cluster

    with connected(dask) as client, open_journal(out) as journal:
        check_workers(client, out)
        return _run(
            suite,
            journal,
            progress,
            lambda: len(client.nthreads()),
            lambda jobs: run_on_cluster(jobs, client),
        )


def check_algorithms(suite: Suite) -> None:
    """Refuse a setting that an algorithm doesn't have, or an own algorithm that can't be imported.

    Raises:
        SpecError: Names the algorithm.
    """
    from smeoffline.train.algorithms import find_algorithm, resolve_settings
    from smeoffline.train.own import find_train

    for entry in suite.algorithms:
        try:
            if ":" in entry.name:
                find_train(entry.name)
                if entry.settings:
                    raise SpecError(f"setting: your own algorithm takes none, got {', '.join(entry.settings)}")
            elif entry.settings:
                from smeoffline.train.trainer import setting_defaults  # imports d3rlpy

                algorithm = find_algorithm(entry.name)
                resolve_settings(algorithm, entry.settings, setting_defaults(algorithm))
        except SmeofflineError as fault:
            raise SpecError(f"suite {suite.name!r}: algorithm {entry.name!r}: {fault}") from None


def check_same_suite(suite: Suite, journal: Journal) -> None:
    """Refuse to mix two suites in one folder: a report on it would be of neither.

    Raises:
        BenchmarkError: The folder holds another suite's results.
    """
    others = {result.suite for result in journal.results.cells} - {suite.name}
    if others:
        raise BenchmarkError(
            f"benchmark: {journal.path} holds results of suite {min(others)!r}, expected {suite.name!r}; "
            "choose another --out"
        )


def _run(
    suite: Suite, journal: Journal, progress: Progress | None, capacity: Callable[[], int], execute: Execute
) -> BenchmarkSummary:
    """Run what is open, and record each result as it comes."""
    check_same_suite(suite, journal)
    out, cells = journal.path.parent, suite.cells()
    finished = {result.cell for result in journal.results.done}
    failed_before = {result.cell for result in journal.results.failed}
    jobs = [Job(cell, out, cell.key in failed_before) for cell in cells if cell.key not in finished]
    done, reasons = len(cells) - len(jobs), dict[str, str]()
    tracker = Tracker(cells, finished, capacity, progress)
    tracker.begin()
    with contextlib.closing(execute(jobs)) as results:
        for result in results:
            journal.append(result)
            if result.done:
                done += 1
                discard_checkpoint(out, result.cell)
            else:
                reasons[result.cell] = str(result.reason)
            tracker.end(result)
    return BenchmarkSummary(len(cells), done, len(reasons), journal.path, reasons)
