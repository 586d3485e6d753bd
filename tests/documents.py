"""Reading documents in tests: their fenced blocks, the commands in them, and what those print."""

from __future__ import annotations

import contextlib
import re
import shlex
from dataclasses import dataclass
from itertools import zip_longest

import click
import pytest
from command import invoke

from smeoffline_cli import main, paths

FENCE = re.compile(
    r'^```(?P<language>\w+)(?: title="(?P<title>[\w./-]+)")?\n(?P<text>.*?)^```', re.MULTILINE | re.DOTALL
)
NUMBER = re.compile(r"-?\d[\d,]*(\.\d+)?")
UNSTABLE = ("path", "sha256", "seconds")  # fields that differ from run to run or from machine to machine


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it stands for (or None), and its text."""

    language: str
    title: str | None
    text: str


def blocks(document, language=None):
    """The fenced blocks of a document, all or those of one language."""
    found = [Block(m["language"], m["title"], m["text"]) for m in FENCE.finditer(document)]
    return [block for block in found if language in (None, block.language)]


def commands(document):
    """Every `sme-offline ...` line in a block or in `code`, comments dropped."""
    lines = re.findall(r"^(?: {4}|\$ )?(sme-offline .+)$", document, flags=re.MULTILINE)
    inline = re.findall(r"`(sme-offline [^`\n]+)`", document)
    return [line.split("  #")[0].rstrip() for line in [*lines, *inline]]


def sessions(text):
    """Each `$ command` of a console block with the output that stands under it."""
    found = []
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, _, shown = part.partition("\n")
        found.append((command, shown.rstrip("\n")))
    return found


def check_parses(line):
    """Assert that a command names subcommands that exist, options that they have and values that those take."""
    words, command, context = shlex.split(line)[1:], main.program, None
    while isinstance(command, click.Group) and not words[0].startswith("-"):
        context = click.Context(command, info_name=command.name, parent=context)
        name, *words = words
        command = command.get_command(context, name)
        assert command is not None, name
    with contextlib.suppress(click.exceptions.Exit), pytest.MonkeyPatch.context() as patch:  # how `--help` ends
        for kind in (paths.Existing, paths.NewFile, paths.Folder):  # a page's files are not here
            patch.setattr(kind, "convert", click.Path.convert)
        named = paths.Shipped.convert
        patch.setattr(paths.Shipped, "convert", lambda self, v, *more: v if ".toml" in v else named(self, v, *more))
        command.make_context(command.name, words, parent=context)


def check_prints(command, shown):
    """Run a command and assert that it succeeds and prints what stands under it, scores within 0.001."""
    result = invoke(*shlex.split(command)[1:])
    assert result.exit_code == 0, (command, result.stderr)
    if not shown:
        return
    for ours, theirs in zip_longest(shown.splitlines(), result.stdout.splitlines(), fillvalue="<nothing>"):
        if ours.split()[:1] == theirs.split()[:1] and ours.split()[:1] and ours.split()[0] in UNSTABLE:
            continue
        words, numbers = words_and_numbers(ours)
        printed_words, printed_numbers = words_and_numbers(theirs)
        assert words == printed_words, command
        assert numbers == pytest.approx(printed_numbers, abs=1e-3), (command, ours)


def words_and_numbers(line):
    """A line without its numbers, and its numbers."""
    return " ".join(NUMBER.sub("#", line).split()), [float(m[0].replace(",", "")) for m in NUMBER.finditer(line)]
