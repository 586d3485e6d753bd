"""The pages under docs/ do what they say: every block on them runs, in the order of the page."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from command import ROOT, environment
from documents import blocks, check_parses, check_prints, commands, sessions

PAGES = sorted((ROOT / "docs").rglob("*.md"))
IDS = [str(page.relative_to(ROOT / "docs")) for page in PAGES]


def read(page):
    """A page's text."""
    return page.read_text(encoding="utf-8")


def run(block, names):
    """Run one block as its language says, or save it as the file that its title names."""
    if block.language == "console":
        for command, shown in sessions(block.text):
            check_prints(command, shown)
    elif block.language == "python" and block.title is None:
        exec(compile(block.text, "docs", "exec", dont_inherit=True), names)  # noqa: S102 - it is our own
    elif block.language == "sh":
        shell(block.text)
    elif block.language == "json":
        json.loads(block.text)
    elif block.language == "toml" and block.title is None:
        tomllib.loads(block.text)
    elif block.title is not None:
        Path(block.title).write_text(block.text, encoding="utf-8")
        importlib.invalidate_caches()  # a module that was just written is found
    else:
        pytest.fail(f"no way to run a block of {block.language!r}")


def shell(text):
    """Run a block in bash, `sme-offline` and the tools beside this Python on its path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        check=False,
        env=environment(PATH=path),
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(read(page))], ids=lambda p: p.stem)
def test_every_block_on_a_page_runs(page, tmp_path, monkeypatch):
    """The blocks of a page run one after the other, as a reader would type them, and what they claim holds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    names = {"__name__": "docs"}
    try:
        for block in blocks(read(page)):
            run(block, names)
    finally:
        for name in set(sys.modules) - before:  # a page's own modules are not another page's
            if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
                del sys.modules[name]


@pytest.mark.parametrize("page", PAGES, ids=IDS)
def test_every_command_on_a_page_parses(page):
    """Each command, in a block or in the text, names what exists."""
    for line in commands(read(page)):
        check_parses(line)


def test_every_page_is_in_the_navigation():
    """mkdocs.yml lists each page, so that none is lost."""
    listed = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in IDS if f": {name}\n" not in listed] == []
