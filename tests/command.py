"""Running `sme-offline` in tests: in this process, or as one of its own from the checkout."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

from click.testing import CliRunner

from smeoffline_cli import main

# What the installed script does. (`python -m` ends by SIGINT where a KeyboardInterrupt left an exec() of text
# even though it was caught, as in the definition of a dataclass: a quirk of CPython.)
SCRIPT = (sys.executable, "-c", "from smeoffline_cli.main import main; main()")
ROOT = Path(__file__).parents[1]
SMALL = ("--episodes", "3", "--episode-length", "5")


def invoke(*args):
    """Run the command in this process; returns click's result, stdout and stderr apart."""
    return CliRunner().invoke(main.program, [str(a) for a in args])


def environment(**more):
    """This process's environment, with the checkout on Python's path."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "cli")]), **more}


@contextmanager
def running(*args, env=None, **kwargs):
    """The command as a process of its own, which does not outlive the test."""
    with subprocess.Popen(
        [*SCRIPT, *map(str, args)],
        env=env if env is not None else environment(),
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **kwargs},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def on_a_terminal(*args, **env):
    """The command with a terminal for its stderr: what it printed to stdout, and the bytes the terminal received."""
    ours, theirs = pty.openpty()
    seen = b""
    with running(*args, stderr=theirs, env=environment(COLUMNS="120", **env)) as process:
        os.close(theirs)
        try:
            while part := os.read(ours, 65536):
                seen += part
        except OSError:
            pass  # Linux's way to say that the other end of a pty is closed
        out, _ = process.communicate(timeout=120)
    os.close(ours)
    assert process.returncode == 0
    return out, seen


def python(code, *, check=True, timeout=None):
    """Run Python code in a process of its own; returns what it printed."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=check, timeout=timeout)
    return done.stdout
