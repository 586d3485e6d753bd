"""A suite whose cells take no time, and its command as a process, for tests of the benchmark."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from pathlib import Path

import bench_algorithm
from command import environment, running

from smeoffline.bench.results import FILE_NAME, read_results
from smeoffline.bench.suite import Suite

TINY = """
seeds = {seeds}
steps = {steps}
[[datasets]]
task.state_dim = {sizes}
task.episode_length = 5
behavior.nu = 0.1
dataset.episodes = 4
[[algorithms]]
name = "{algo}"
"""


def toml(algo="bench_algorithm:train", sizes=(1, 2), seeds=2, steps=10):
    """A suite whose cells are told apart by N_s and seed."""
    return TINY.format(algo=algo, sizes=list(sizes), seeds=seeds, steps=steps)


def suite(**changes):
    """The suite of `toml`."""
    return Suite.from_toml(toml(**changes), name="tiny")


def names(cells):
    """`N-s` of results, as the algorithm logs them."""
    return sorted(f"{cell.task['state_dim']}-{cell.seed}" for cell in cells)


@contextlib.contextmanager
def benchmark(folder, *args, **env):
    """`sme-offline benchmark` on a file in `folder`, in a session of its own."""
    with running(
        "benchmark",
        folder / "tiny.toml",
        "--out",
        folder / "out",
        *args,
        env=environment(PYTHONPATH=os.environ["PYTHONPATH"], **env),
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd=folder,
    ) as process:
        yield process


def done_in(out):
    """Cells with a line, read as the file stands."""
    path = out / FILE_NAME
    return names(read_results(path).done) if path.exists() else []


def wait_for(condition, seconds=60):
    """Wait until a condition holds."""
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it took too long"
        time.sleep(0.02)


def writers(out):
    """Processes whose command line or environment names a benchmark's folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{bench_algorithm.FOLDER}={out.parent}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return [pid for pid in found if pid != os.getpid()]
