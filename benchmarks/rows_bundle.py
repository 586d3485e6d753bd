"""Benchmark rows of bundles: installing against unzip and sha256sum, and the memory that it all takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from measure import Row, compare

import smeoffline as so
from smeoffline.data.bundle.install import install as install_bundle
from smeoffline.data.bundle.pack import pack

DATASET = "bench/bundled-v0"
EPISODES = 10_000  # of 100 steps: a million transitions, 94 MB
MEMORY_LIMIT_MIB = 512


def _bundle(scratch: Path) -> Path:
    """A bundle of a million transitions."""
    file = scratch / "bundle.zip"
    if not file.exists():
        so.generate(so.Task(), so.Behavior(nu=0.3, sigma=0.3), episodes=EPISODES, dataset_id=DATASET)
        pack([DATASET], file)
    return file


def install(scratch: Path) -> Iterator[Row]:
    """Install and verify a million transitions, against `sha256sum` and `unzip` of the same file."""
    sha256sum, unzip = shutil.which("sha256sum"), shutil.which("unzip")
    if sha256sum is None or unzip is None:
        print("install: unzip or sha256sum is not installed; skipped")
        return
    file, plain = _bundle(scratch), scratch / "plain"

    def ours() -> int:
        install_bundle([str(file)], overwrite=True)
        return EPISODES * 100

    def theirs() -> int:
        shutil.rmtree(plain, ignore_errors=True)
        subprocess.run([sha256sum, file], check=True, capture_output=True)
        subprocess.run([unzip, "-q", file, "-d", plain], check=True, capture_output=True)
        return EPISODES * 100

    yield compare("install a bundle, against unzip + sha256sum", "transitions", ours, theirs, 1 / 1.5)


def memory(scratch: Path) -> Iterator[Row]:
    """Peak memory of packing, and of installing, a million transitions, each in a process of its own (on Linux)."""
    file = _bundle(scratch)
    again, elsewhere = scratch / "again.zip", scratch / "elsewhere"
    for name, work in (
        ("pack", f"from smeoffline.data.bundle.pack import pack; pack([{DATASET!r}], Path({str(again)!r}))"),
        ("verify", f"from smeoffline.data.bundle.verify import verify; verify({str(file)!r})"),
        ("install", f"from smeoffline.data.bundle.install import install; install([{str(file)!r}])"),
    ):
        # the peak of this program alone: what getrusage tells includes that of the process it was started by
        code = (
            f"from pathlib import Path; {work}; "
            "print(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])"
        )
        env = {**os.environ, "MINARI_DATASETS_PATH": str(elsewhere)} if name == "install" else None
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
        peak = int(done.stdout) / 1024  # KiB on Linux
        ratio = MEMORY_LIMIT_MIB / peak
        yield Row(
            f"memory limit over peak, {name} 1 M steps", "MiB", MEMORY_LIMIT_MIB, peak, ratio, (ratio, ratio), 1.0
        )
