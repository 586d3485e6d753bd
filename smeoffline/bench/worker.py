"""What a worker does with one cell: its dataset (made once for all), its training, its evaluation.

OUT/results.jsonl     written by the one process that called `run_suite`, never by a worker
OUT/datasets          a Minari root: a benchmark's folder holds all that it needs
OUT/runs/<cell>       the training run; a cell that was broken off goes on from its checkpoint
OUT/.locks            held while a dataset is made or a cell runs; the system frees those of dead processes
"""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smeoffline import __version__
from smeoffline.bench.cell import Cell
from smeoffline.bench.lines import CellResult, CurvePoint
from smeoffline.errors import DatasetExistsError, SmeofflineError

if TYPE_CHECKING:
    from smeoffline.data.recipe import Recipe
    from smeoffline.data.storage.store import Dataset
    from smeoffline.train.transitions import Policy

DATASETS, RUNS, LOCKS = "datasets", "runs", ".locks"
CURVE_FILE = "curve.json"
CURVE_POINTS = 10
CURVE_PROBES = 2_000
EVALUATION_SEED = 0
EVALUATION_PROBES = 10_000

# d3rlpy draws from torch's global generator: two cells in threads of one process would mix their streams.
_ONE_CELL_A_PROCESS = threading.Lock()
_POLL_SECONDS = 0.1

Cancelled = Callable[[], bool]


@dataclass(frozen=True)
class Job:
    """What travels to a worker.

    Attributes:
        cell: What to do.
        out: The benchmark's folder, absolute; workers on other machines see it under the same path.
        fresh: Begin from nothing: the last try failed, and what it left behind may be why.
    """

    cell: Cell
    out: Path
    fresh: bool = False


class CellCancelled(KeyboardInterrupt):
    """The cell was broken off (Ctrl-C, or nobody waits for it any more); its checkpoint stays."""


def run_cell(job: Job, cancelled: Cancelled = lambda: False) -> CellResult:
    """Run a cell to its end, whatever that is.

    Args:
        job: The cell, and where.
        cancelled: Asked a few times a second.

    Returns:
        Its result; a failure is one too.

    Raises:
        CellCancelled: `cancelled()` became true, or Ctrl-C.
    """
    start = time.perf_counter()
    dataset: Dataset | None = None
    with _turn(cancelled), locked(job.out, job.cell.key, cancelled):
        try:
            dataset = ensure_dataset(job.cell.recipe, job.out, cancelled)
            return _train_and_evaluate(job, dataset, cancelled)
        except KeyboardInterrupt:  # training's own tells how to resume a training
            raise CellCancelled from None
        except Exception as fault:  # noqa: BLE001 - one's own algorithm may raise anything; the grid goes on
            return failure(job.cell, _reason(fault, job.out), time.perf_counter() - start, dataset)


def ensure_dataset(recipe: Recipe, out: Path, cancelled: Cancelled = lambda: False) -> Dataset:
    """The cell's dataset, generated if nobody has yet; one of several workers generates, the others wait.

    Raises:
        DatasetError: It can't be written or read.
    """
    from smeoffline.data.generate import generate_recipe
    from smeoffline.data.storage import store

    root = out / DATASETS
    with locked(out, recipe.dataset_id, cancelled), contextlib.suppress(DatasetExistsError):
        # An existing one is refused before any work. A killed writer leaves nothing that would count as one.
        generate_recipe(recipe, workers=1, root=root)
    return store.read(recipe.dataset_id, root=root)


def failure(cell: Cell, reason: str, seconds: float, dataset: Dataset | None = None) -> CellResult:
    """The result of a cell that failed."""
    return _result(cell, dataset, status="failed", reason=reason, evaluation=None, curve=(), seconds=seconds)


def discard_checkpoint(out: Path, cell: str) -> None:
    """Remove what only a continuation would need, some megabytes a cell, once its result is safe."""
    for folder in (out / RUNS / cell).glob("*/checkpoint"):
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def locked(out: Path, name: str, cancelled: Cancelled = lambda: False) -> Iterator[None]:
    """Hold a lock that workers of all processes and machines share; a dead holder does not block.

    Raises:
        CellCancelled: `cancelled()` became true before it was free.
    """
    import filelock

    path = out / LOCKS / f"{name.replace('/', '--')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path)
    while True:
        try:
            lock.acquire(timeout=1.0, poll_interval=_POLL_SECONDS)
            break
        except filelock.Timeout:
            _check(cancelled)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _turn(cancelled: Cancelled) -> Iterator[None]:
    """Wait until no other thread of this process runs a cell."""
    while not _ONE_CELL_A_PROCESS.acquire(timeout=_POLL_SECONDS):
        _check(cancelled)
    try:
        yield
    finally:
        _ONE_CELL_A_PROCESS.release()


def _check(cancelled: Cancelled) -> None:
    if cancelled():
        raise CellCancelled


def _train_and_evaluate(job: Job, dataset: Dataset, cancelled: Cancelled) -> CellResult:
    """Train, or go on where a killed worker stopped, and score the policy."""
    from smeoffline.score.evaluate import evaluate_policy
    from smeoffline.train.run import train

    cell, folder = job.cell, job.out / RUNS / job.cell.key
    own = ":" in cell.algo  # your own algorithm has no checkpoint: it begins again
    if job.fresh or own:
        shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    curve = Curve(folder / CURVE_FILE, cell.recipe)
    trained = train(
        dataset,
        algo=cell.algo,
        seed=cell.seed,
        steps=cell.steps,
        settings=cell.settings,
        out=folder,
        resume=not own,
        checkpoint_every=max(1, cell.steps // CURVE_POINTS),
        progress=lambda *_: _check(cancelled),
        probe=curve.add,
    )
    _check(cancelled)
    start = time.perf_counter()
    evaluation = evaluate_policy(trained.act, cell.recipe, n_probes=EVALUATION_PROBES, seed=EVALUATION_SEED)
    return _result(
        cell,
        dataset,
        status="done",
        reason=None,
        evaluation=evaluation.to_dict(),
        curve=curve.points(),
        seconds=trained.seconds + time.perf_counter() - start,
    )


class Curve:
    """Scores on the way, kept in a file, so that a cell that was broken off keeps its beginning.

    Args:
        path: The file.
        recipe: Whose task scores.
    """

    def __init__(self, path: Path, recipe: Recipe) -> None:
        from smeoffline.sme import probes

        self._path = path
        self._sme = recipe.task.build()
        self._states = probes.within(recipe.task.state_dim, CURVE_PROBES, EVALUATION_SEED)
        self._optimal = self._sme.optimal_action(self._states)
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            self._scores = {int(step): float(score) for step, score in stored.items()}
        except (OSError, ValueError, AttributeError, TypeError, RecursionError):  # not there, or cut off by a crash
            self._scores = {}

    def add(self, step: int, policy: Policy) -> None:
        """Score the policy of a step; one that gives no number leaves no point, and training will say why."""
        from smeoffline.score.evaluate import act_at
        from smeoffline.train.files import write_atomically

        scores = self._sme.score(act_at(policy, self._states), self._optimal)
        score = float(scores.mean(dtype="float64"))
        if not math.isfinite(score):
            return
        self._scores[step] = score
        write_atomically(self._path, json.dumps(self._scores).encode())

    def points(self) -> tuple[CurvePoint, ...]:
        """All so far, by rising step."""
        return tuple(CurvePoint(step, score) for step, score in sorted(self._scores.items()))


def _result(cell: Cell, dataset: Dataset | None, **rest: Any) -> CellResult:
    """A result with what is known of the cell, its data and this machine."""
    from smeoffline.sme.machine import platform_tag
    from smeoffline.train.record import versions

    provenance: Mapping[str, Any] = (dataset.provenance if dataset is not None else None) or {}
    return CellResult(
        **cell.spec(),
        dataset_sha256=provenance.get("sha256"),
        versions={"smeoffline": __version__, **versions()},
        platform=platform_tag(),
        **rest,
    )


def _reason(fault: Exception, out: Path) -> str:
    """Why a cell failed, in one line; an unexpected exception tells where it was raised.

    Paths begin at the benchmark's folder: results are passed on, and where they lay means nothing then.
    """
    text = " ".join(str(fault).split()).replace(f"{out}/", "")
    if isinstance(fault, SmeofflineError):
        return text
    where = traceback.extract_tb(fault.__traceback__)[-1]
    return f"{type(fault).__name__}: {text} ({Path(where.filename).name}, line {where.lineno})"
