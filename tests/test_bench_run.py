"""Running suites: every cell once, and one clear line for what can't be run."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pty

import bench_algorithm
import pytest
from bench_tiny import names, suite, toml
from command import environment, invoke, running

from smeoffline.bench import worker
from smeoffline.bench.journal import open_journal
from smeoffline.bench.results import FILE_NAME, read_results
from smeoffline.bench.run import run_suite
from smeoffline.bench.status import Costs
from smeoffline.bench.suite import Suite
from smeoffline.errors import BenchmarkError, SpecError


@pytest.fixture(name="log")
def _log(tmp_path, monkeypatch):
    """The folder where the test algorithm logs, and finds what it is to do."""
    return bench_algorithm.prepare(tmp_path / "told", monkeypatch)


def test_every_cell_runs_once_and_never_again(tmp_path, log):
    """Two worker processes give each cell one line; a second call adds what is new, and that alone."""
    out = tmp_path / "out"
    made = run_suite(suite(), out, workers=2)
    assert (made.cells, made.done, made.failed, made.results) == (4, 4, 0, out / FILE_NAME)
    assert sorted(bench_algorithm.called(log)) == ["1-0", "1-1", "2-0", "2-1"]
    again = run_suite(suite(), out, seeds=3, workers=1)
    assert (again.cells, again.done) == (6, 6)
    assert sorted(bench_algorithm.called(log)[4:]) == ["1-2", "2-2"]
    cells = read_results(out).cells
    assert names(cells) == ["1-0", "1-1", "1-2", "2-0", "2-1", "2-2"]
    assert len((out / FILE_NAME).read_text().splitlines()) == 6
    for cell in cells:
        assert (cell.dataset["seed"], cell.metric("action_regret")) == (
            cell.seed,
            1 - cell.metric("score_wd"),
        )
        assert json.loads(_metadata(out, cell.dataset_id))["smeoffline"]["sha256"] == cell.dataset_sha256


def _metadata(out, dataset_id):
    """The metadata of a benchmark's own dataset."""
    return (out / worker.DATASETS / dataset_id / "data" / "metadata.json").read_text()


def test_results_do_not_depend_on_the_number_of_workers(tmp_path):
    """One process and two give the same numbers for a real algorithm, seed by seed."""
    scores = []
    for workers in (1, 2):
        run_suite(suite(algo="bc", sizes=(2,), steps=30), tmp_path / str(workers), workers=workers)
        groups = read_results(tmp_path / str(workers)).groups("score_wd", by=("algo",))
        scores.append([dict(group.values) for group in groups])
    assert scores[0] == scores[1]
    assert list(scores[0][0]) == [0, 1]


def test_a_failed_cell_is_recorded_and_tried_again(tmp_path, log):
    """A failure has its reason in one line, keeps no other cell, and the next call runs it and it alone."""
    (log / "fail-2-0").touch()
    made = run_suite(suite(), tmp_path / "out", workers=1)
    assert (made.done, made.failed) == (3, 1)
    (failed,) = read_results(tmp_path / "out").failed
    assert names([failed]) == ["2-0"]
    assert "raised ValueError: told to fail, in two lines" in failed.reason
    assert str(tmp_path) not in failed.reason
    assert made.reasons == {failed.cell: failed.reason}
    (log / "fail-2-0").unlink()
    made = run_suite(suite(), tmp_path / "out", workers=1)
    assert (made.done, made.failed) == (4, 0)
    assert bench_algorithm.called(log)[4:] == ["2-0"]
    assert read_results(tmp_path / "out").failed == ()


def test_a_diverged_training_is_begun_anew(tmp_path):
    """A training that failed is not resumed from what made it fail: the next call tells the same again."""
    text = toml(algo="bc", sizes=(1,), seeds=1, steps=200) + "settings.learning_rate = 1e30\n"
    diverging = Suite.from_toml(text, name="tiny")
    reasons = [run_suite(diverging, tmp_path / "out", workers=1).reasons for _ in range(2)]
    assert reasons[0] == reasons[1]
    assert len(reasons[0]) == 1
    assert "finite" in next(iter(reasons[0].values()))


def test_other_steps_are_other_cells_and_both_stay(tmp_path, log):
    """A call with other steps repeats nothing, replaces nothing, and results tell the two apart."""
    run_suite(suite(sizes=(1,)), tmp_path / "out", workers=1)
    made = run_suite(suite(sizes=(1,)), tmp_path / "out", steps=20, workers=1)
    assert (made.cells, made.done) == (2, 2)
    groups = read_results(tmp_path / "out").groups("score_wd", by=("steps",))
    assert [group.labels["steps"] for group in groups] == [10, 20]
    assert run_suite(suite(sizes=(1,)), tmp_path / "out", workers=1).done == 2
    assert len(bench_algorithm.called(log)) == 4


def test_progress_counts_and_estimates(tmp_path, log):
    """Told at the start and after each cell: done, running, failed, and a time left that ends at zero."""
    (log / "fail-1-0").touch()
    told = []
    run_suite(suite(), tmp_path / "out", workers=1, progress=told.append)
    assert [(s.cells, s.done, s.running, s.failed) for s in told] == [
        (4, 0, 1, 0),
        (4, 0, 1, 1),
        (4, 1, 1, 1),
        (4, 2, 1, 1),
        (4, 3, 0, 1),
    ]
    assert [s.seconds_left is None for s in told] == [True, True, False, False, False]
    assert told[2].seconds_left > told[3].seconds_left > 0 == told[4].seconds_left
    assert names([s.last for s in told[1:]]) == ["1-0", "1-1", "2-0", "2-1"]


def test_time_left_is_told_by_what_cells_cost_here():
    """Steps of an algorithm cost what its steps did here; another one's relate to them as once measured."""
    costs = Costs()
    (bc,) = suite(algo="bc", sizes=(1,), seeds=1, steps=1000).cells()
    (iql,) = suite(algo="iql", sizes=(1,), seeds=1, steps=1000).cells()
    assert costs.left([bc], 0, 1) is None
    costs.add(dataclasses.replace(_done(bc), seconds=4.0))
    assert costs.left([bc], 0, 1) == pytest.approx(4.0)
    assert costs.left([iql], 0, 1) == pytest.approx(36.0)
    assert costs.left([bc, iql], 0, 2) == pytest.approx(20.0)
    assert costs.left([bc, bc], 2, 2) == pytest.approx(2.0)
    assert costs.left([], 0, 2) == 0.0


def _done(cell):
    """A result of a cell, as if it had been done."""
    result = worker.failure(cell, "", 0.0)
    return dataclasses.replace(result, status="done", reason=None, evaluation={"score_wd": 0.5})


def test_two_benchmarks_on_one_folder_are_refused(tmp_path, log):
    """The second one is told so at once, and the first one's file is untouched."""
    with open_journal(tmp_path), pytest.raises(BenchmarkError, match="another process is writing to"):
        run_suite(suite(), tmp_path, workers=1)
    assert bench_algorithm.called(log) == []


@pytest.mark.usefixtures("log")
def test_two_suites_in_one_folder_are_refused(tmp_path):
    """A folder belongs to one suite: a report on two would be of neither."""
    run_suite(suite(sizes=(1,), seeds=1), tmp_path / "out", workers=1)
    other = Suite.from_toml(toml(), name="other")
    with pytest.raises(BenchmarkError, match="holds results of suite 'tiny', expected 'other'"):
        run_suite(other, tmp_path / "out", workers=1)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"workers": 0}, SpecError, "workers must be in"),
        ({"seeds": 0}, SpecError, "seeds must be in"),
        ({"steps": 0}, SpecError, "steps must be in"),
        ({"workers": 2, "dask": "tcp://127.0.0.1:1"}, SpecError, "leave workers out"),
        ({"dask": "http://127.0.0.1:1"}, BenchmarkError, "unknown address scheme 'http'"),
        ({"dask": "tcp://127.0.0.1:1"}, BenchmarkError, "expected a scheduler at 'tcp://127.0.0.1:1'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_made(tmp_path, monkeypatch, arguments, error, message):
    """Values out of range and a Dask address where nobody answers are one line each, and leave no folder."""
    monkeypatch.setattr("smeoffline.bench.cluster.CONNECT_SECONDS", 1)
    with pytest.raises(error) as caught:
        run_suite(suite(), tmp_path / "out", **arguments)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path):
    """The folder's path may be taken by a file: that is said."""
    (tmp_path / "out").touch()
    with pytest.raises(BenchmarkError, match="got a file in its place"):
        run_suite(suite(), tmp_path / "out", workers=1)


def test_the_command_prints_the_summary_and_fails_with_the_first_reason(tmp_path, log):
    """`--json` has cells, done, failed and results; after a failure exit code 1 and one line say why."""
    (tmp_path / "tiny.toml").write_text(toml(seeds=1))
    arguments = ("benchmark", tmp_path / "tiny.toml", "--out", tmp_path / "out", "--workers", "1", "--json")
    (log / "fail-1-0").touch()
    bad = invoke(*arguments)
    assert bad.exit_code == 1
    assert "error: 1 of 2 cells failed, the first s1a4-" in bad.stderr
    (log / "fail-1-0").unlink()
    good = invoke(*arguments)
    assert good.exit_code == 0, good.stderr
    expected = {
        "cells": 2,
        "done": 2,
        "failed": 0,
        "results": str(tmp_path / "out" / FILE_NAME),
        "reasons": {},
    }
    assert json.loads(good.stdout) == expected
    assert "2/2 done, 0 running, 0 s left; s1a4-" in good.stderr


def test_a_terminal_sees_cells_done_running_failed_and_the_time_left(tmp_path, log):
    """On a terminal a bar counts cells, and a failure is told above it; stdout gets the result alone."""
    (tmp_path / "tiny.toml").write_text(toml(seeds=1, sizes=(1, 2, 3)))
    (log / "fail-2-0").touch()
    ours, theirs = pty.openpty()
    seen = b""
    env = environment(PYTHONPATH=os.environ["PYTHONPATH"], TERM="xterm", COLUMNS="300")
    arguments = (tmp_path / "tiny.toml", "--out", tmp_path / "out", "--workers", "1", "--json")
    with running("benchmark", *arguments, env=env, stderr=theirs) as process:
        os.close(theirs)
        with contextlib.suppress(OSError):  # Linux's way to say that the other end of a pty is closed
            while part := os.read(ours, 65536):
                seen += part
        out, _ = process.communicate(timeout=60)
    os.close(ours)
    assert json.loads(out)["failed"] == 1
    screen = seen.decode()
    for text in ("0/3 done, 1 running", "2/3 done, 0 running, 1 failed", "0 s left", "failed: s2a4-"):
        assert text in screen
