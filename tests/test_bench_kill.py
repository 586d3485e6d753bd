"""Benchmarks that are killed, interrupted or lose a process: no cell is lost, and none is repeated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import bench_algorithm
import numpy as np
import pytest
from bench_tiny import benchmark, done_in, names, suite, toml, wait_for, writers

from smeoffline.bench import worker
from smeoffline.bench.results import FILE_NAME, read_results
from smeoffline.bench.run import run_suite
from smeoffline.data.generate import Rollout
from smeoffline.data.recipe import Recipe

# How often to kill: the long variant kills ten times (see CONTRIBUTING).
KILLS = int(os.environ.get("SMEOFFLINE_KILLS", "3"))


@pytest.fixture(name="log")
def _log(tmp_path, monkeypatch):
    """The folder where the test algorithm logs, and finds what it is to do."""
    return bench_algorithm.prepare(tmp_path / "told", monkeypatch)


def test_worker_processes_that_die_cost_no_cell_but_the_one_that_kills_them(tmp_path, log):
    """A cell whose process died once is done; one that kills each of its processes fails, and it alone."""
    (log / "die-once-1-0").touch()
    (log / "die-2-0").touch()
    made = run_suite(suite(seeds=1, sizes=(1, 2, 3, 4)), tmp_path / "out", workers=2)
    assert (made.done, made.failed) == (3, 1)
    (failed,) = read_results(tmp_path / "out").failed
    assert (names([failed]), "its process died" in failed.reason) == (["2-0"], True)
    assert len((tmp_path / "out" / FILE_NAME).read_text().splitlines()) == 4


def test_killed_at_random_times_it_loses_no_finished_cell_and_repeats_none(tmp_path, log):
    """After each SIGKILL all finished cells are still there, and no later call runs one of them again."""
    rng = np.random.default_rng(int(os.environ.get("SMEOFFLINE_KILLS_SEED", "0")))
    cells = 3 * (KILLS + 2)
    (tmp_path / "tiny.toml").write_text(toml(sizes=(1, 2, 3), seeds=KILLS + 2))
    out = tmp_path / "out"
    for _ in range(KILLS):
        before, begun = done_in(out), len(bench_algorithm.called(log))
        with benchmark(tmp_path, "--workers", "2", BENCH_TEST_SECONDS="0.5") as process:
            wait_for(lambda begun=begun: len(bench_algorithm.called(log)) > begun)
            time.sleep(rng.uniform(0, 1.0))
            assert process.poll() is None, "there is nothing left to kill"
            process.send_signal(signal.SIGKILL)
        assert set(before) <= set(done_in(out))
        assert not set(before) & set(bench_algorithm.called(log)[begun:])
    wait_for(lambda: not writers(out))
    before, begun = done_in(out), len(bench_algorithm.called(log))
    made = run_suite(tmp_path / "tiny.toml", out, workers=2)
    assert (made.done, made.failed) == (cells, 0)
    lines = [json.loads(line) for line in (out / FILE_NAME).read_text().splitlines()]
    assert len({line["cell"] for line in lines}) == len(lines) == cells
    assert sorted([*before, *bench_algorithm.called(log)[begun:]]) == done_in(out)


def test_ctrl_c_with_one_worker_says_what_goes_on(tmp_path):
    """One worker trains in the command's process: its checkpoint is kept, and `train` gives no advice."""
    (tmp_path / "tiny.toml").write_text(toml(algo="bc", seeds=1, steps=1_000_000))
    runs = tmp_path / "out" / worker.RUNS
    with benchmark(tmp_path, "--workers", "1") as process:
        wait_for(lambda: list(runs.glob("*/*/metrics.jsonl")))
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=30)[1]
    assert process.returncode == 1
    assert told.strip().splitlines()[-1].startswith("interrupted: stopped before the end; finished cells")
    assert "--resume" not in told
    assert list(runs.glob("*/*/checkpoint/*.pt"))
    assert done_in(tmp_path / "out") == []


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_the_benchmark(tmp_path, log, number):
    """Killed or interrupted, it leaves no worker that trains on for nobody; Ctrl-C ends with one line."""
    (tmp_path / "tiny.toml").write_text(toml())
    with benchmark(tmp_path, "--workers", "2", BENCH_TEST_SECONDS="60") as process:
        wait_for(lambda: len(bench_algorithm.called(log)) == 2)
        assert len(writers(tmp_path / "out")) >= 3
        start = time.monotonic()
        # Ctrl-C reaches the whole group, a kill one process
        os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
        told = process.communicate(timeout=30)[1]
        if number == signal.SIGINT:
            assert process.returncode == 1
            assert told.strip().splitlines()[-1].startswith("interrupted: stopped before the end"), told
            assert "Traceback" not in told
            assert "resource_tracker" not in told
        wait_for(lambda: not writers(tmp_path / "out"))
        assert time.monotonic() - start < 15
    assert done_in(tmp_path / "out") == []


def test_a_cell_that_was_broken_off_goes_on_from_its_checkpoint(tmp_path):
    """Killed in mid-training, a cell keeps its steps, and ends where it would have without the kill."""
    (tmp_path / "tiny.toml").write_text(toml(algo="bc", sizes=(2,), seeds=1, steps=2000))
    runs = tmp_path / "out" / worker.RUNS
    with benchmark(tmp_path, "--workers", "1") as process:
        wait_for(lambda: list(runs.glob("*/*/checkpoint/*.pt")))
        process.send_signal(signal.SIGKILL)
    (curve,) = runs.glob("*/curve.json")
    marked = json.loads(curve.read_text())
    assert 0 < len(marked) < worker.CURVE_POINTS
    marked["200"] = 0.125  # training again from the start would overwrite this
    curve.write_text(json.dumps(marked))
    assert run_suite(tmp_path / "tiny.toml", tmp_path / "out", workers=1).done == 1
    assert not list(runs.glob("*/*/checkpoint")), "checkpoints are removed once a result is safe"
    run_suite(tmp_path / "tiny.toml", tmp_path / "whole", workers=1)
    (resumed,), (whole,) = read_results(tmp_path / "out").done, read_results(tmp_path / "whole").done
    assert [point.step for point in whole.curve] == list(range(200, 2001, 200))
    assert resumed.curve[0].score_wd == 0.125
    assert resumed.curve[1:] == whole.curve[1:]
    assert resumed.evaluation == whole.evaluation
    assert whole.curve[-1].score_wd == pytest.approx(whole.metric("score_wd"), abs=0.02)


def test_a_dataset_is_generated_once_though_many_want_it(tmp_path, monkeypatch):
    """Four at once get the same dataset, and it was rolled out once."""
    recipe = Recipe.from_dict({"task": {"episode_length": 5}, "dataset": {"episodes": 200}})
    prepare, calls, found = Rollout.prepare, [], []
    monkeypatch.setattr(Rollout, "prepare", lambda recipe: calls.append(recipe) or prepare(recipe))
    together = threading.Barrier(4)

    def want():
        together.wait()
        found.append(worker.ensure_dataset(recipe, tmp_path))

    threads = [threading.Thread(target=want) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert {dataset.provenance["sha256"] for dataset in found} == {found[0].provenance["sha256"]}
    assert len(found) == 4


def test_a_killed_generator_of_a_dataset_blocks_nobody(tmp_path):
    """The lock of a process that was killed while it generated is free, and the dataset is made anew."""
    code = (
        "import sys, time; from pathlib import Path; from smeoffline.bench import worker\n"
        "from smeoffline.data.generate import Rollout; from smeoffline.data.recipe import Recipe\n"
        "Rollout.prepare = lambda recipe: print('generating', flush=True) or time.sleep(60)\n"
        f"worker.ensure_dataset(Recipe.from_dict({{'dataset': {{'episodes': 2}}}}), Path({str(tmp_path)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"generating\n"
        process.kill()
    recipe = Recipe.from_dict({"dataset": {"episodes": 2}})
    start = time.monotonic()
    assert len(worker.ensure_dataset(recipe, tmp_path).lengths) == 2
    assert time.monotonic() - start < 30


def test_a_cancelled_cell_stops_and_lets_go(tmp_path):
    """A cell that waits for its lock, or trains, ends when it is cancelled, and another may begin it."""
    (cell,) = suite(algo="bc", sizes=(1,), seeds=1, steps=100_000).cells()
    job = worker.Job(cell, tmp_path)
    with worker.locked(tmp_path, cell.key), pytest.raises(worker.CellCancelled):
        worker.run_cell(job, lambda: True)
    asked = iter([False, False, True])
    with pytest.raises(worker.CellCancelled):
        worker.run_cell(job, lambda: next(asked))
    with worker.locked(tmp_path, cell.key):
        pass
