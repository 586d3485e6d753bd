"""What happens before a command does anything: help, completion, colors, variables of the environment."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess

import click
import pytest
from click.shell_completion import ShellComplete
from command import ROOT, SMALL, environment, invoke, on_a_terminal, python, running

from smeoffline_cli import main

HEAVY = ("torch", "numpy", "gymnasium", "minari", "h5py", "d3rlpy", "matplotlib", "rich", "packaging", "psutil")
COLOR = re.compile(rb"\x1b\[[0-9;]*3[0-7][0-9;]*m|\x1b\[[0-9;]*38;")


def test_no_help_loads_a_heavy_module():
    """Neither the program's nor any command's nor any subcommand's."""
    shown = python(
        "import sys, click\n"
        "from smeoffline_cli.main import COMMANDS, program\n"
        "def helps(command, words):\n"
        "    yield [*words, '--help']\n"
        "    for name in getattr(command, 'commands', {}):\n"
        "        yield [*words, name, '--help']\n"
        "every = [['--help']]\n"
        "for name in COMMANDS:\n"
        "    every += helps(program.get_command(click.Context(program), name), [name])\n"
        "for words in every:\n"
        "    try: program.main(words)\n"
        "    except SystemExit as end: assert end.code == 0, words\n"
        f"print(len(every), [m for m in {HEAVY!r} if m in sys.modules])"
    )
    count, loaded = shown.splitlines()[-1].split(" ", 1)
    assert int(count) > len(main.COMMANDS) + 4
    assert loaded == "[]"


def test_versions_load_no_torch():
    """`--version` reads installed metadata; it names what decides results."""
    shown = python(
        "import sys\nfrom smeoffline_cli.main import program\n"
        "try: program.main(['--version'])\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'minari', 'h5py', 'd3rlpy', 'onnxruntime') if m in sys.modules])"
    )
    named = {line.split()[0] for line in shown.splitlines()[:-1]}
    assert {"numpy", "torch", "d3rlpy", "minari", "gymnasium", "onnxruntime"} <= named
    assert shown.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["plot", "run", ".", "-o", "x.jpg"], "--out 'x.jpg': expected a name that ends in .svg or .png"),
        (["evaluate", ".", "--values", "--figure", "x.pdf"], "--figure 'x.pdf': expected a name that ends in .svg"),
        (["ope", "sme/x-v0", "optimal", "--methods", "foo"], "--methods: expected methods of fqe, pdis,"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_is_wrong_on_its_face_is_told_before_anything_heavy_is_loaded(words, said):
    """A file of a kind that can't be written and an unknown method are usage errors, at once."""
    shown = python(
        "import sys\nsys.stderr = sys.stdout\nfrom smeoffline_cli.main import program\n"
        f"try: program.main({words!r})\nexcept SystemExit as end: print(end.code)\n"
        "print([m for m in ('torch', 'minari', 'h5py', 'd3rlpy', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    error, code, loaded = shown.splitlines()
    assert error.startswith(f"error: {said}")
    assert (code, loaded) == ("2", "[]")


def offered(*words):
    """What TAB offers after these words, the last of them incomplete."""
    completion = ShellComplete(main.program, {}, "sme-offline", "_SME_OFFLINE_COMPLETE")
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("",), list(main.COMMANDS)),
        (("plot", ""), ["behaviors", "dataset", "run", "task"]),
        (("train", "x", "--algo", "td"), ["td3", "td3plusbc"]),
        (("benchmark", "smo"), ["smoke"]),
        (("generate", "--recipe", "table1-c10-"), ["table1-c10-nu0", "table1-c10-nu0p1"]),
        (("generate", "--complex"), ["--complexity"]),
        (("generate", "--base", "b"), ["bias"]),
        (("generate", "--explore", ""), ["none", "probit", "gaussian", "uniform", "ou"]),
        (("bundle", "install", "s"), ["sample"]),
        (("leaderboard", "probes", "v"), ["v1", "v1-slow"]),
        (("leaderboard", "score", "x.npz", "--suite", "v"), ["v1", "v1-slow"]),
        (("leaderboard", "submit", "x", "--suite", "ga"), ["gain"]),
        (("ope", "x", "b"), ["behavior"]),
        (("ope", "x", "--methods", "w"), ["wis", "wpdis"]),
        (("ope", "x", "--methods", "fqe,wis,w"), ["fqe,wis,wpdis"]),
        (("genrate", "--"), ["--version", "--help"]),  # a misspelling is no traceback in the prompt
    ],
)
def test_the_shell_is_offered_what_fits(words, expected):
    """Commands, options, and the names and words that they take, where they begin with what was typed."""
    found = offered(*words)
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("command", [["inspect"], ["train"], ["plot", "dataset"], ["evaluate", "x", "--dataset"]])
def test_the_shell_is_offered_datasets(command, minari_root):
    """Ids of the datasets that are there, whatever else lies beside them; where none fits, files."""
    for name in ("sme/a-v0", "sme/b-v0"):
        assert invoke("generate", *SMALL, "--id", name).exit_code == 0
    (minari_root / "stray-v0" / "data").mkdir(parents=True)
    assert offered(*command, "sme/") == ["sme/a-v0", "sme/b-v0"]
    assert offered(*command, "sme/b") == ["sme/b-v0"]
    assert offered(*command, "./d") == ["./d"]


@pytest.mark.parametrize("command", [["plot", "run"], ["evaluate"], ["evaluate", "x"], ["leaderboard", "submit"]])
def test_the_shell_is_offered_runs(command, tmp_path, monkeypatch):
    """Folders below `runs`, where `train` puts them."""
    (tmp_path / "runs" / "one").mkdir(parents=True)
    (tmp_path / "runs" / "one" / "run.json").touch()
    monkeypatch.chdir(tmp_path)
    assert offered(*command, "") == offered(*command, "runs/") == ["runs/one"]
    assert offered("ope", "x", "") == ["runs/one", "behavior", "optimal"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(shell):
    """The documented variable prints it; where the shell is installed, it accepts it."""
    env = environment(_SME_OFFLINE_COMPLETE=f"{shell}_source")
    with running(env=env) as process:
        script, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"_SME_OFFLINE_COMPLETE={shell}_complete" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


@pytest.mark.parametrize(
    ("words", "offer"),
    [
        ("inspect s", "sme/a-v0"),
        ("bundle install s", "sample"),
        ("train x --algo i", "iql"),
        ("leaderboard probes sm", "smoke"),
    ],
)
def test_completion_is_light(words, offer):
    """At a TAB neither torch nor minari nor d3rlpy is loaded, and nothing but offers is printed."""
    assert invoke("generate", *SMALL, "--id", "sme/a-v0").exit_code == 0
    shown = python(
        "import os, sys\nfrom smeoffline_cli.main import main\n"
        f"os.environ.update(COMP_WORDS='sme-offline {words}', COMP_CWORD='{len(words.split())}')\n"
        "os.environ.update(_SME_OFFLINE_COMPLETE='bash_complete')\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print([m for m in ('torch', 'minari', 'h5py', 'd3rlpy', 'scipy', 'matplotlib') if m in sys.modules])"
    )
    assert shown.splitlines() == [f"plain,{offer}", "[]"]


def test_every_variable_of_the_environment_is_told():
    """`--help` lists each that the source reads, and no other but those of click and rich."""
    sources = [path for room in ("smeoffline", "cli") for path in (ROOT / room).rglob("*.py")]
    pattern = re.compile(r"""(?:environ(?:\.get\(|\[)|getenv\()["'](\w+)["']""")
    read = {name for path in sources for name in pattern.findall(path.read_text(encoding="utf-8"))}
    told = set(re.findall(r"^  ([A-Z_]+) ", main.ENVIRONMENT, flags=re.MULTILINE))
    assert read <= told
    assert told - read == {"NO_COLOR", "_SME_OFFLINE_COMPLETE"}
    shown = invoke("--help").stdout
    assert all(name in shown for name in told)


def colored(monkeypatch, **env):
    """What a terminal with colors receives on stderr while a dataset is generated."""
    monkeypatch.delenv("NO_COLOR", raising=False)
    out, seen = on_a_terminal("generate", "--episodes", "500", "--overwrite", "--json", TERM="xterm-256color", **env)
    assert "\x1b" not in out
    return seen


def test_a_terminal_sees_colors_unless_it_asks_for_none(monkeypatch):
    """The progress bar is colored on a terminal; with NO_COLOR set it is there, without colors."""
    assert COLOR.search(colored(monkeypatch))
    plain = colored(monkeypatch, NO_COLOR="1")
    assert b"transitions" in plain
    assert COLOR.search(plain) is None


def test_a_group_is_imported_only_when_it_is_called():
    """`smeoffline_cli.main` alone imports no command."""
    shown = python(
        "import sys, smeoffline_cli.main; print([m for m in sys.modules if m.startswith('smeoffline_cli.')])"
    )
    names = {name.rpartition(".")[2] for name in re.findall(r"'([\w.]+)'", shown)}
    assert names.isdisjoint(main.COMMANDS)
    for name in main.COMMANDS:
        assert isinstance(importlib.import_module(f"smeoffline_cli.{name}").command, click.Command)
