"""An algorithm for tests of the benchmark: it learns nothing, logs its calls, and misbehaves on demand.

`BENCH_TEST` names a folder. Files in it say what happens to the cell with N_s state channels and seed s:
`fail-N-s` it raises, `die-N-s` its process is killed, `die-once-N-s` only the first time.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np

FOLDER = "BENCH_TEST"
SECONDS = "BENCH_TEST_SECONDS"


def train(data, *, seed, steps):
    """Act in the middle of the cube, whatever the data."""
    del steps
    folder = Path(os.environ[FOLDER])
    cell = f"{data.observations.shape[1] - 2}-{seed}"
    log(folder, f"begin {cell}")
    if (folder / f"fail-{cell}").exists():
        raise ValueError("told to fail,\nin two lines")
    once = folder / f"die-once-{cell}"
    if once.exists():
        once.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    if (folder / f"die-{cell}").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(os.environ.get(SECONDS, "0")))
    log(folder, f"end {cell}")
    actions = data.actions.shape[1]
    return lambda observations: np.full((len(observations), actions), 0.5, np.float32)


def prepare(folder, patch):
    """Make the folder, and let this process and those it starts find it and this module."""
    folder.mkdir(exist_ok=True)
    patch.setenv(FOLDER, str(folder))
    # behind the checkout, which processes need too
    patch.setenv("PYTHONPATH", os.pathsep.join([os.environ["PYTHONPATH"], str(Path(__file__).parent)]))
    return folder


def log(folder, text):
    """Append a line, whole even if other processes append too."""
    with (folder / "log").open("ab", buffering=0) as file:
        file.write(f"{text} {os.getpid()}\n".encode())


def called(folder):
    """The cells it was called for, in order: `N-s`."""
    path = folder / "log"
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.split()[1] for line in lines if line.startswith("begin")]
