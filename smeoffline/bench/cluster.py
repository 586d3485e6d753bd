"""Cells on a Dask cluster: `dask scheduler` and `dask worker` started by whoever owns the machines.

Workers need the same smeoffline and see the benchmark's folder under the same path. Each worker process runs
one cell at a time, so many processes with one thread each are best: `dask worker --nworkers 16 --nthreads 1`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import secrets
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from smeoffline import __version__
from smeoffline.bench.lines import CellResult
from smeoffline.bench.worker import CellCancelled, Job, failure, run_cell
from smeoffline.errors import BenchmarkError

if TYPE_CHECKING:
    from distributed import Client

CONNECT_SECONDS = 10
TOKEN = ".dask-token"  # noqa: S105 - names a file


@contextlib.contextmanager
def connected(address: str) -> Iterator[Client]:
    """A client of a cluster.

    Args:
        address: The scheduler's, as `tcp://10.0.0.1:8786`.

    Raises:
        BenchmarkError: Dask is not installed, or nobody answers.
    """
    if importlib.util.find_spec("distributed") is None:
        raise BenchmarkError("dask: not installed; pip install 'smeoffline[dask]'")
    from distributed import Client

    with _quiet("distributed", "tornado"):
        try:
            client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
        except (OSError, ValueError) as fault:
            reason = " ".join(str(fault).split())
            raise BenchmarkError(
                f"dask: expected a scheduler at {address!r} (as tcp://HOST:8786), got none ({reason}); is it running?"
            ) from None
        try:
            yield client
        finally:
            client.close(timeout=CONNECT_SECONDS)


def check_workers(client: Client, out: Path) -> None:
    """Refuse a cluster that can't do the work, before any work.

    Args:
        client: Of the cluster.
        out: The benchmark's folder, absolute; it exists.

    Raises:
        BenchmarkError: There are no workers, or one has another version or doesn't see the folder.
    """
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)  # they may be starting just now
    except TimeoutError:
        raise BenchmarkError("dask: the scheduler has no workers; start some with: dask worker ADDRESS") from None
    token = secrets.token_hex(8)
    path = out / TOKEN
    path.write_text(token, encoding="ascii")
    try:
        answers = client.run(_answer, path, on_error="return")
    finally:
        path.unlink(missing_ok=True)
    for worker, answer in answers.items():
        if not isinstance(answer, tuple):
            reason = " ".join(str(answer).split())
            raise BenchmarkError(f"dask: worker {worker} can't run smeoffline: {reason}; install it there")
        version, seen = answer
        if version != __version__:
            raise BenchmarkError(f"dask: expected smeoffline {__version__} on worker {worker}, got {version}")
        if seen != token:
            raise BenchmarkError(f"dask: worker {worker} doesn't see {out}; choose an --out on a shared file system")


def run_on_cluster(
    jobs: Sequence[Job], client: Client, work: Callable[[Job], CellResult | None] | None = None
) -> Generator[CellResult, None, None]:
    """Run cells on a cluster; closing the generator cancels them, also those that are under way.

    Dask runs the cell of a dead worker on another one, which goes on from the cell's checkpoint.

    Args:
        jobs: In the order in which to begin them.
        client: Of the cluster.
        work: Runs a cell; None for `run_task`.

    Yields:
        Results, in the order in which cells end.

    Raises:
        BenchmarkError: The scheduler is gone.
    """
    from distributed import as_completed

    futures = client.map(work if work is not None else run_task, jobs, pure=False, retries=0)
    jobs_of = dict(zip((future.key for future in futures), jobs, strict=True))
    try:
        for future in as_completed(futures, loop=client.loop, raise_errors=False):
            result = future.result() if future.status == "finished" else None
            if result is None and future.status != "error":
                raise BenchmarkError(
                    "dask: lost the scheduler, or it was told to forget our cells; finished cells are kept, "
                    "run the command again"
                )
            yield result if result is not None else _failure(jobs_of[future.key], future.exception())
            future.release()
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone, and then there is nothing to cancel
            client.cancel(futures, force=True)


def run_task(job: Job) -> CellResult | None:
    """`run_cell` as a Dask task: None if the client cancelled it or is gone, and nobody wants a result."""
    try:
        return run_cell(job, _cancelled)
    except CellCancelled:
        return None


def _cancelled() -> bool:
    """Whether the task that this thread runs is no longer wanted.

    Dask can't break a running task off. But its worker knows, and a cell asks it a few times a second.
    """
    from distributed import get_worker
    from distributed.worker import thread_state

    task = get_worker().state.tasks.get(thread_state.key)
    return task is None or task.state == "cancelled"


def _failure(job: Job, error: BaseException | None) -> CellResult:
    """A cell that Dask gave up on, for the workers that ran it died, or that could not reach a worker."""
    from distributed import KilledWorker

    reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if isinstance(error, KilledWorker):
        reason = "the Dask workers that ran it died (killed, or out of memory)"
    return failure(job.cell, f"dask: {reason}", 0.0)


def _answer(path: Path) -> tuple[str, str | None]:
    """What a worker knows: its version of smeoffline, and the token in the benchmark's folder."""
    try:
        return __version__, path.read_text(encoding="ascii")
    except OSError:
        return __version__, None


@contextlib.contextmanager
def _quiet(*packages: str) -> Iterator[None]:
    """Keep what packages log about lost connections off the screen: we say it in one line."""
    known = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in packages]
    loggers = [logging.getLogger(name) for name in {*packages, *known}]  # Dask gives some a level of their own
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
