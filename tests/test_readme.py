"""The README does what it says: its commands parse, its output is what they print, its Python runs."""

from __future__ import annotations

import json
import re
import statistics

import pytest
from command import ROOT, SMALL, invoke
from documents import blocks, check_parses, check_prints, commands, sessions

README = (ROOT / "README.md").read_text(encoding="utf-8")
PYTHON = [block.text for block in blocks(README, "python")]
SESSIONS = [session for block in blocks(README, "console") for session in sessions(block.text)]


def test_there_are_commands_to_check():
    """The patterns find the README's commands and their output."""
    assert len(commands(README)) >= 5
    assert len(SESSIONS) >= 2
    assert PYTHON


@pytest.mark.parametrize("line", commands(README))
def test_every_command_in_the_readme_parses(line):
    """Each command names an existing subcommand, options that it has, and values that they take."""
    check_parses(line)


def test_the_make_targets_in_the_readme_exist():
    """Each `make TARGET` is one that the Makefile has."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z]+)", README, flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def test_the_output_in_the_readme_is_what_the_commands_print():
    """Running the console blocks prints their text, with scores within 0.001 on any machine."""
    for command, shown in SESSIONS:
        assert shown, f"{command}: the README shows no output"
        check_prints(command, shown)


def test_the_python_in_the_readme_runs(tmp_path, monkeypatch):
    """The README's Python, its blocks in order, runs and asserts what it says; what makes a dataset runs again."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    making = [block for block in PYTHON if "so.generate(" in block]
    assert making
    for block in PYTHON + making:  # what one defines, the next may use
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)  # noqa: S102 - it is our own


def result(name, key):
    """The mean of a number over the seeds of reports/algorithms, for a row of the README's table."""
    text = (ROOT / "reports" / "algorithms" / "results.jsonl").read_text(encoding="utf-8")
    cells = [cell for cell in map(json.loads, text.splitlines()) if cell["status"] == "done"]
    plain = name.lower().replace("+", "plus")
    algo, variant = ("plas", "warmup1000") if plain.startswith("plas") else (plain, None)
    if name.startswith("*"):  # a reference row; the same for every algorithm
        algo, base = "bc", {"over": "behavior_score", "gain": "imitation_score"}.get(key)
        found = [
            (c["evaluation"][f"{name.strip('*')}_score"], c["evaluation"].get(base, 0))
            for c in cells
            if c["algo"] == algo
        ]
        assert len(found) == 3
        return statistics.fmean(value - less for value, less in found)
    field = {"score": "score_wd", "over": "improvement", "gain": "rl_gain"}[key]
    found = [c["evaluation"][field] for c in cells if (c["algo"], c["variant"]) == (algo, variant)]
    assert len(found) == 3
    return statistics.fmean(found)


def test_the_results_in_the_readme_are_those_of_the_report():
    """Each number of the table is the mean over the seeds of the committed results, best row first."""
    rows = re.findall(r"^\| (\S.*?) \| ([\d.]+) \| (\S+) \| (\S+) \|$", README, flags=re.MULTILINE)
    assert len(rows) >= 10
    for name, *told in rows:
        numbers = [float(text.replace("−", "-")) for text in told]
        assert numbers == pytest.approx([result(name, key) for key in ("score", "over", "gain")], abs=5.1e-4), name
    scores = [float(score) for _, score, *_ in rows]
    assert scores == sorted(scores, reverse=True)


def test_table_1_in_the_readme_is_that_of_the_report():
    """Each cell of the README's Table 1, and how many agree with the paper, is what the committed report has."""
    record = json.loads((ROOT / "reports" / "table1" / "report.json").read_text(encoding="utf-8"))
    cells = {(cell["nu"], cell["complexity"], cell["row"]): cell for cell in record["cells"]}
    told = {}
    pattern = r"^\| (0|0\.1) \| (\d+) \| (.+?) \| (.+?) \| (.+?) \|$"
    for nu, complexity, *row in re.findall(pattern, README, flags=re.MULTILINE):
        told |= {(float(nu), int(complexity), key): text for key, text in zip(("bp", "bc", "iql"), row, strict=True)}
    assert told == {key: f"{cell['mean']:.3f} ({cell['paper_mean']:.3f})" for key, cell in cells.items()}
    agree = sum(cell["within"] for cell in cells.values())
    assert f"{'All' if agree == len(cells) else agree} {len(cells)} cells" in README.replace(" of ", " ")
    seeds = {cell["n"] for cell in cells.values()}
    assert f"means over {f'{min(seeds)} to ' if len(seeds) > 1 else ''}{max(seeds)} seeds" in " ".join(README.split())


def test_the_algorithm_in_the_readme_is_the_example():
    """The README shows examples/own_algorithm.py, which other tests train, in at most 20 lines of code."""
    (shown,) = [block for block in PYTHON if "def train(" in block]
    assert (ROOT / "examples" / "own_algorithm.py").read_text(encoding="utf-8").endswith(shown)
    assert len([line for line in shown.splitlines() if line.strip()]) <= 20


def test_the_algorithm_in_the_readme_trains_from_the_command_line(tmp_path, monkeypatch):
    """Saved as a module, it is found in the current folder, trains, and its run can be scored."""
    (shown,) = [block for block in PYTHON if "def train(" in block]
    (tmp_path / "readme_algorithm.py").write_text(shown, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    made = json.loads(invoke("generate", "--nu", "0.3", "--sigma", "0.3", *SMALL, "--json").stdout)
    trained = invoke("train", made["dataset_id"], "--algo", "readme_algorithm:train", "--steps", "20", "--json")
    assert trained.exit_code == 0, trained.stderr
    scored = invoke("evaluate", json.loads(trained.stdout)["run"], "--probes", "100", "--json")
    assert 0 < json.loads(scored.stdout)["score_wd"] < 1
