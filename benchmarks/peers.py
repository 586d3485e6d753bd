"""The published package, installed without its dependencies into a scratch folder, as a peer to measure."""

from __future__ import annotations

import contextlib
import importlib
import io
import subprocess
import sys
import types
from pathlib import Path

REQUIREMENT = "sme-rl==0.1.0"


def published_package(scratch: Path) -> types.ModuleType | None:
    """The module `sme_rl.sme`, or None (with a message) where it can't be installed."""
    target = scratch / "sme-rl"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), REQUIREMENT]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "pip failed"
        print(f"skipped: {REQUIREMENT} can't be installed here ({reason})")
        return None
    sys.path.insert(0, str(target))
    return importlib.import_module("sme_rl.sme")


def make_env(module: types.ModuleType, complexity: int, seed: int = 1):  # noqa: ANN201 - the peer has no types
    """Its environment at the default sizes, without what it prints."""
    with contextlib.redirect_stdout(io.StringIO()):
        return module.SME(8, 4, policy_complexity=complexity, seed=seed)
