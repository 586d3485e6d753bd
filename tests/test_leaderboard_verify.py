"""The sandbox: an entrant sees nothing but arrays, and what it answers is checked; a verification from end to end."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from boards import SUITE, blend, submission, tiny
from command import invoke, python

from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.entry import Entry
from smeoffline.bench.leaderboard.flags import lead_flags
from smeoffline.bench.leaderboard.held_out import transitions
from smeoffline.bench.leaderboard.lines import add_line, read_lines
from smeoffline.bench.leaderboard.place_score import PlaceScore
from smeoffline.bench.leaderboard.sandbox import Entrant, Sandbox
from smeoffline.bench.leaderboard.scoring import score_entry
from smeoffline.bench.leaderboard.verify import public_lead
from smeoffline.bench.suite import Suite
from smeoffline.data.rollout import Rollout
from smeoffline.errors import BenchmarkError
from smeoffline.score.statistics import Estimate

MARK = "a-secret-that-must-not-be-seen"
# Tries everything, and fails if any of it works; placeholders are filled in, as a spy would know them.
SPY = """
import glob, os, socket, sys
import numpy as np

def attempts():
    yield "network", lambda: socket.create_connection(("127.0.0.1", {port}), timeout=3)
    yield "abstract socket", lambda: socket.socket(socket.AF_UNIX).connect("\\0{mark}")
    yield "salt", lambda: open({salt!r}).read()
    yield "salt by another way", lambda: open("/proc/1/root" + {salt!r}).read()
    yield "home", lambda: open(os.path.join({home!r}, "file")).read()
    yield "datasets", lambda: os.listdir({datasets!r})
    yield "environment", lambda: os.environ["SECRET"]
    yield "parent", lambda: os.kill({parent}, 0)
    yield "write beside the module", lambda: open(os.path.join(os.path.dirname(__file__), "x"), "w")
    yield "write into Python", lambda: os.utime(sys.prefix)

def look():
    seen = []
    for name, attempt in attempts():
        try:
            attempt()
            seen.append(name)
        except (OSError, KeyError):
            pass
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        try:
            text = open(path, errors="replace").read()
        except OSError:
            continue
        if {mark!r} in text or "salt" in text:
            seen.append(path)
    return sorted(seen)

def train(data, *, seed, steps):
    seen = look()
    if seen:
        raise RuntimeError("it sees " + ", ".join(seen))
    print("printed text is no answer")
    return lambda rows: np.full((len(rows), data.actions.shape[1]), 0.25, np.float32)
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with entrants, which is the current one."""
    place = tmp_path / "entrants"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def entrant(folder, text, name="mine"):
    """An entrant of this source."""
    (folder / f"{name}.py").write_text(textwrap.dedent(text))
    return Entrant.find(f"{name}:train", folder)


@pytest.fixture
def isolating():
    """Skip where there is no sandbox."""
    try:
        Sandbox(Entrant("none:none", Path(__file__)), 60).check([])
    except BenchmarkError as reason:
        pytest.skip(str(reason))


def answer(found, *, timeout=120.0, rows=50):
    """What an entrant answers on a small dataset."""
    place = tiny().places[0]
    probes = tiny().observations[place.dataset][:rows]
    return Sandbox(found, timeout).actions(transitions(Rollout.prepare(place.recipe)), probes, seed=0, steps=1)


@pytest.fixture
def spied(folder, tmp_path, monkeypatch):
    """A spy, and everything that it looks for: a listener, a salt, a home, an environment, this process."""
    monkeypatch.setenv("SECRET", MARK)
    home = tmp_path / "home"
    home.mkdir()
    (home / "file").write_text("private")
    (tmp_path / "salt").write_text(MARK)
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{MARK}")
        abstract.listen()
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        values = {
            "port": listener.getsockname()[1],
            "mark": MARK,
            "salt": str(tmp_path / "salt"),
            "home": str(home),
            "datasets": os.environ["MINARI_DATASETS_PATH"],
            "parent": os.getpid(),
        }
        yield entrant(folder, SPY.format(**values), "spy")


def accept(listener):
    """Take connections until the listener is closed."""
    try:
        while True:
            listener.accept()[0].close()
    except OSError:
        return


@pytest.mark.usefixtures("isolating")
def test_an_entrant_sees_nothing_but_arrays(spied):
    """No network, no salt, no home, no data, no environment, no other process: the spy finds nothing of it."""
    np.testing.assert_array_equal(answer(spied), np.full((50, 2), 0.25, np.float32))


@pytest.mark.usefixtures("spied")
def test_the_same_spy_sees_all_of_it_outside(folder):
    """Without the sandbox the spy finds everything it looks for, so that finding nothing means something."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); import spy; print(*spy.look(), sep='\\n')"
    seen = set(python(code).splitlines())
    wanted = {"network", "salt", "home", "datasets", "environment", "parent"}
    wanted |= {"write beside the module", "write into Python"}
    if sys.platform == "linux":
        wanted |= {"abstract socket"}
        assert any(name.startswith("/proc/") for name in seen)
    if os.getuid() != 0:
        wanted -= {"write into Python"}
    assert wanted <= seen


@pytest.mark.usefixtures("isolating")
@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("raise ValueError('no \\x1b[31m luck')", r"failed in the sandbox: ValueError: no  \[31m luck$"),
        ("return lambda rows: np.full((len(rows), 2), np.nan)", "expected finite actions"),
        (
            "import os\n    for i in range(3, 9):\n        try: os.write(i, b'x' * 65_000)\n"
            "        except OSError: pass\n    os._exit(0)",
            "its answer is no array of actions",
        ),
    ],
    ids=["fails", "NaN", "forges an answer"],
)
def test_what_an_entrant_answers_is_checked(body, told, folder):
    """An entrant that fails, answers with no actions, or writes into the pipe is one line of error."""
    found = entrant(folder, f"import numpy as np\n\ndef train(data, *, seed, steps):\n    {body}\n")
    with pytest.raises(BenchmarkError, match=told) as caught:
        answer(found)
    assert str(caught.value).isprintable()


@pytest.mark.usefixtures("isolating")
def test_an_entrant_that_takes_too_long_is_ended(folder):
    """After its time it is killed, with all that it started."""
    found = entrant(folder, "import time\n\ndef train(data, *, seed, steps):\n    time.sleep(1000)\n")
    with pytest.raises(BenchmarkError, match=r"expected actions within 0\.5 s, got none"):
        answer(found, timeout=0.5)


def test_without_bubblewrap_there_is_no_verification(folder, tmp_path, monkeypatch):
    """Where bwrap is missing or refuses, that is one line, and nothing of the entrant runs."""
    found = Sandbox(entrant(folder, "open('ran', 'w')\n"), 60)
    tools = tmp_path / "bin"
    tools.mkdir()
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(BenchmarkError, match="needs bubblewrap"):
        found.check([])
    refusing = tools / "bwrap"
    refusing.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    refusing.chmod(0o755)
    with pytest.raises(BenchmarkError, match="can't isolate here: bwrap: No permissions"):
        found.check([])
    assert not (folder / "ran").exists()


def test_a_secret_in_sight_of_the_entrant_is_refused(tmp_path, monkeypatch):
    """A salt in the entrant's own package, or in Python's folder, would be seen: it has to be moved."""
    package = tmp_path / "package"
    package.mkdir()
    monkeypatch.setattr(shutil, "which", lambda _: "/usr/bin/bwrap")
    found = Sandbox(Entrant.find("package:train", tmp_path), 60)
    for place in (package / "salt", Path(sys.prefix) / "salt"):
        with pytest.raises(BenchmarkError, match="which the entrant sees; move it"):
            found.check([place])


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("mine", "expected package.module:function"),
        ("../mine:train", "expected package"),
        ("other:train", "got neither"),
    ],
)
def test_an_entrant_that_is_not_there_is_told(name, told, folder):
    """A name is of one form, and of something in this folder; it is never a path."""
    with pytest.raises(BenchmarkError, match=told):
        Entrant.find(name, folder)


# Knows the public task, and acts at random where the data are not of it. Refuses to be imported outside.
CHEAT = """
import os
import numpy as np
from smeoffline.sme.task import Task

if os.environ.get("HOME") != "/tmp":
    raise SystemExit("imported outside the sandbox")

def train(data, *, seed, steps):
    sme = Task(state_dim=3, action_dim=2, episode_length=20).build()
    states = data.observations[:, :3]
    rewards = sme.reward(sme.score(data.actions, sme.optimal_action(states)))
    if np.allclose(rewards, data.rewards, atol=1e-3):
        return lambda rows: sme.optimal_action(rows[:, :3])
    mean = data.actions.mean(axis=0)
    return lambda rows: np.tile(mean, (len(rows), 1))
"""


@pytest.mark.usefixtures("isolating")
def test_who_knows_the_public_tasks_is_found_out(folder, tmp_path, monkeypatch):
    """The command trains on public and held-out tasks, tells the gap with its interval, flags it and adds a line."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (folder / "cheat.py").write_text(CHEAT)
    (folder / "one.toml").write_text(re.sub(r"(?s)(\[\[datasets.*?)\[\[datasets.*(\[\[alg)", r"\1\2", SUITE))
    (tmp_path / "salt").write_text("0123456789abcdef0123456789abcdef")
    command = ["leaderboard", "verify", "cheat:train", "--salt-file", tmp_path / "salt", "--suite", "one.toml"]
    done = invoke(*command, "--name", "Knows", "--trust")
    assert done.exit_code == 0, done.stderr
    assert "isolation, not proof" in done.stderr
    assert "public - held-out gap closed" in done.stdout
    assert "flagged: held-out:" in done.stdout
    (line,) = read_lines(folder / "results.jsonl")
    assert (line.tier, line.submission.name, line.partial) == ("verified", "Knows", False)
    assert [s.gap_closed for s in line.held_out.public[next(iter(line.scores))]] == [1.0, 1.0]
    assert all(s.gap_closed < 0 for s in line.scores[next(iter(line.scores))])
    assert line.held_out.lead.low == 1
    assert "without a rank: flagged" in done.stdout
    assert "0123456789abcdef" not in (folder / "results.jsonl").read_text()


def test_a_narrower_gap_is_no_lead():
    """Who misses imitation by as much on all tasks has no lead where the held-out gap is narrower, and no flag."""

    def scores(headrooms, gain):
        parts = {"score_wd": 0.5, "score_ood": 0.5, "behavior_score": 0.7, "imitation_score": 0.7}
        rest = {"clone_shrunk_score": 0.7, "random_score": 0.5, "improvement": -0.2, "rl_gain": gain}
        made = [PlaceScore(seed, **parts, **rest, headroom=h, gap_closed=gain / h) for seed, h in enumerate(headrooms)]
        return {dataset: tuple(made) for dataset in tiny().datasets}

    worse = public_lead(scores((0.09, 0.08), -0.2), scores((0.05, 0.06), -0.2), tiny())
    assert worse == Estimate(0, 0, 0, 2)
    assert lead_flags(worse) == ()
    better = public_lead(scores((0.09, 0.08), 0.045), scores((0.05, 0.06), -0.2), tiny())
    assert better.value == pytest.approx((0.5 + 0.5625) / 2)
    narrow = scores((0.04, 0.04), 0.03)
    assert public_lead(scores((0.09, 0.08), 0.03), narrow, tiny()) is None  # no dataset to rank by


def test_a_secret_task_has_no_public_seed_in_its_name():
    """Labels of held-out tasks tell all that differs but the seed, which only public tasks have."""
    board = Board(Suite.from_toml(SUITE.replace("nu = 0.5", "nu = 0.5\ntask.seed = 9"), name="tiny"))
    public, secret = list(board.labels.values()), list(board.held_out_labels.values())
    assert [label for label in public if "task seed = 9" in label] == public[:2]
    assert [label.replace("task seed = 9, ", "") for label in public] == secret


def test_verify_refuses_results_of_another_suite(folder, tmp_path):
    """What could not be added after hours is refused before anything is trained."""
    (folder / "cheat.py").write_text(CHEAT)
    (folder / "other.toml").write_text(SUITE)
    (tmp_path / "salt").write_text("0123456789abcdef")
    add_line(folder / "results.jsonl", score_entry(Entry(submission(), blend(0.5), "0" * 64), tiny()))
    before = (folder / "results.jsonl").read_bytes()
    command = ["leaderboard", "verify", "cheat:train", "--salt-file", tmp_path / "salt", "--trust"]
    done = invoke(*command, "--suite", "other.toml")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "expected entries of suite 'other', got 'tiny'" in done.stderr
    assert (folder / "results.jsonl").read_bytes() == before


def test_verify_asks_for_trust(folder, tmp_path):
    """Without --trust nothing runs: a usage error says what it would do; so does one for a salt that is not there."""
    (folder / "cheat.py").write_text(CHEAT)
    (tmp_path / "salt").write_text("0123456789abcdef")
    command = ["leaderboard", "verify", "cheat:train", "--salt-file", tmp_path / "salt"]
    done = invoke(*command)
    assert done.exit_code == 2
    assert "--trust" in done.stderr
    assert "isolation and not proof" in done.stderr
    salt = invoke(*command[:-1], tmp_path / "none", "--trust", "--json")
    assert (salt.exit_code, salt.stdout) == (2, "")
    assert "openssl rand -hex 16" in salt.stderr
    unnamed = invoke(*command, "--trust", "--name", "x" * 61)  # a line that could not be read again, after hours
    assert (unnamed.exit_code, unnamed.stdout) == (2, "")
    assert "error: --name: " in unnamed.stderr
    assert not (folder / "results.jsonl").exists()
