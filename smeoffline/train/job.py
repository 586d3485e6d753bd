"""What passes between the parts of a training run: the job, its result, and how it ended."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.train.record import RunRecord
from smeoffline.train.transitions import Policy, Transitions

Progress = Callable[[int, int, Mapping[str, float]], None]
Probe = Callable[[int, Policy], None]


@dataclass(frozen=True)
class TrainedRun:
    """A finished run.

    Attributes:
        run: Its folder.
        policy: Its policy's file; None where your own algorithm returned a plain callable.
        steps: How many it trained, in all.
        seconds: Training time in seconds, all sittings together.
        act: The policy itself.
        notes: What a reader of its results should know.
    """

    run: Path
    policy: Path | None
    steps: int
    seconds: float
    act: Policy
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON values, without the policy itself."""
        return {
            "run": str(self.run),
            "policy": str(self.policy) if self.policy is not None else None,
            "steps": self.steps,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Job:
    """What is to be trained, with everything checked that can be before a folder is made.

    Attributes:
        run: The run's folder.
        record: What it is to become.
        data: What it trains on.
        previous: The record of the run that is resumed; None for a new one.
        checkpoint_every: Steps between checkpoints.
        progress: Called with step, steps and losses.
        probe: Called with the step and the policy every `checkpoint_every` steps and at the end.
    """

    run: Path
    record: RunRecord
    data: Transitions
    previous: RunRecord | None
    checkpoint_every: int
    progress: Progress | None
    probe: Probe | None = None


class Ending:
    """Writes into `run.json` how the work inside it ended.

    Args:
        run: The run's folder.
        record: Its record, written at once.
    """

    def __init__(self, run: Path, record: RunRecord) -> None:
        self._run = run
        self.record = record

    def __enter__(self) -> Ending:
        """Itself."""
        self.record.write(self._run)
        return self

    def note(self, **changes: Any) -> None:
        """Change the record, and write it."""
        self.record = self.record.changed(**changes)
        self.record.write(self._run)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            self.note(status="done")
            return
        with contextlib.suppress(OSError):  # a full disk: the first error is the one to tell
            if isinstance(error, KeyboardInterrupt):
                self.note(status="interrupted")
            else:
                # what is in the run's folder is named from there: where that lies now may change
                text = str(error).strip().replace(f"{self._run}{os.sep}", "")
                self.note(status="failed", reason=text.splitlines()[0] if text else type(error).__name__)
