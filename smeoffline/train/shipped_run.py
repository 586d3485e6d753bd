"""One run of an algorithm of the table: train, checkpoint, export."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from smeoffline.data.policy_file import load_policy
from smeoffline.errors import TrainingError
from smeoffline.train.algorithms import Algorithm, find_algorithm, resolve_settings
from smeoffline.train.checkpoint import load_checkpoint, save_checkpoint
from smeoffline.train.export import export_policy
from smeoffline.train.interrupt import StopRequest, TrainingInterrupted
from smeoffline.train.job import Ending, Job, TrainedRun
from smeoffline.train.metrics import Metrics
from smeoffline.train.record import RunRecord, read_run
from smeoffline.train.run_folder import EVALUATION, POLICY, check_same, check_steps, create_run, training_alone
from smeoffline.train.trainer import Learner, Trainer, setting_defaults
from smeoffline.train.transitions import Transitions

PIECE_SECONDS = 0.25  # between looks at the progress line


def prepare(
    algorithm: Algorithm, data: Transitions, record: RunRecord, settings: Mapping[str, object]
) -> tuple[Trainer, RunRecord]:
    """Everything that can fail before a folder is made: settings, networks, batches.

    Returns:
        The trainer at step 0, and the record with the hyperparameters.

    Raises:
        SpecError: A setting that the algorithm doesn't have, or a value it can't have.
        TrainingError: No transition that it can use.
    """
    typed = resolve_settings(algorithm, settings, setting_defaults(algorithm))
    learner = Learner(algorithm, record.observation_dim, record.box, typed, record.seed)
    trainer = Trainer(learner, data, record.seed)
    notes = []
    warmup = learner.hyperparameters.get(algorithm.warmup, 0)
    if isinstance(warmup, int) and warmup >= record.steps:
        notes.append(
            f"{algorithm.name} lets the reward reach the policy only after {algorithm.warmup}={warmup} "
            f"steps, and this run has {record.steps}: set {algorithm.warmup} lower"
        )
    return trainer, record.changed(
        settings={k: _plain(v) for k, v in typed.items()},
        hyperparameters={k: _plain(v) for k, v in learner.hyperparameters.items()},
        notes=notes,
    )


def load_learner(run: Path) -> Learner:
    """The networks of a run as of its last checkpoint, critics included, for diagnostics.

    Raises:
        SpecError: It is of no shipped algorithm.
        TrainingError: The folder is no run, or has no checkpoint that fits.
        VersionError: Another version wrote it.
    """
    record = read_run(run)
    algorithm = find_algorithm(record.algorithm)
    state = load_checkpoint(run)
    if state is None:
        raise TrainingError(f"run {run}: has no checkpoint yet; go on with --resume")
    typed = resolve_settings(algorithm, record.settings, setting_defaults(algorithm))
    learner = Learner(algorithm, record.observation_dim, record.box, typed, record.seed)
    _fit(run, lambda: learner.load_state(state["trainer"]["learner"]))
    return learner


def _plain(value: object) -> object:
    """A setting as JSON gives it back."""
    return list(value) if isinstance(value, tuple) else value


def train_shipped(job: Job, trainer: Trainer) -> TrainedRun:
    """Train a prepared trainer to its end, and write its policy."""
    run, record, previous = job.run, job.record, job.previous
    if previous is None:
        create_run(run, record)
    else:
        check_same(run, previous, record)
    policy_file = run / POLICY
    with training_alone(run):
        state = load_checkpoint(run)
        if state is not None:
            _restore(job, trainer, state)
            # not what the run's record says, which a crash may have left behind its checkpoint
            record = record.changed(step=trainer.step, seconds=float(state["seconds"]))
        finished = previous is not None and previous.status == "done" and trainer.step == record.steps
        if finished and policy_file.exists():
            return TrainedRun(
                run, policy_file, trainer.step, record.seconds, load_policy(policy_file), tuple(record.notes)
            )
        with Ending(run, record) as ending:
            _loop(job, trainer, ending, state)
            net = trainer.learner.policy_net()
            metadata = {
                "algorithm": record.algorithm,
                "dataset": record.dataset_id,
                "seed": record.seed,
                "steps": trainer.step,
                "noise": net.noise,
                "versions": record.versions,
            }
            sample = job.data.observations
            (run / EVALUATION).unlink(missing_ok=True)  # of the policy that is replaced
            act = export_policy(net, policy_file, sample=sample, box=record.box, metadata=metadata, straight=True)
    return TrainedRun(run, policy_file, trainer.step, ending.record.seconds, act, tuple(record.notes))


def _restore(job: Job, trainer: Trainer, state: Mapping[str, Any]) -> None:
    """Give a trainer the state of a checkpoint."""
    _fit(job.run, lambda: trainer.load_state(state["trainer"]))
    check_steps(job.run, trainer.step, job.record.steps)


def _fit(run: Path, load: Callable[[], None]) -> None:
    """Load a checkpoint's state into networks it should fit."""
    try:
        load()
    except (KeyError, ValueError, TypeError, RuntimeError) as error:
        line = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TrainingError(
            f"run {run}: its checkpoint doesn't fit this run ({line}); train again with another --out"
        ) from error


def _loop(job: Job, trainer: Trainer, ending: Ending, state: Mapping[str, Any] | None) -> None:
    """Train to the end, piece by piece, with metrics, checkpoints and progress between the pieces."""
    steps, every = job.record.steps, job.checkpoint_every
    seconds = float(state["seconds"]) if state is not None else 0.0
    with StopRequest() as stop, Metrics(job.run, state["metrics"] if state is not None else None) as metrics:
        while trainer.step < steps:
            until = min(steps, trainer.step - trainer.step % every + every)
            start, first = time.perf_counter(), trainer.step
            made = trainer.advance(until, seconds=PIECE_SECONDS, stop=stop)
            elapsed = time.perf_counter() - start
            for i, losses in enumerate(made, start=1):
                _check_losses(losses, first + i)
                metrics.add(losses, seconds + elapsed * i / len(made))
            seconds += elapsed
            if trainer.step == until and job.probe is not None:
                job.probe(trainer.step, trainer.learner.act)  # first: a crash in between repeats it
            if job.progress is not None:
                job.progress(trainer.step, steps, made[-1])
            stopping = stop()
            if trainer.step == until or stopping:
                save_checkpoint(job.run, {"trainer": trainer.state(), "metrics": metrics.state(), "seconds": seconds})
                ending.note(step=trainer.step, seconds=seconds)
            if stopping:
                break
        if stop():  # after the last step too: whoever trains several runs is to stop here
            raise TrainingInterrupted(
                f"training stopped after step {trainer.step} of {steps}, which is kept in {job.run}; run "
                "the same command with --resume to go on"
            )
        metrics.end(seconds)


def _check_losses(losses: Mapping[str, float], step: int) -> None:
    """Fail on NaN or infinity: nothing that follows means anything."""
    for name, value in losses.items():
        if not math.isfinite(value):
            raise TrainingError(
                f"training failed: expected a finite {name}, got {value} at step {step}; try a lower "
                "learning rate with another --out, or after removing this run"
            )
