"""The command line's contract: what it prints, where, with which exit code, and what it imports."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
from command import ROOT, SMALL, invoke, on_a_terminal, python, running
from hypothesis import given
from hypothesis import strategies as st

from smeoffline_cli import main, options, output

HEAVY = ("torch", "numpy", "gymnasium", "minari", "h5py", "d3rlpy", "matplotlib", "rich")


@pytest.mark.parametrize("args", [["--help"], ["generate", "--help"], ["inspect", "--help"], ["--nonsense"]])
def test_help_loads_no_heavy_module(args):
    """Showing help, or refusing an option, imports click and nothing that takes time to load."""
    shown = python(
        "import sys\nfrom smeoffline_cli.main import program\n"
        f"try: program.main({args!r})\nexcept SystemExit: pass\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert shown.splitlines()[-1] == "[]"


def test_importing_the_library_loads_no_heavy_module():
    """`import smeoffline` leaves torch, minari, h5py, d3rlpy and matplotlib for when they are needed."""
    heavy = ("torch", "minari", "h5py", "d3rlpy", "matplotlib", "scipy")
    shown = python(f"import sys, smeoffline; print([m for m in {heavy!r} if m in sys.modules])")
    assert shown.strip() == "[]"


@pytest.mark.parametrize("name", list(main.COMMANDS))
def test_the_list_of_commands_tells_what_their_own_help_tells(name):
    """The one-line summaries, kept apart so that `--help` imports nothing, are the commands' own."""
    command = main.program.get_command(None, name)
    assert command.name == name
    assert command.help.splitlines()[0] == main.COMMANDS[name]
    assert main.COMMANDS[name] in invoke("--help").stdout


def test_every_command_module_is_listed():
    """A module with a command is one that `--help` lists."""
    modules = {path.stem for path in (ROOT / "cli" / "smeoffline_cli").glob("*.py")}
    texts = {m: (ROOT / f"cli/smeoffline_cli/{m}.py").read_text() for m in modules}
    with_command = {m for m, text in texts.items() if "@click.command(" in text or "@click.group(" in text}
    assert with_command - {"main"} == set(main.COMMANDS)


def test_the_defaults_in_help_are_the_library_defaults():
    """Each default that an option's help tells is the default of the field that it fills."""
    from smeoffline.data.behavior import BASES, Behavior
    from smeoffline.data.exploration import EXPLORATIONS
    from smeoffline.data.recipe import Recipe
    from smeoffline.sme.task import Task

    owners = {"task": Task, "behavior": Behavior, "recipe": Recipe}
    for field in options.FIELDS:
        real = {f.name: f.default for f in dataclasses.fields(owners[field.owner])}
        assert field.name in real, field
        if real[field.name] is not None:
            assert field.default == real[field.name], field
    words_of = {field.flag: field.words for field in options.FIELDS}
    assert words_of["--base"] == BASES
    assert words_of["--explore"] == tuple(EXPLORATIONS)


def test_help_lists_every_algorithm_and_every_method():
    """The names that help tells without importing the library are the library's."""
    from smeoffline.score.ope.names import METHODS
    from smeoffline.train.algorithms import ALGORITHMS
    from smeoffline_cli import ope, train

    assert tuple(ALGORITHMS) == train.ALGORITHMS
    assert METHODS == ope.METHODS
    assert ", ".join(ALGORITHMS) in " ".join(invoke("train", "--help").stdout.split())


@pytest.mark.parametrize(
    ("command", "page"),
    [
        (["generate"], "docs/reference/formats.md"),
        (["benchmark"], "docs/reference/formats.md"),
        (["leaderboard", "score"], "docs/leaderboard.md"),
    ],
)
def test_help_names_the_page_about_a_file_that_users_write(command, page):
    """What a file holds is told where it is asked for, and the page with the rest is there."""
    assert page in invoke(*command, "--help").stdout
    assert (ROOT / page).is_file()


def test_help_names_the_keys_of_a_recipe_and_of_a_suite():
    """The keys that help tells are those that the library reads, in its words."""
    from smeoffline.bench.entry import Entry
    from smeoffline.data.behavior import Behavior

    told = {name: " ".join(invoke(name, "--help").stdout.split()) for name in ("generate", "benchmark")}
    behavior = [f.name for f in dataclasses.fields(Behavior) if f.name != "policy_sha256"]
    assert f"[[behavior]] ({', '.join([*behavior, 'share'])})" in told["generate"]
    assert f"[[algorithms]] ({', '.join(f.name for f in dataclasses.fields(Entry))})" in told["benchmark"]


def test_versions_name_what_matters():
    """`--version` tells the versions that a bug report needs."""
    lines = invoke("--version").stdout.splitlines()
    assert lines[0].startswith("sme-offline 0.")
    assert any(line.startswith("torch 2.") for line in lines)


def test_no_arguments_show_help():
    """The bare command shows what it can do, as a usage error."""
    result = invoke()
    assert result.exit_code == 2
    assert "generate" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["genrate"], "generate"),
        (["generate", "--complexty", "3"], "--complexity"),
        (["inspct", "x"], "inspect"),
    ],
)
def test_a_misspelling_is_answered_with_the_nearest_name(args, near):
    """A misspelled command or option gets one line that names the nearest, and exit 2."""
    result = invoke(*args)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert f"'{near}'" in result.stderr


def test_generate_prints_one_json_object_with_the_promised_keys(minari_root):
    """`--json` gives one object on stdout and nothing on stderr; its numbers describe what was written."""
    result = invoke("generate", "--nu", "0.1", *SMALL, "--id", "sme/t-v0", "--json")
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    record = json.loads(result.stdout)
    promised = {
        "dataset_id",
        "path",
        "episodes",
        "transitions",
        "behavior_score",
        "imitation_score",
        "headroom",
        "sha256",
        "seconds",
    }
    assert promised <= set(record)
    assert (record["dataset_id"], record["episodes"], record["transitions"]) == ("sme/t-v0", 3, 15)
    assert record["imitation_score"] + record["headroom"] == pytest.approx(1)
    assert Path(record["path"]) == minari_root / "sme" / "t-v0"
    assert (Path(record["path"]) / "data" / "main_data.hdf5").is_file()


def test_generate_prints_a_table(minari_root):
    """Without `--json` a person reads the id, the path, the hash and the reference rows, best first."""
    result = invoke("generate", "--nu", "0.5", "--sigma", "0.5", *SMALL, "--id", "sme/t-v0")
    assert result.exit_code == 0, result.stderr
    assert str(minari_root / "sme" / "t-v0") in result.stdout
    rows = [line.split("  ")[0] for line in result.stdout.splitlines()]
    order = [
        row for row in rows if row in ("optimal", "clone mean", "clone median", "clone shrunk", "behavior", "random")
    ]
    assert order[0] == "optimal"
    assert order[-2:] == ["behavior", "random"]
    assert all(line == line.rstrip() for line in result.stdout.splitlines())


def test_the_same_options_give_the_same_bytes():
    """Twice the same options, whatever the workers, give one content hash; another seed another one."""
    hashes = [
        json.loads(invoke("generate", "--nu", "0.1", *SMALL, *more, "--overwrite", "--json").stdout)["sha256"]
        for more in ([], ["--workers", "1"], ["--workers", "2"], ["--seed", "1"])
    ]
    assert hashes[0] == hashes[1] == hashes[2] != hashes[3]


def test_options_reach_the_task():
    """Every option of the task and the behavior arrives in the dataset's provenance."""
    typed = {
        "--state-dim": 3,
        "--action-dim": 2,
        "--complexity": 4,
        "--episode-length": 6,
        "--reward-every": 2,
        "--min-reward": 0.25,
        "--kill-threshold": 0.0,
        "--shaping": 0.5,
        "--task-seed": 7,
    }
    flat = [part for pair in typed.items() for part in pair]
    behavior = ["--base", "weights", "--nu", "0.2", "--explore", "gaussian", "--sigma", "0.1"]
    made = invoke("generate", *flat, *behavior, "--episodes", 2, "--seed", 5, "--json")
    assert made.exit_code == 0, made.stderr
    metadata = json.loads((Path(json.loads(made.stdout)["path"]) / "data" / "metadata.json").read_text())
    provenance = metadata["smeoffline"]
    provenance = json.loads(provenance) if isinstance(provenance, str) else provenance
    task = provenance["task"]
    named = {field.flag: task[field.name] for field in options.FIELDS if field.owner == "task"}
    assert named == typed
    acted = provenance["behavior"][0]
    assert (acted["base"], acted["nu"], acted["explore"], acted["sigma"]) == ("weights", 0.2, "gaussian", 0.1)
    assert provenance["dataset"] == {"episodes": 2, "seed": 5}


RECIPE = """
[task]
complexity = 2
episode_length = 5

[[behavior]]
base = "bias"
nu = 0.3

[dataset]
episodes = 4
"""


@pytest.fixture
def recipe(tmp_path):
    """A recipe file."""
    path = tmp_path / "mine.toml"
    path.write_text(RECIPE)
    return path


def test_a_recipe_file_is_followed_and_its_size_seed_and_id_can_be_changed(recipe):
    """`--recipe` says the task and the behavior; `--episodes`, `--seed` and `--id` apply on top."""
    plain = json.loads(invoke("generate", "--recipe", recipe, "--json").stdout)
    assert (plain["episodes"], plain["transitions"]) == (4, 20)
    other = invoke("generate", "--recipe", recipe, "--episodes", 2, "--seed", 9, "--id", "sme/r-v0", "--json")
    changed = json.loads(other.stdout)
    assert (changed["dataset_id"], changed["episodes"], changed["transitions"]) == ("sme/r-v0", 2, 10)
    assert changed["sha256"] != plain["sha256"]


def test_a_recipe_beside_options_that_it_covers_is_a_usage_error(recipe, minari_root):
    """Options that a recipe already decides are refused by name, even at their default value."""
    result = invoke("generate", "--recipe", recipe, "--nu", "0.3", "--complexity", "1")
    assert result.exit_code == 2
    assert "--complexity" in result.stderr
    assert "--nu" in result.stderr
    assert list(minari_root.rglob("*.hdf5")) == []


def test_inspect_accepts_what_generate_wrote():
    """A fresh dataset has no findings, in both output forms."""
    assert invoke("generate", "--nu", "0.1", *SMALL, "--id", "sme/t-v0").exit_code == 0
    text = invoke("inspect", "sme/t-v0")
    assert text.exit_code == 0, text.stderr
    assert "sme/t-v0" in text.stdout
    assert "no state shows two actions" in text.stdout
    assert text.stdout.splitlines()[-1].startswith("ok: ")
    record = json.loads(invoke("inspect", "sme/t-v0", "--json").stdout)
    assert record["ok"] is True
    assert record["findings"] == []
    assert record["scores"]["headroom"] == pytest.approx(1 - record["scores"]["imitation_score"])


def test_inspect_tells_the_episodes_of_each_behavior(tmp_path):
    """Beside the shares of a mixture stand the episodes that its behaviors have got, in both output forms."""
    path = tmp_path / "mixed.toml"
    mixture = "[[behavior]]\nnu = 0.3\nshare = 0.9\n[[behavior]]\nbase = 'random'\nshare = 0.1\n"
    path.write_text(f"[task]\nepisode_length = 5\n{mixture}[dataset]\nepisodes = 5\n")
    assert invoke("generate", "--recipe", path, "--id", "sme/t-v0").exit_code == 0
    assert json.loads(invoke("inspect", "sme/t-v0", "--json").stdout)["behavior_episodes"] == [5, 0]
    assert "behavior episodes      5 (share 0.9000) + 0 (share 0.1000)\n" in invoke("inspect", "sme/t-v0").stdout


def test_inspect_names_the_episode_and_step_of_a_fault(minari_root):
    """One changed reward is found at its place: exit 1, a line a person can read, and the same in JSON."""
    import h5py

    assert invoke("generate", "--nu", "0.1", *SMALL, "--id", "sme/t-v0").exit_code == 0
    with h5py.File(minari_root / "sme" / "t-v0" / "data" / "main_data.hdf5", "r+") as file:
        file["episode_1/rewards"][3] += 1
    text = invoke("inspect", "sme/t-v0")
    assert text.exit_code == 1
    assert any(line.startswith("episode 1, step 3: reward: expected ") for line in text.stdout.splitlines())
    assert text.stderr.startswith("error: ")
    assert text.stderr.count("\n") == 1
    result = invoke("inspect", "sme/t-v0", "--json")
    record = json.loads(result.stdout)
    assert result.exit_code == 1
    assert record["ok"] is False
    assert {"check": "reward", "episode": 1, "step": 3}.items() <= record["findings"][0].items()


def test_nothing_but_the_result_goes_to_a_pipe():
    """Where stderr is no terminal there is no progress bar."""
    with running("generate", *SMALL, "--json") as process:
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0
    assert err == ""
    assert json.loads(out)["episodes"] == 3


def test_a_terminal_sees_progress_with_rate_and_time_left():
    """Where stderr is a terminal a bar shows transitions, rate and time left; stdout stays clean."""
    out, seen = on_a_terminal("generate", "--episodes", "2000", "--json", TERM="xterm")
    assert json.loads(out)["transitions"] == 200_000
    screen = seen.decode()
    assert "/200,000 transitions" in screen
    assert "/s" in screen
    assert "0:00:" in screen


def test_a_closed_pipe_is_quiet():
    """Whoever stops reading early (`| head`) gets no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    with running("--help", stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=60)
    assert err == ""


numbers = st.floats() | st.sampled_from([np.float32("nan"), np.float64(0.5), np.int64(3)])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | numbers,
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
)


@given(values)
def test_every_result_is_json_without_nan(value):
    """Whatever a result holds, what is printed is strict JSON: NaN and infinities are null."""

    def refuse(constant):
        raise AssertionError(constant)

    text = json.dumps(output.plain({"value": value}), allow_nan=False)
    json.loads(text, parse_constant=refuse)


@given(st.floats())
def test_a_cell_never_shows_nan(value):
    """A number that does not exist is a dash in a table; others keep four decimals."""
    shown = output.cell(value)
    assert shown == output.MISSING if not math.isfinite(value) else float(shown) == pytest.approx(value, abs=1e-4)
