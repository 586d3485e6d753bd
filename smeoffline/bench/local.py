"""Cells on this machine: joblib's worker processes, each with one thread for numbers."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

from smeoffline.bench.lines import CellResult
from smeoffline.bench.worker import Job, failure, run_cell

Work = Callable[[Job], CellResult]

MAX_DEATHS = 2  # of worker processes, before a cell that each time was under way is run alone
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS"), "1"
)
_WATCH_SECONDS = 0.5


def run_local(jobs: Sequence[Job], workers: int, work: Work = run_cell) -> Generator[CellResult, None, None]:
    """Run cells in parallel; closing the generator ends the worker processes at once.

    A worker process that dies (out of memory, killed) takes its whole pool with it. The cells that were under
    way are tried again, after the others: they go on from their checkpoints. One that was under way
    `MAX_DEATHS` times is run alone, and if its process dies once more, the cell has failed.

    Args:
        jobs: In the order in which to begin them.
        workers: Processes; with one, cells run in this process.
        work: Runs a cell.

    Yields:
        Results, in the order in which cells end.
    """
    pending, deaths = list(jobs), Counter[str]()
    while pending:
        together = [job for job in pending if deaths[job.cell.key] < MAX_DEATHS]
        batch = together if together else pending[:1]
        begun: set[str] = set()
        ended: set[str] = set()
        try:
            with contextlib.closing(_pool(batch, begun, workers, work)) as results:
                for result in results:
                    ended.add(result.cell)
                    yield result
        except BrokenProcessPool:
            deaths.update(begun - ended)
            if not together:
                (job,) = batch
                ended.add(job.cell.key)
                yield failure(job.cell, "its process died (killed, or out of memory); try fewer workers", 0.0)
        rest = [job for job in pending if job.cell.key not in ended]
        pending = sorted(rest, key=lambda job: job.cell.key in begun)  # those under way come last


def _pool(jobs: Sequence[Job], begun: set[str], workers: int, work: Work) -> Generator[CellResult, None, None]:
    """Results of one pool of processes; `begun` is told each cell as it is handed out."""
    if workers == 1:  # in this process, which is not to ignore Ctrl-C
        for job in jobs:
            begun.add(job.cell.key)
            yield work(job)
        return
    # joblib's processes without its `Parallel`, which would keep them, and with them old code, for a next call
    from joblib.externals.loky import ProcessPoolExecutor

    count = min(workers, max(2, len(jobs)))
    pool = ProcessPoolExecutor(count, initializer=_begin_worker, initargs=(os.getpid(),), env=ONE_THREAD)
    waiting, running = iter(jobs), set[Future[CellResult]]()
    try:
        while True:
            for job in islice(waiting, count - len(running)):
                running.add(pool.submit(work, job))
                begun.add(job.cell.key)
            if not running:
                return
            ended, running = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(ended, key=lambda future: future.exception() is not None):  # a lost process last
                yield future.result()
    finally:
        pool.shutdown(wait=True, kill_workers=True)


def _begin_worker(parent: int) -> None:
    """Prepare a worker process: Ctrl-C reaches all processes, and the parent alone decides what it means."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """End this process when its parent was killed: it would train on for nobody."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os._exit(1)
