"""One run of your own algorithm: call it, check its policy, write what can be written."""

from __future__ import annotations

import time
import traceback
from pathlib import Path

from smeoffline.data.policy_file import load_policy
from smeoffline.errors import SmeofflineError, TrainingError
from smeoffline.train import own
from smeoffline.train.interrupt import TrainingInterrupted
from smeoffline.train.job import Ending, Job, TrainedRun
from smeoffline.train.run_folder import EVALUATION, POLICY, TRACEBACK, check_same, create_run, training_alone
from smeoffline.train.transitions import Policy

PLAIN_CALLABLE = (
    "the policy is a plain callable, which no file can hold: evaluate it in the process that trained it, or "
    "return a torch.nn.Module or an object with to_onnx(path)"
)


def train_own(job: Job, train: own.Train) -> TrainedRun:
    """Call a user's algorithm and keep its policy.

    It has no checkpoints: to resume is to begin again, unless the run is done with the same number of steps.

    Raises:
        TrainingError: It raised; the traceback is in the run's folder.
        PolicyError: What it returned is no policy.
        TrainingInterrupted: Ctrl-C.
    """
    run, record, previous = job.run, job.record, job.previous
    policy_file = run / POLICY
    if previous is None:
        create_run(run, record)
    else:
        check_same(run, previous, record)
        if previous.status == "done" and previous.steps == record.steps and policy_file.exists():
            return TrainedRun(run, policy_file, record.steps, previous.seconds, load_policy(policy_file))
    start = time.perf_counter()
    with training_alone(run), Ending(run, record) as ending:
        for stale in (policy_file, run / EVALUATION, run / TRACEBACK):
            stale.unlink(missing_ok=True)
        act, returned = _call(job, train)
        metadata = {
            "algorithm": record.algorithm,
            "dataset": record.dataset_id,
            "seed": record.seed,
            "steps": record.steps,
            "versions": record.versions,
        }
        sample = job.data.observations
        written = own.save_policy(returned, policy_file, sample=sample, box=record.box, metadata=metadata)
        notes = [] if written else [PLAIN_CALLABLE]
        seconds = time.perf_counter() - start
        ending.note(step=record.steps, seconds=seconds, reloadable=written, notes=notes)
    return TrainedRun(run, policy_file if written else None, record.steps, seconds, act, tuple(notes))


def _call(job: Job, train: own.Train) -> tuple[Policy, object]:
    """Call a user's algorithm; whatever it raises becomes one line, and its traceback a file."""
    record, name = job.record, job.record.algorithm
    try:
        return own.run_train(train, job.data, record.box, seed=record.seed, steps=record.steps)
    except SmeofflineError:
        raise
    except KeyboardInterrupt as error:
        raise TrainingInterrupted(
            f"{name} was stopped before it returned a policy; run the same with --resume to start over"
        ) from error
    except (Exception, SystemExit) as error:  # a call of sys.exit must not end the run unrecorded
        place = _keep_traceback(job.run, error)
        raise TrainingError(
            f"algorithm {name}: raised {type(error).__name__}: {error} (traceback in {place})"
        ) from error


def _keep_traceback(run: Path, error: BaseException) -> Path:
    """Write a traceback where its author finds it."""
    path = run / TRACEBACK
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
    return path
