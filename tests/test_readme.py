"""The README does what it says: its commands parse, its output is what they print, its Python runs."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from itertools import zip_longest

import click
import pytest
from command import ROOT, SMALL, invoke

from smeoffline_cli import main

README = (ROOT / "README.md").read_text(encoding="utf-8")
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?")
UNSTABLE = ("path", "sha256", "seconds")  # fields that differ from run to run or from machine to machine


def blocks(language):
    """The README's fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def commands():
    """Every `sme-offline ...` line in a block or in `code`, comments dropped."""
    lines = re.findall(r"^(?: {4}|\$ )?(sme-offline .+)$", README, flags=re.MULTILINE)
    inline = re.findall(r"`(sme-offline [^`\n]+)`", README)
    return [line.split("  #")[0].rstrip() for line in [*lines, *inline]]


def sessions():
    """Each `$ command` of the console blocks with the output that stands under it."""
    found = []
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            found.append((command, shown.rstrip("\n")))
    return found


def test_there_are_commands_to_check():
    """The patterns find the README's commands and their output."""
    assert len(commands()) >= 5
    assert len(sessions()) >= 2
    assert blocks("python")


@pytest.mark.parametrize("line", commands())
def test_every_command_in_the_readme_parses(line):
    """Each command names an existing subcommand, options that it has, and values that they take."""
    words = shlex.split(line)[1:]
    program = main.program.make_context("sme-offline", list(words), resilient_parsing=True)
    command = main.program.get_command(program, words[0])
    assert command is not None, words[0]
    with contextlib.suppress(click.exceptions.Exit):  # how `--help` ends
        command.make_context(words[0], words[1:], parent=click.Context(main.program))


def test_the_make_targets_in_the_readme_exist():
    """Each `make TARGET` is one that the Makefile has."""
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z]+)", README, flags=re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def words_and_numbers(line):
    """A line without its numbers, and its numbers."""
    return " ".join(NUMBER.sub("#", line).split()), [float(m[0].replace(",", "")) for m in NUMBER.finditer(line)]


def test_the_output_in_the_readme_is_what_the_commands_print():
    """Running the console blocks prints their text, with scores within 0.001 on any machine."""
    for command, shown in sessions():
        result = invoke(*shlex.split(command)[1:])
        for ours, theirs in zip_longest(shown.splitlines(), result.stdout.splitlines(), fillvalue="<nothing>"):
            if ours.split()[:1] == theirs.split()[:1] and ours.split()[:1] and ours.split()[0] in UNSTABLE:
                continue
            words, numbers = words_and_numbers(ours)
            printed_words, printed_numbers = words_and_numbers(theirs)
            assert words == printed_words, command
            assert numbers == pytest.approx(printed_numbers, abs=1e-3), (command, ours)


def test_the_python_in_the_readme_runs(tmp_path, monkeypatch):
    """The README's Python, its blocks in order, runs and asserts what it says; what one defines, the next may use."""
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "readme"}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec", dont_inherit=True), names)  # noqa: S102 - it is our own


def test_the_algorithm_in_the_readme_is_the_example():
    """The README shows examples/own_algorithm.py, which other tests train, in at most 20 lines of code."""
    (shown,) = [block for block in blocks("python") if "def train(" in block]
    assert (ROOT / "examples" / "own_algorithm.py").read_text(encoding="utf-8").endswith(shown)
    assert len([line for line in shown.splitlines() if line.strip()]) <= 20


def test_the_algorithm_in_the_readme_trains_from_the_command_line(tmp_path, monkeypatch):
    """Saved as a module, it is found in the current folder, trains, and its run can be scored."""
    (shown,) = [block for block in blocks("python") if "def train(" in block]
    (tmp_path / "readme_algorithm.py").write_text(shown, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    made = json.loads(invoke("generate", "--nu", "0.3", "--sigma", "0.3", *SMALL, "--json").stdout)
    trained = invoke("train", made["dataset_id"], "--algo", "readme_algorithm:train", "--steps", "20", "--json")
    assert trained.exit_code == 0, trained.stderr
    scored = invoke("evaluate", json.loads(trained.stdout)["run"], "--probes", "100", "--json")
    assert 0 < json.loads(scored.stdout)["score_wd"] < 1
