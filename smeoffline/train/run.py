"""Train: from a dataset and an algorithm to a run with a policy."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import SpecError
from smeoffline.sme.task import SEED_LIMIT, whole_number
from smeoffline.train import own
from smeoffline.train.algorithms import Algorithm, find_algorithm
from smeoffline.train.job import Job, Probe, Progress, TrainedRun
from smeoffline.train.own_run import train_own
from smeoffline.train.record import RunRecord, versions
from smeoffline.train.run_folder import content_sha256, existing_run, run_folder
from smeoffline.train.transitions import Transitions

if TYPE_CHECKING:
    from smeoffline.data.storage.store import Dataset

DEFAULT_STEPS = 10_000
CHECKPOINT_EVERY = 5_000
MAX_STEPS = 10**9


def train(
    dataset: str | Path | Dataset,
    *,
    algo: str | own.Train,
    seed: int = 0,
    steps: int = DEFAULT_STEPS,
    settings: Mapping[str, object] | None = None,
    out: str | Path = "runs",
    resume: bool = False,
    checkpoint_every: int = CHECKPOINT_EVERY,
    progress: Progress | None = None,
    probe: Probe | None = None,
    tell: Callable[[str], None] | None = None,
) -> TrainedRun:
    """Train an algorithm on a dataset.

    Args:
        dataset: An id, a folder, or one that was read already.
        algo: A name of `ALGORITHMS`; or your own, as `module:function` or as the function itself.
        seed: In [0, 2^32): weights, batches and whatever the algorithm draws.
        steps: The total, also when resuming.
        settings: Hyperparameters by d3rlpy's names, and `hidden_units` as (256, 256); text is parsed. None
            for the defaults, or when resuming for those of the run.
        out: Parent of the run's folder.
        resume: Go on from the last checkpoint, or extend; where there is no run yet, begin one.
        checkpoint_every: Steps between checkpoints; it changes no result.
        progress: Called a few times a second, and at the end, with step, steps and the losses of the step.
        probe: Called every `checkpoint_every` steps and at the end with the step and the policy as it is, to
            draw a learning curve; it changes nothing about the training. Your own algorithm, which trains in
            one go, never calls it.
        tell: Called before training with what may surprise: that there is no run to resume.

    Returns:
        The finished run.

    Raises:
        SpecError: The algorithm is unknown; or a setting, the seed or a number of steps is wrong.
        DatasetError: The dataset can't be used; a subclass says why.
        TrainingError: The run exists and `resume` is false, it can't be resumed as asked, or training failed
            (the run's status says so too).
        PolicyError: The policy has wrong shapes or values, or can't be exported.
        VersionError: Another version wrote the run.
        TrainingInterrupted: Ctrl-C (a KeyboardInterrupt); the last checkpoint is kept.
    """
    seed = whole_number("train", "seed", seed, 0, SEED_LIMIT - 1)
    steps = whole_number("train", "steps", steps, 1, MAX_STEPS)
    checkpoint_every = whole_number("train", "checkpoint_every", checkpoint_every, 1, MAX_STEPS)
    name, algorithm = _find(algo)
    read = _read(dataset) if isinstance(dataset, (str, Path)) else dataset
    run = run_folder(Path(out), read.id, name, seed)
    previous = existing_run(run, resume)
    if settings is None:
        settings = previous.settings if previous is not None else {}
    box = ActionBox.of(read)
    data = Transitions.from_dataset(read)
    record = RunRecord(
        dataset_id=read.id,
        dataset_path=str(read.path),
        dataset_sha256=content_sha256(read),
        algorithm=name,
        seed=seed,
        steps=steps,
        observation_dim=data.observations.shape[1],
        action_low=list(box.low),
        action_high=list(box.high),
        versions=versions(),
    )
    work: Callable[[Job], TrainedRun]
    if isinstance(algorithm, Algorithm):
        from smeoffline.train.shipped_run import prepare, train_shipped  # torch, and d3rlpy

        trainer, record = prepare(algorithm, data, record, settings)
        work = functools.partial(train_shipped, trainer=trainer)
    elif settings:
        raise SpecError(f"setting: your own algorithm {name!r} takes none, got {', '.join(sorted(settings))}")
    else:
        work = functools.partial(train_own, train=algorithm)
    if resume and previous is None and tell is not None:  # not before all that can be refused was looked at
        tell(f"no run in {run}, training from the start")
    return work(Job(run, record, data, previous, checkpoint_every, progress, probe))


def _find(algo: str | own.Train) -> tuple[str, Algorithm | own.Train]:
    """The name of an algorithm, and the row of the table or the function it stands for."""
    if not isinstance(algo, str):
        name = own.name_of(algo)
        own.check_signature(name, algo)
        return name, algo
    return algo, own.find_train(algo) if ":" in algo else find_algorithm(algo)


def _read(dataset: str | Path) -> Dataset:
    """Read a dataset; the store is imported late, since it loads h5py and minari."""
    from smeoffline.data.storage import store

    found: Dataset = store.read(dataset)
    return found
