"""Each example runs as its docstring says, and prints a score that is right."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from command import ROOT, environment, invoke

from smeoffline.data.storage import store
from smeoffline.sme.model import score

EXAMPLES = ROOT / "examples"
TESTED_ELSEWHERE = {"own_algorithm.py"}  # tests/test_train_own.py and tests/test_readme.py train it


def run(name, *args):
    """Run an example as a user does; returns what it printed."""
    command = [sys.executable, str(EXAMPLES / name), *map(str, args)]
    env = environment(OMP_NUM_THREADS="1")
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


def told(shown):
    """The last score in what was printed."""
    return float(re.findall(r"score (\d\.\d+) of 1", shown)[-1])


@pytest.fixture
def dataset():
    """A small dataset, with episodes of unequal length."""
    made = invoke("generate", "--nu", 0.3, "--sigma", 0.3, "--kill-threshold", 0.01, "--episodes", 60, "--json")
    assert made.exit_code == 0, made.stderr
    return json.loads(made.stdout)["dataset_id"]


def test_minari_and_a_data_loader_give_the_score_of_the_data(dataset):
    """No step is lost or shifted: the score that it prints is that of all stored actions."""
    shown = run("minari_dataloader.py", dataset)
    held = store.read(dataset)
    assert len(set(held.lengths.tolist())) > 1
    keep = np.ones(len(held.observations), bool)
    keep[np.cumsum(held.lengths + 1) - 1] = False  # the last observation of each episode
    assert told(shown) == pytest.approx(score(held.actions, held.optimal_actions[keep]).mean(), abs=6e-4)
    assert f"{len(held.actions):,} transitions" in shown


def test_cloning_in_one_file_comes_near_imitation(dataset):
    """A few hundred steps already beat random actions, and do not beat what cloning can reach."""
    shown = run("corl_bc.py", dataset, "--steps", 300)
    imitation = float(re.search(r"imitation (\d\.\d+)", shown)[1])
    assert 0.75 < told(shown) < imitation + 0.01


def test_the_cloning_that_is_verified_comes_near_imitation(dataset, monkeypatch, tmp_path):
    """In a few hundred steps it comes near what cloning can reach, and not beyond."""
    monkeypatch.chdir(ROOT)
    out = tmp_path / "run"
    trained = invoke("train", dataset, "--algo", "examples.cloning:train", "--steps", 500, "--out", out)
    assert trained.exit_code == 0, trained.stderr
    scored = json.loads(invoke("evaluate", out, "--json").stdout)
    assert scored["imitation_score"] - 0.1 < scored["score_wd"] < scored["imitation_score"] + 0.01


def test_stable_baselines_learns_the_task_online():
    """It trains on the environment as it is, and its policy is scored."""
    assert 0 < told(run("stable_baselines.py", "--steps", 150)) < 1


def test_every_example_is_tested():
    """One that nobody runs rots; and each says in its first lines how it is run."""
    tested = {"minari_dataloader.py", "corl_bc.py", "cloning.py", "stable_baselines.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == tested | TESTED_ELSEWHERE
    for path in EXAMPLES.glob("*.py"):
        head = path.read_text(encoding="utf-8").split('"""')[1]
        assert f"examples/{path.name}" in head or f"examples.{path.stem}:" in head, path.name
