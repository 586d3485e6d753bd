"""Matrix products in blocks of one size, one thread a block, blocks in parallel.

The last bits of a matrix product depend on the number of rows and of threads. With blocks of fixed
size (the last one padded) and one thread each, a row's result is the same whatever the batch around
it and however many workers share the work. 256 rows run at 95% of the rate of 2048 on one core.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np
import torch

from smeoffline.sme.arrays import Floats
from smeoffline.sme.cores import default_workers

T = TypeVar("T")

BLOCK_ROWS = 256
# Below this a padded block costs more than it is worth: single steps of an environment run unpadded.
SMALL_BATCH = 32
TASKS_A_WORKER = 4  # so that none waits long for the last one


def _pin_thread() -> None:
    """Make torch use one thread in the calling worker thread, whatever the process uses elsewhere.

    The first call makes torch initialize this thread's count; only then does setting it last.
    """
    torch.get_num_threads()
    torch.set_num_threads(1)


@contextlib.contextmanager
def worker_pool(workers: int | None = None) -> Iterator[ThreadPoolExecutor]:
    """Threads in each of which torch runs single-threaded; the caller's own setting is untouched.

    Args:
        workers: How many, 1 or more; None for `default_workers`.
    """
    before = torch.get_num_threads()
    size = default_workers() if workers is None else workers
    with ThreadPoolExecutor(size, "sme-block", initializer=_pin_thread) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=True, cancel_futures=True)  # Ctrl-C must not wait for queued blocks
            raise
        finally:
            torch.set_num_threads(before)  # setting it in a worker also sets what new threads start from


@cache
def _shared_pool(process: int) -> ThreadPoolExecutor:
    """One pool a process (a forked child inherits the executor but not its threads)."""
    del process
    before = torch.get_num_threads()
    workers = default_workers()
    pool = ThreadPoolExecutor(workers, "sme-block", initializer=_pin_thread)
    # Every thread starts now: one that started later would set what new threads start from to 1 again.
    all_started = threading.Barrier(workers)
    list(pool.map(lambda _: all_started.wait(60), range(workers)))
    torch.set_num_threads(before)
    return pool


def single_threaded(function: Callable[[], T]) -> T:
    """Run `function` where torch uses one thread, so that its bits don't depend on the machine's load."""
    return _shared_pool(os.getpid()).submit(function).result()


def map_rows(function: Callable[[torch.Tensor], torch.Tensor], rows: Floats) -> Floats:
    """Apply a row-wise function (n, d) -> (n, m) in padded blocks, in parallel.

    Args:
        function: Maps a float32 tensor of exactly `BLOCK_ROWS` rows (or a small batch) to one of as many.
        rows: (B, d) float32.

    Returns:
        (B, m) float32.
    """
    n = len(rows)
    rows = np.require(rows, requirements="W")  # copies a read-only array, about which torch warns
    if n <= SMALL_BATCH:

        def small() -> Floats:
            return np.array(function(torch.from_numpy(rows)).numpy())

        # Several threads would change the last bits, take longer, and hang in a forked child (OpenMP).
        return small() if torch.get_num_threads() == 1 else single_threaded(small)

    def block(start: int) -> Floats:
        part = rows[start : start + BLOCK_ROWS]
        if len(part) < BLOCK_ROWS:
            part = np.concatenate([part, np.repeat(part[-1:], BLOCK_ROWS - len(part), axis=0)])
        return function(torch.from_numpy(np.ascontiguousarray(part))).numpy()

    starts = range(0, n, BLOCK_ROWS)
    several = -(-len(starts) // (TASKS_A_WORKER * default_workers()))  # blocks a task: handing out costs 50 us
    tasks = [starts[i : i + several] for i in range(0, len(starts), several)]
    done = itertools.chain.from_iterable(
        _shared_pool(os.getpid()).map(lambda task: [block(start) for start in task], tasks)
    )
    return np.concatenate(list(done))[:n]
