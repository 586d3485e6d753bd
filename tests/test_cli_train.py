"""`sme-offline train` and `evaluate`, as a user types them."""

from __future__ import annotations

import json
import re
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from command import ROOT, SMALL, environment, invoke, on_a_terminal, running

from smeoffline.score.runs import evaluate
from smeoffline.train.run_folder import run_folder

FAST = ("--set", "batch_size=8", "--set", "hidden_units=8")
SCORES = ("score_wd", "score_ood", "score_data", "score_rollout", "return_rollout", "action_regret", "reward_regret")
ROWS = (
    "behavior_score",
    "clone_mean_score",
    "clone_median_score",
    "clone_shrunk_score",
    "imitation_score",
    "headroom",
    "optimal_score",
)
GAINS = ("random_score", "improvement", "normalized_improvement", "rl_gain", "gap_closed", "ood_curve", "probes")


@pytest.fixture
def dataset():
    """The id of a small dataset with headroom."""
    result = invoke("generate", "--nu", "0.3", "--sigma", "0.3", *SMALL, "--json")
    return json.loads(result.stdout)["dataset_id"]


def trained(dataset, out, *more, algo="bc"):
    """A small run; returns click's result."""
    return invoke("train", dataset, "--algo", algo, "--steps", "30", "--out", out, *FAST, *more)


def test_train_tells_the_next_command(dataset, tmp_path):
    """A training ends with the command that scores it, and that command works."""
    result = trained(dataset, tmp_path)
    assert result.exit_code == 0, result.stderr
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("next: ")]
    words = line.removeprefix("next: sme-offline ").split()
    scored = invoke(*words, "--probes", "100")
    assert scored.exit_code == 0, scored.stderr
    assert "rl_gain" in scored.stdout


def test_json_has_the_keys_of_the_contract(dataset, tmp_path):
    """`train --json` and `evaluate --json` have the documented keys; the run's own file has the same numbers."""
    made = json.loads(trained(dataset, tmp_path, "--json").stdout)
    assert {"run", "policy", "steps", "seconds"} <= set(made)
    record = json.loads(invoke("evaluate", made["run"], "--probes", "100", "--json").stdout)
    assert {"schema", "seed", *SCORES, *ROWS, *GAINS} <= set(record)
    assert json.loads(Path(made["run"], "evaluation.json").read_text(encoding="utf-8")) == record


def test_evaluated_twice_is_the_same(dataset, tmp_path):
    """The second evaluation prints the bytes of the first."""
    made = json.loads(trained(dataset, tmp_path, "--json").stdout)
    outputs = [invoke("evaluate", made["run"], "--probes", "100", "--json").stdout for _ in range(2)]
    assert outputs[0] == outputs[1]


def test_several_runs_are_shown_with_the_reference_rows(dataset, tmp_path):
    """Runs of one dataset stand in one table, best first, between optimal and random."""
    runs = [json.loads(trained(dataset, tmp_path, "--json", "--seed", str(s)).stdout)["run"] for s in (0, 1)]
    shown = invoke("evaluate", *runs, "--probes", "100").stdout.splitlines()
    assert shown[1].split()[0] == "(optimal)"
    assert sum("--bc-s" in line for line in shown) == 2
    assert any(line.startswith("(imitation)") for line in shown)
    record = json.loads(invoke("evaluate", *runs, "--probes", "100", "--json").stdout)
    assert list(record["evaluations"]) == runs
    elsewhere = json.loads(trained(dataset, tmp_path / "again", "--json").stdout)["run"]
    shown = invoke("evaluate", runs[0], elsewhere, "--probes", "100").stdout
    assert all(f"{run} " in shown for run in (runs[0], elsewhere))  # one name: told apart by what is above


def test_runs_on_different_datasets_stand_in_tables_of_their_own(dataset, tmp_path):
    """Each table has its dataset's id above it, its own runs, and its own reference rows."""
    other = json.loads(invoke("generate", "--nu", "0.1", "--sigma", "0.3", *SMALL, "--json").stdout)["dataset_id"]
    trainings = [(dataset, "0"), (other, "0"), (dataset, "1")]
    runs = [json.loads(trained(d, tmp_path, "--json", "--seed", s).stdout)["run"] for d, s in trainings]
    shown = invoke("evaluate", *runs, "--probes", "100").stdout
    first, second = (table.splitlines() for table in shown.split("\n\n"))
    assert (first[0], second[0]) == (dataset, other)
    names = [Path(run).name for run in runs]
    for lines, inside in ((first, {names[0], names[2]}), (second, {names[1]})):
        assert {line.split()[0] for line in lines[2:]} == inside | {
            *("(optimal)", "(shrunk)", "(imitation)", "(behavior)", "(random)")
        }
    behaviors = [next(line.split()[1] for line in table if line.startswith("(behavior)")) for table in (first, second)]
    assert behaviors[0] != behaviors[1]


def test_a_policy_file_is_scored_by_the_named_dataset(dataset, tmp_path):
    """The run's file alone, with --dataset, has the scores of the run; without, one line says what is missing."""
    made = json.loads(trained(dataset, tmp_path, "--json").stdout)
    by_run = invoke("evaluate", made["run"], "--probes", "100", "--json").stdout
    assert invoke("evaluate", made["policy"], "--dataset", dataset, "--probes", "100", "--json").stdout == by_run
    alone = invoke("evaluate", made["policy"])
    assert alone.exit_code == 2
    assert alone.stderr.startswith("error: --dataset: ")
    none = invoke("evaluate", made["run"], "--probes", "0")
    assert none.exit_code == 2
    assert none.stderr.startswith("error: --probes must be in ")


def test_another_dataset_leaves_the_evaluation_of_a_run_alone(dataset, tmp_path):
    """Measured by a dataset that is not its own, a run is scored, and what its folder says of its own one stays."""
    run = Path(json.loads(trained(dataset, tmp_path, "--json").stdout)["run"])
    assert invoke("evaluate", run, "--probes", "100", "--dataset", dataset).exit_code == 0
    own = (run / "evaluation.json").read_bytes()
    other = json.loads(invoke("generate", *SMALL, "--nu", "0.3", "--task-seed", "7", "--json").stdout)["dataset_id"]
    scored = json.loads(invoke("evaluate", run, "--probes", "100", "--dataset", other, "--json").stdout)
    assert scored["score_wd"] != json.loads(own)["score_wd"]
    assert (run / "evaluation.json").read_bytes() == own


@pytest.mark.filterwarnings("default")
def test_fewer_probes_do_not_replace_more(dataset, tmp_path):
    """What is stored is replaced by more probes, or where it is damaged; what is not stored is told."""
    run = Path(json.loads(trained(dataset, tmp_path, "--json").stdout)["run"])
    for probes, stored in ((100, 100), (50, 100), (200, 200)):
        shown = invoke("evaluate", run, "--probes", probes)
        assert json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["probes"] == stored
        assert ("is not stored; to store it, remove the file" in shown.stderr) == (probes < stored)
    for damaged in ("{", "[]", '{"probes": "many"}'):
        (run / "evaluation.json").write_text(damaged, encoding="utf-8")
        assert invoke("evaluate", run, "--probes", "50").stderr == ""
        assert json.loads((run / "evaluation.json").read_text(encoding="utf-8"))["probes"] == 50


def test_a_terminal_sees_the_warning_on_a_line_of_its_own(dataset, tmp_path):
    """What is said while a progress bar is shown stands above the bar, not behind it."""
    run = json.loads(trained(dataset, tmp_path, "--json").stdout)["run"]
    assert invoke("evaluate", run, "--probes", "100").exit_code == 0
    _, seen = on_a_terminal("evaluate", run, "--probes", "50", NO_COLOR="1")
    assert re.search(rb"(\n|\r|\x1b\[2K)warning: run ", seen)


def test_training_on_removes_the_evaluation_of_the_policy_before(dataset, tmp_path):
    """Nothing that is stored speaks of another policy than the run's; where there is nothing to train, it stays."""
    run = Path(json.loads(trained(dataset, tmp_path, "--json").stdout)["run"])
    assert invoke("evaluate", run, "--probes", "100").exit_code == 0
    assert trained(dataset, tmp_path, "--resume").exit_code == 0
    assert (run / "evaluation.json").exists()
    assert trained(dataset, tmp_path, "--resume", "--steps", "60").exit_code == 0
    assert not (run / "evaluation.json").exists()


def test_a_folder_with_one_run_in_it_stands_for_the_run(dataset, tmp_path):
    """A benchmark's folder of a cell is evaluated, drawn and estimated as its run; two runs in it are one line."""
    made = json.loads(trained(dataset, tmp_path / "cell", "--json").stdout)["run"]
    cell = tmp_path / "cell"
    by_run = invoke("evaluate", made, "--probes", "100", "--json").stdout
    Path(made, "evaluation.json").unlink()
    assert invoke("evaluate", cell, "--probes", "100", "--json").stdout == by_run
    assert Path(made, "evaluation.json").exists()
    drawn = invoke("plot", "run", cell, "-o", tmp_path / "x.svg")
    assert drawn.exit_code == 0, drawn.stderr
    small = ("--methods", "behavior", "--episodes", "2")
    values = [
        json.loads(invoke("ope", dataset, path, *small, "--json").stdout)["policies"][0]["true"]
        for path in (made, cell)
    ]
    assert values[0] == values[1]
    trained(dataset, tmp_path / "cell", "--seed", "1")
    several = invoke("evaluate", cell, "--probes", "100")
    assert (several.exit_code, several.stdout) == (1, "")
    assert several.stderr == f"error: run {cell}: expected a folder with one run in it, got 2 runs; name one\n"


def test_a_callable_is_scored_in_its_process(dataset):
    """`so.evaluate` takes a function too."""
    found = evaluate(lambda o: np.full((len(o), 4), 0.5, np.float32), dataset=dataset, n_probes=100)
    assert 0 < found.score_wd < 1


def test_the_same_seed_gives_the_same_policy_also_in_two_sittings(dataset, tmp_path):
    """30 steps, then --resume to 60, write the file that 60 steps write."""
    whole = json.loads(trained(dataset, tmp_path / "a", "--json", "--steps", "60").stdout)
    trained(dataset, tmp_path / "b")
    resumed = json.loads(trained(dataset, tmp_path / "b", "--json", "--steps", "60", "--resume").stdout)
    assert resumed["steps"] == 60
    assert Path(whole["policy"]).read_bytes() == Path(resumed["policy"]).read_bytes()


@pytest.mark.parametrize("algo", ["bc", "mine_resumed:train"])
def test_resuming_where_there_is_no_run_is_said_once(dataset, tmp_path, monkeypatch, algo):
    """A note on stderr names the run that is not there, and it trains; the second time there is one."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples" / "own_algorithm.py", "mine_resumed.py")
    command = ("train", dataset, "--algo", algo, "--steps", 3, "--out", "elsewhere", "--resume", "--json")
    first, second = invoke(*command), invoke(*command)
    run = run_folder(Path("elsewhere"), dataset, algo, 0)
    assert first.stderr == f"note: no run in {run}, training from the start\n"
    assert (second.exit_code, second.stderr) == (0, "")
    assert json.loads(first.stdout)["run"] == json.loads(second.stdout)["run"] == str(run)
    refused = invoke(*command, "--set", "nothing=1", "--seed", "1")
    assert refused.stderr.startswith("error: --set")


def test_a_failed_run_that_was_moved_names_its_traceback_where_it_is(dataset, tmp_path, monkeypatch):
    """What is told of it names a file that is there, and its record names that from its own folder."""
    (tmp_path / "mine_broken.py").write_text("def train(data, *, seed, steps):\n    raise ValueError('mistake')\n")
    monkeypatch.chdir(tmp_path)
    failed = invoke("train", dataset, "--algo", "mine_broken:train")
    run = run_folder(Path("runs"), dataset, "mine_broken:train", 0)
    assert f"(traceback in {run / 'error.txt'})" in failed.stderr
    assert json.loads((run / "run.json").read_text())["reason"].endswith("mistake (traceback in error.txt)")
    moved = (tmp_path / "runs").rename(tmp_path / "moved") / run.name
    again = ("train", dataset, "--algo", "mine_broken:train", "--out", moved.parent)
    for asked in (("evaluate", moved), again):
        told = invoke(*asked)
        assert told.exit_code == 1
        assert f"(traceback in {moved / 'error.txt'})" in told.stderr
    assert "raise ValueError" in (moved / "error.txt").read_text()


def test_interrupted_training_keeps_its_checkpoint_and_says_how_to_go_on(dataset, tmp_path):
    """Ctrl-C ends with one line that names --resume, exit 1, and the resumed run finishes."""
    command = ("train", dataset, "--algo", "bc", "--out", tmp_path, *FAST)
    with running(*command, "--steps", "10000000", env=environment()) as process:
        metrics = run_folder(tmp_path, dataset, "bc", 0) / "metrics.jsonl"
        deadline = time.monotonic() + 60
        while not (metrics.exists() and metrics.read_text()) and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert len(errors.strip().splitlines()) == 1
    assert "--resume" in errors
    step = json.loads((metrics.parent / "run.json").read_text())["step"]
    result = invoke(*command, "--steps", str(step + 10), "--resume", "--json")
    assert json.loads(result.stdout)["steps"] == step + 10


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--algo", "iqll"), "did you mean 'iql'"),
        (("--algo", "dqn"), "discrete"),
        (("--algo", "nowhere:train"), "no module 'nowhere'"),
        (("--algo", "bc", "--set", "batchsize=8"), "did you mean 'batch_size'"),
        (("--algo", "bc", "--set", "batch_size"), "NAME=VALUE"),
        (("--algo", "bc", "--set", "batch_size=many"), "whole number"),
        (("--algo", "bc", "--set", "batch_size=nan"), "whole number"),
        (("--algo", "bc", "--seed", "-1"), "seed"),
        (("--algo", "bc", "--steps", "0"), "steps"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_bad_arguments_are_one_line(dataset, tmp_path, arguments, said):
    """A wrong algorithm, setting or number is one clear line that names the option, exit 2, and makes no run."""
    result = invoke("train", dataset, *arguments, "--out", tmp_path / "runs")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {arguments[-2]}")
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()


def test_an_unknown_dataset_is_told_with_near_ids(dataset, tmp_path):
    """A misspelled id names the nearest ones."""
    result = invoke("train", dataset.replace("nu0p3", "nu0p2"), "--algo", "bc", "--out", tmp_path / "runs")
    assert result.exit_code == 1
    assert dataset in result.stderr


def test_an_existing_run_is_not_touched(dataset, tmp_path):
    """The same run again, without --resume, is refused, and what is there stays."""
    trained(dataset, tmp_path)
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    again = trained(dataset, tmp_path)
    assert again.exit_code == 1
    assert "--resume" in again.stderr
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files


@pytest.mark.parametrize("content", [b"", b"not onnx", b"\x80\x04K\x01.", b"PK\x03\x04rest"], ids=repr)
def test_what_is_no_policy_is_refused_unopened(dataset, tmp_path, content):
    """Garbage, a pickle and a torch archive are one line, exit 1."""
    path = tmp_path / "policy.onnx"
    path.write_bytes(content)
    result = invoke("evaluate", path, "--dataset", dataset)
    assert result.exit_code == 1
    assert "ONNX" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_dataset_that_is_no_sme_trains_but_says_why_it_cannot_be_scored(tmp_path):
    """A foreign Minari dataset trains; evaluate says that its optimum is not known."""
    import minari
    from gymnasium.spaces import Box
    from minari.data_collector import EpisodeBuffer

    stream = np.random.default_rng(0)
    buffers = [
        EpisodeBuffer(
            id=None,
            observations=stream.normal(size=(6, 3)),
            actions=stream.uniform(-2, 2, size=(5, 2)),
            rewards=stream.normal(size=5),
            terminations=np.array([False] * 5),
            truncations=np.array([False] * 4 + [True]),
        )
        for _ in range(3)
    ]
    spaces = {"observation_space": Box(-np.inf, np.inf, (3,)), "action_space": Box(-2.0, 2.0, (2,))}
    with pytest.warns(UserWarning, match="is set to None|is None|will"):  # minari warns of each field left out
        minari.create_dataset_from_buffers("foreign/set-v0", buffers, **spaces)
    made = trained("foreign/set-v0", tmp_path, "--json")
    assert made.exit_code == 0, made.stderr
    result = invoke("evaluate", json.loads(made.stdout)["run"])
    assert result.exit_code == 1
    assert "not a Synthetic Monitoring Environment" in result.stderr
