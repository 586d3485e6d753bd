from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from smeoffline.sme.blocks import (
    BLOCK_ROWS,
    SMALL_BATCH,
    default_workers,
    map_rows,
    single_threaded,
    worker_pool,
)


def seen_by_a_new_thread() -> int:
    """torch's number of threads in a thread that never called it before."""
    seen: list[int] = []
    thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return seen[0]


@pytest.mark.parametrize("n", [33, 255, 256, 257, 1000])
def test_blocks_are_of_one_size_padded_with_a_row_that_is_there(n):
    """The function sees exactly BLOCK_ROWS rows each time, on one thread, and padding leaves no trace."""
    seen: list[tuple[int, int]] = []
    rows = np.arange(n, dtype=np.float32)[:, np.newaxis] + 1

    def double(block: torch.Tensor) -> torch.Tensor:
        seen.append((len(block), torch.get_num_threads()))
        assert block.min() >= 1  # a block is padded with real rows, not with zeros
        assert block.max() <= n
        return block * 2

    np.testing.assert_array_equal(map_rows(double, rows), rows * 2)
    assert set(seen) == {(BLOCK_ROWS, 1)}
    assert len(seen) == -(-n // BLOCK_ROWS)


@pytest.mark.parametrize("n", [0, 1, SMALL_BATCH])
def test_small_batches_are_not_padded_and_run_on_one_thread(n, threads):
    """Up to SMALL_BATCH rows the function is called once, with the rows as they are, on one thread."""
    seen: list[tuple[int, int]] = []

    def double(block: torch.Tensor) -> torch.Tensor:
        seen.append((len(block), torch.get_num_threads()))
        return block * 2

    rows = np.ones((n, 2), np.float32)
    np.testing.assert_array_equal(map_rows(double, rows), rows * 2)
    assert seen == [(n, 1)]
    assert torch.get_num_threads() == threads


def test_errors_in_a_block_reach_the_caller():
    """What the function raises, in small and large batches, is raised where it was called."""

    def fail(block: torch.Tensor) -> torch.Tensor:
        raise ArithmeticError(f"{len(block)} rows")

    for n in (3, 300):
        with pytest.raises(ArithmeticError, match="rows"):
            map_rows(fail, np.zeros((n, 1), np.float32))
    with pytest.raises(ArithmeticError, match="here"):
        single_threaded(lambda: (_ for _ in ()).throw(ArithmeticError("here")))


def test_a_worker_pool_runs_single_threaded_and_restores_what_it_found(threads):
    """Workers have one torch thread; afterwards, also after an error, caller and new threads have theirs."""
    with worker_pool(2) as pool:
        assert set(pool.map(lambda _: torch.get_num_threads(), range(8))) == {1}
    assert torch.get_num_threads() == threads
    assert seen_by_a_new_thread() == threads

    def interrupted() -> None:
        with worker_pool(2) as pool:
            pool.submit(int)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert torch.get_num_threads() == threads
    assert seen_by_a_new_thread() == threads


def test_an_interrupted_worker_pool_drops_what_is_queued():
    """After an error in the caller, jobs not yet begun never run, so Ctrl-C does not wait for them."""
    release, ran = threading.Event(), []

    def interrupted() -> None:
        with worker_pool(1) as pool:
            begun = threading.Event()
            pool.submit(lambda: (begun.set(), release.wait(10)))
            for i in range(50):
                pool.submit(ran.append, i)
            begun.wait(10)
            threading.Timer(0.2, release.set).start()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert ran == []


def test_worker_counts_are_taken_as_given():
    """The default is the cores this process may use; 0 workers is an error, not the default."""
    assert default_workers() >= 1
    with worker_pool() as pool:
        assert pool._max_workers == default_workers()
    with worker_pool(1) as pool:
        assert pool._max_workers == 1
    with pytest.raises(ValueError, match="max_workers"), worker_pool(0):
        pass
