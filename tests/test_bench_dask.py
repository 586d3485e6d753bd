"""Suites on a real Dask cluster of two worker processes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from pathlib import Path

import bench_algorithm
import pytest
from bench_tiny import names, suite, toml, wait_for

from smeoffline.bench import worker
from smeoffline.bench.results import FILE_NAME, read_results
from smeoffline.bench.run import run_suite
from smeoffline.bench.suite import Suite
from smeoffline.errors import BenchmarkError

distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")
# Of sockets whose other end was killed.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")


@contextlib.contextmanager
def local_cluster(workers):
    """A scheduler here and worker processes beside it, which are started anew when they die."""
    with distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50
    ) as made:
        yield made


@pytest.fixture(name="log", scope="module")
def _log(tmp_path_factory):
    """Where the test algorithm logs; set before the cluster's processes start, which inherit it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(bench_algorithm.SECONDS, "0.5")
        yield bench_algorithm.prepare(tmp_path_factory.mktemp("told"), patch)


@pytest.fixture(name="two_workers", scope="module")
def _two_workers(log):  # noqa: ARG001 - it sets what the workers inherit
    """Two workers for all tests."""
    import dask

    # a task that killed two workers is given up, for the sake of this file's run time
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), local_cluster(2) as made:
        yield made


@pytest.fixture(name="cluster")
def _cluster(two_workers):
    """The two workers, both up again after what the test before did to them."""
    with distributed.Client(two_workers, set_as_default=False) as client:
        client.wait_for_workers(2, timeout=60)
    return two_workers


def test_a_killed_worker_costs_no_cell(tmp_path, log, cluster):
    """Of two workers one is killed in the middle of a cell: still every cell has exactly one line."""
    killed = []

    def kill():
        wait_for(lambda: len(bench_algorithm.called(log)) >= 3)
        victim = int((log / "log").read_text().splitlines()[-1].split()[2])
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    summary = run_suite(suite(sizes=(1, 2, 3)), tmp_path / "out", dask=cluster.scheduler_address)
    killer.join()
    assert len(killed) == 1
    assert (summary.cells, summary.done, summary.failed) == (6, 6, 0)
    assert len((tmp_path / "out" / FILE_NAME).read_text().splitlines()) == 6
    assert names(read_results(tmp_path / "out").done) == ["1-0", "1-1", "2-0", "2-1", "3-0", "3-1"]
    assert len({line.split()[2] for line in (log / "log").read_text().splitlines()}) >= 2


def test_a_failed_cell_is_recorded_and_tried_again(tmp_path, log, cluster):
    """On a cluster as here: a failure has its reason, and the next call runs that cell alone."""
    (log / "fail-4-0").touch()
    first = run_suite(suite(sizes=(4, 5), seeds=1), tmp_path / "out", dask=cluster.scheduler_address)
    assert (first.done, first.failed) == (1, 1)
    assert "told to fail" in next(iter(first.reasons.values()))
    (log / "fail-4-0").unlink()
    begun = len(bench_algorithm.called(log))
    second = run_suite(suite(sizes=(4, 5), seeds=1), tmp_path / "out", dask=cluster.scheduler_address)
    assert (second.done, second.failed) == (2, 0)
    assert bench_algorithm.called(log)[begun:] == ["4-0"]


def test_a_cell_that_kills_every_worker_is_given_up(tmp_path, log, cluster):
    """Dask gives such a task up after some workers; the cell has failed, and its neighbor is done."""
    (log / "die-6-0").touch()
    made = run_suite(suite(sizes=(6, 7), seeds=1), tmp_path / "out", dask=cluster.scheduler_address)
    assert (made.done, made.failed) == (1, 1)
    assert "the Dask workers that ran it died" in next(iter(made.reasons.values()))


def test_an_interrupted_benchmark_stops_its_cells_on_the_cluster(tmp_path, cluster):
    """After Ctrl-C here a cell that trains over there stops within seconds, and lets go of its lock."""
    text = toml(sizes=(8,), seeds=1) + '[[algorithms]]\nname = "bc"\nsteps = 10_000_000\n'
    runs = tmp_path / "out" / worker.RUNS

    def interrupt(status):
        if status.last is not None:
            wait_for(lambda: list(runs.glob("*--bc--*/*/metrics.jsonl")))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_suite(
            Suite.from_toml(text, name="tiny"),
            tmp_path / "out",
            dask=cluster.scheduler_address,
            progress=interrupt,
        )
    (record,) = runs.glob("*--bc--*/*/run.json")
    wait_for(lambda: json.loads(record.read_text())["status"] == "interrupted", seconds=20)
    with worker.locked(tmp_path / "out", record.parent.parent.name):
        assert names(read_results(tmp_path / "out").cells) == ["8-0"]


def test_a_lost_scheduler_is_one_line_and_keeps_what_is_done(tmp_path, log):
    """When the scheduler goes away in the middle, the run ends with an error, and the next one goes on."""
    del log
    with local_cluster(1) as made:

        def close(status):
            if status.last is not None:
                made.close()

        with pytest.raises(BenchmarkError, match="lost the scheduler"):
            run_suite(suite(sizes=(9,), seeds=3), tmp_path / "out", dask=made.scheduler_address, progress=close)
    assert names(read_results(tmp_path / "out").done) == ["9-0"]
    assert run_suite(suite(sizes=(9,), seeds=3), tmp_path / "out", workers=1).done == 3


def test_a_cluster_without_workers_is_refused(tmp_path, monkeypatch):
    """A scheduler with nobody behind it would wait forever: that is said, with what to do."""
    monkeypatch.setattr("smeoffline.bench.cluster.CONNECT_SECONDS", 1)
    with (
        local_cluster(0) as empty,
        pytest.raises(BenchmarkError, match=r"no workers; start some with: dask worker"),
    ):
        run_suite(suite(), tmp_path / "out", dask=empty.scheduler_address)


def test_a_worker_that_does_not_see_the_folder_is_refused(tmp_path, cluster, monkeypatch):
    """A worker on a machine without the shared folder is named before any work."""
    monkeypatch.setattr(Path, "write_text", lambda *_, **__: None)  # as if what is written here stayed here
    with pytest.raises(BenchmarkError, match=r"worker tcp://.* doesn't see .*shared file system"):
        run_suite(suite(), tmp_path / "out", dask=cluster.scheduler_address)
