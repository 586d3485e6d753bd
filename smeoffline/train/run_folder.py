"""A run's folder, `OUT/<dataset id, / to ->--<algorithm>-s<seed>`: made whole, trained by one at a time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smeoffline.data.policy_file import OnnxPolicy, load_policy
from smeoffline.errors import TrainingError
from smeoffline.train.files import held
from smeoffline.train.record import FILE as RECORD
from smeoffline.train.record import RunRecord, read_run

if TYPE_CHECKING:
    from smeoffline.data.storage.store import Dataset

POLICY = "policy.onnx"
EVALUATION = "evaluation.json"  # of that policy: it goes when training replaces the policy
TRACEBACK = "error.txt"  # of your own algorithm, where it raised
DEPTH = 3  # folders below one that was named: OUT/runs/<cell>/<run> of a benchmark


def run_folder(out: Path, dataset_id: str, algorithm: str, seed: int) -> Path:
    """The folder of a run."""
    plain = re.sub(r"[^A-Za-z0-9._-]", "-", algorithm.replace(":", "."))
    return out / f"{dataset_id.replace('/', '-')}--{plain}-s{seed}"


def runs_in(folder: Path, depth: int = DEPTH) -> list[Path]:
    """The runs in a folder, or the folder itself if it is one.

    Raises:
        TrainingError: There is no such folder.
    """
    if not folder.is_dir():
        raise TrainingError(f"run {folder}: expected the folder of a run, or one with runs in it, got none")
    if (folder / RECORD).is_file():
        return [folder]
    if depth == 0:
        return []
    below = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    return [run for path in below for run in runs_in(path, depth - 1)]


def find_run(folder: Path) -> Path:
    """The only run in a folder, such as the folder of a benchmark's cell; the folder itself where it has none.

    Raises:
        TrainingError: There are several, or there is no such folder.
    """
    found = runs_in(folder)
    if len(found) > 1:
        raise TrainingError(f"run {folder}: expected a folder with one run in it, got {len(found)} runs; name one")
    return found[0] if found else folder  # whoever reads it tells that it is no run


def existing_run(run: Path, resume: bool) -> RunRecord | None:
    """The record of a run that is to be resumed; None where there is none yet.

    Raises:
        TrainingError: There is a run, and `resume` is false; or something that is no run.
        VersionError: Another version wrote it.
    """
    if not run.exists():
        return None
    record = read_run(run)
    if not resume and record.status == "failed":
        raise TrainingError(
            f"run {run}: exists already and failed ({_reason(run, record)}); remove it to start over, or choose "
            "another --out"
        )
    if not resume:
        raise TrainingError(
            f"run {run}: exists already ({record.status}, {record.step} of {record.steps} steps); go on with "
            "--resume, or choose another --out or --seed"
        )
    return record


def open_run(run: str | Path) -> tuple[RunRecord, OnnxPolicy]:
    """A run's record and its policy.

    Raises:
        TrainingError: The folder is no run, or has no policy: it is unfinished, failed, or its own algorithm
            gave a plain callable.
        PolicyError: The policy's file was damaged.
        VersionError: Another version wrote it.
    """
    run = Path(run)
    record = read_run(run)
    if not record.reloadable:
        raise TrainingError(
            f"run {run}: has no policy file, since {record.algorithm} returned a plain callable; "
            "evaluate it in the process that trains it"
        )
    if record.status != "done" or not (run / POLICY).exists():
        why = f" ({_reason(run, record)})" if record.reason is not None else ""
        raise TrainingError(
            f"run {run}: is not finished: {record.status} after step {record.step} of {record.steps}{why}; "
            "go on with --resume"
        )
    dims = {"observation_dim": record.observation_dim, "action_dim": len(record.action_low)}
    return record, load_policy(run / POLICY, **dims)


def _reason(run: Path, record: RunRecord) -> str:
    """Why a run failed, its traceback named where the run's folder is now."""
    return str(record.reason).replace(f"(traceback in {TRACEBACK})", f"(traceback in {run / TRACEBACK})")


def check_same(run: Path, record: RunRecord, wanted: RunRecord) -> None:
    """Refuse to resume as something else than what was begun.

    Raises:
        TrainingError: Another dataset, algorithm, seed or hyperparameter, or fewer steps; the text names it.
    """
    pairs = {
        "dataset": (record.dataset_id, wanted.dataset_id),
        "dataset content (sha256)": (record.dataset_sha256, wanted.dataset_sha256),
        "algorithm": (record.algorithm, wanted.algorithm),
        "seed": (record.seed, wanted.seed),
        "observation channels": (record.observation_dim, wanted.observation_dim),
        "action space": (record.box, wanted.box),
    }
    names = sorted({*record.hyperparameters, *wanted.hyperparameters})
    pairs |= {n: (record.hyperparameters.get(n), wanted.hyperparameters.get(n)) for n in names}
    for name, (was, now) in pairs.items():
        if was != now:
            raise TrainingError(
                f"run {run}: can't resume with other {name}: expected {was}, got {now}; leave it as it was, "
                "or choose another --out"
            )
    check_steps(run, record.step, wanted.steps)


def check_steps(run: Path, made: int, wanted: int) -> None:
    """Refuse to end a run before the step it has reached.

    Raises:
        TrainingError: Fewer steps are wanted than were made.
    """
    if wanted < made:
        raise TrainingError(
            f"run {run}: expected --steps of {made} or more, which it has, got {wanted}; --steps is the total"
        )


def create_run(run: Path, record: RunRecord) -> None:
    """Make a run's folder with its record in it, in one step.

    Raises:
        TrainingError: It can't be written, or another process made it just now.
    """
    temporary = run.with_name(f".{run.name}.{os.getpid()}")
    try:
        run.parent.mkdir(parents=True, exist_ok=True)
        temporary.mkdir()
        record.write(temporary)
        temporary.rename(run)
    except OSError as error:
        raise TrainingError(f"run {run}: can't be written: {error.strerror or error}; choose another --out") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


@contextlib.contextmanager
def training_alone(run: Path) -> Iterator[None]:
    """Be the only process that trains a run.

    Raises:
        TrainingError: Another one does.
    """
    with held(run) as mine:
        if not mine:
            raise TrainingError(f"run {run}: another process is training it now; wait for it, or choose another --out")
        yield


def content_sha256(dataset: Dataset) -> str:
    """What identifies a dataset's content: the hash it states, or one over what trains."""
    stated = (dataset.provenance or {}).get("sha256")
    if isinstance(stated, str):
        return stated
    digest = hashlib.sha256()
    for name in ("lengths", "observations", "actions", "rewards", "terminations"):
        digest.update(np.ascontiguousarray(getattr(dataset, name)).data)
    return digest.hexdigest()
