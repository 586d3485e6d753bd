"""From a benchmark's runs to an entry: the policies it keeps act at the probes."""

from __future__ import annotations

import json
import re
import shutil

import numpy as np
import pytest
from boards import INFORMED, SUITE, submission
from command import invoke

from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.entry import parse, read_entry
from smeoffline.bench.leaderboard.lines import read_lines
from smeoffline.bench.results import read_results
from smeoffline.bench.run import run_suite
from smeoffline.train.algorithms import ALGORITHMS, find_algorithm
from smeoffline.train.run_folder import open_run
from smeoffline.train.trainer import setting_defaults

ONE = re.sub(r"(?s)(\[\[datasets.*?)\[\[datasets.*(\[\[alg)", r"\1\2", SUITE)  # its first dataset alone


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A folder with a suite of one dataset, and its benchmark in `out`: BC for two steps with two seeds."""
    folder = tmp_path_factory.mktemp("submit")
    (folder / "one.toml").write_text(ONE)
    summary = run_suite(folder / "one.toml", folder / "out", steps=2, workers=1)
    assert (summary.done, summary.failed) == (2, 0)
    return folder


@pytest.fixture
def folder(done, monkeypatch):
    """The same, as the current folder."""
    monkeypatch.chdir(done)
    return done


def submit(*args):
    """`leaderboard submit` on the suite."""
    return invoke("leaderboard", "submit", *args, "--suite", "one.toml")


def test_a_benchmark_becomes_an_entry_with_the_same_scores(folder):
    """The runs a benchmark leaves are all that is needed, and the leaderboard gives them the benchmark's scores."""
    made = submit(
        "out/runs", "--name", "BC", "--author", "Ada", "--link", "https://example.org", "-o", "bc.npz", "--json"
    )
    assert made.exit_code == 0, made.stderr
    assert json.loads(made.stdout)["algorithm"] == "bc"
    entry = read_entry(folder / "bc.npz", Board.load("one.toml"))
    assert entry.submission.authors == ("Ada",)
    assert entry.submission.steps == 2
    assert "d3rlpy" in entry.submission.code_version
    assert entry.submission.hyperparameters["batch_size"] == 100  # d3rlpy's default
    assert invoke("leaderboard", "score", "bc.npz", "--suite", "one.toml").exit_code == 0
    (line,) = read_lines(folder / "results.jsonl")
    (scores,) = line.scores.values()
    cells = {cell.seed: cell.evaluation for cell in read_results(folder / "out" / "results.jsonl").done}
    for score in scores:
        assert score.score_wd == pytest.approx(cells[score.seed]["score_wd"], abs=1e-6)
        assert score.gap_closed == pytest.approx(cells[score.seed]["gap_closed"], abs=1e-5)


def test_the_same_runs_give_the_same_bytes(folder):
    """An entry of the same runs is the same file, whether they are named one by one or by a folder above them."""
    runs = sorted((folder / "out" / "runs").glob("*/*/run.json"))
    assert len(runs) == 2
    submit("out", "--name", "BC", "-o", "one.npz")
    submit(*[run.parent for run in reversed(runs)], "--name", "BC", "-o", "other.npz")
    first, second = (read_entry(folder / name, Board.load("one.toml")) for name in ("one.npz", "other.npz"))
    assert first.submission == second.submission
    for key, actions in first.actions.items():
        np.testing.assert_array_equal(actions, second.actions[key])
    submit("out", "--name", "BC", "-o", "again.npz")
    assert (folder / "again.npz").read_bytes() == (folder / "one.npz").read_bytes()


def test_submit_never_replaces_a_file_unasked(folder):
    """A file that is there stays as it is, unless --overwrite is typed."""
    (folder / "mine.npz").write_text("precious")
    kept = submit("out", "--name", "BC", "-o", "mine.npz")
    assert kept.exit_code == 1
    assert kept.stderr == "error: mine.npz: exists; choose another name, or pass --overwrite to replace it\n"
    assert (folder / "mine.npz").read_text() == "precious"
    assert submit("out", "--name", "BC", "-o", "mine.npz", "--overwrite").exit_code == 0
    assert read_entry(folder / "mine.npz", Board.load("one.toml")).submission.name == "BC"


def test_runs_that_do_not_make_an_entry_are_told(folder, tmp_path):
    """A missing seed, a run twice, another suite, mixed settings or no run at all: one line each, and no file."""
    runs = sorted(run.parent for run in (folder / "out" / "runs").glob("*/*/run.json"))
    half = submit(runs[0], "--name", "BC", "-o", "bad.npz")
    assert half.stderr == (
        "error: submit: expected 2 runs, one for each dataset and seed, got 1: none for "
        f"{INFORMED}--s1; train them, or pass --partial\n"
    )
    twice = submit(*runs, runs[0], "--name", "BC", "-o", "bad.npz")
    assert "got a second" in twice.stderr
    elsewhere = invoke("leaderboard", "submit", *runs, "--name", "BC", "-o", "bad.npz")
    assert "expected a dataset of suite 'v1'" in elsewhere.stderr
    nothing = submit(tmp_path, "--name", "BC", "-o", "bad.npz")
    assert "expected folders with runs, got none" in nothing.stderr
    gone = submit("nowhere", "--name", "BC", "-o", "bad.npz")
    assert "there is no such folder" in gone.stderr
    link = submit(*runs, "--name", "BC", "--link", "javascript:alert(1)", "-o", "bad.npz")
    assert "--link: expected an address that begins with https://" in link.stderr
    mixed = tmp_path / "mixed"
    shutil.copytree(runs[1], mixed)
    record = json.loads((mixed / "run.json").read_text())
    (mixed / "run.json").write_text(json.dumps({**record, "steps": 3}))
    different = submit(runs[0], mixed, "--name", "BC", "-o", "bad.npz")
    assert "expected steps as in" in different.stderr
    (mixed / "run.json").write_text(json.dumps({**record, "seed": 7}))
    reseeded = submit(runs[0], mixed, "--name", "BC", "-o", "bad.npz")
    assert "expected seed 1" in reseeded.stderr
    for refused in (half, twice, elsewhere, nothing, different, reseeded):
        assert (refused.exit_code, len(refused.stderr.splitlines())) == (1, 1)
    for mistyped in (gone, link):
        assert (mistyped.exit_code, len(mistyped.stderr.splitlines())) == (2, 1)
    assert not (folder / "bad.npz").exists()


def test_many_missing_runs_are_told_by_the_first(done, tmp_path):
    """Of the runs that are missing the first three are named and the others counted: one line tells what to do."""
    (tmp_path / "one.toml").write_text(ONE.replace("seeds = 2", "seeds = 6"))
    refused = invoke(
        *("leaderboard", "submit", done / "out", "--name", "BC"),
        *("--suite", tmp_path / "one.toml", "-o", tmp_path / "bad.npz"),
    )
    named = ", ".join(f"{INFORMED}--s{seed}" for seed in (2, 3, 4))
    assert refused.stderr == (
        "error: submit: expected 6 runs, one for each dataset and seed, got 2: none for "
        f"{named} and 1 more; train them, or pass --partial\n"
    )
    assert not (tmp_path / "bad.npz").exists()


def test_a_part_of_the_runs_is_a_partial_entry(folder):
    """With --partial a seed may be missing; the page lists it without a rank."""
    run = next((folder / "out" / "runs").glob("*/*/run.json")).parent
    made = submit(run, "--name", "Part", "--partial", "-o", "part.npz")
    assert made.exit_code == 0, made.stderr
    shown = invoke("leaderboard", "score", "part.npz", "--suite", "one.toml", "--results", "part.jsonl")
    assert "not ranked: partial" in shown.stdout


def test_the_policies_of_runs_are_what_acts(folder):
    """An entry's actions are those of the run's policy file at the probes."""
    board = Board.load("one.toml")
    submit("out", "--name", "BC", "-o", "bc.npz", "--overwrite")
    entry = read_entry(folder / "bc.npz", board)
    for run in (folder / "out" / "runs").glob("*/*/run.json"):
        record, policy = open_run(run.parent)
        place = next(place for place in board.places if place.recipe.dataset_id == record.dataset_id)
        np.testing.assert_array_equal(entry.actions[place.key], policy(board.observations[place.dataset]))


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_hyperparameters_of_every_algorithm_fit_into_an_entry(name):
    """What a run records of any shipped algorithm's settings is what the schema of entries admits."""
    settings = setting_defaults(find_algorithm(name))
    assert settings
    told = submission(algorithm=name, hyperparameters=settings)
    assert parse(json.dumps(told.to_dict()))[1] == []
