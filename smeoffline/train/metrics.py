"""`metrics.jsonl`: one line every 100 steps, readable while the run trains, equal after any interruption.

    {"step": 100, "seconds": 1.25, "rate": 80.1, "losses": {"actor_loss": 0.31, "critic_loss": 0.02}}

`losses` are means over the steps since the line before; `seconds` counts training, all sittings together;
`rate` is steps per second since the line before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from smeoffline.errors import TrainingError
from smeoffline.train.files import write_atomically

FILE = "metrics.jsonl"
EVERY = 100
_NOTHING: Mapping[str, Any] = {"step": 0, "line_seconds": 0.0, "sums": {}, "counts": {}}


class Metrics:
    """Means of losses, and the file they go to.

    Args:
        run: The run's folder.
        state: What `state()` gave when the checkpoint was written; None at a run's start.
    """

    def __init__(self, run: Path, state: Mapping[str, Any] | None = None) -> None:
        self._path = run / FILE
        given: Mapping[str, Any] = state if state is not None else _NOTHING
        self._step = int(given["step"])
        self._line_seconds = float(given["line_seconds"])
        self._sums: dict[str, float] = dict(given["sums"])
        self._counts: dict[str, int] = dict(given["counts"])
        self._line_step = self._step - self._step % EVERY
        write_atomically(self._path, "".join(_kept(self._path, self._step)).encode())
        self._file = self._path.open("a", encoding="utf-8")

    def __enter__(self) -> Metrics:
        """Itself; leaving closes the file."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, so that the next line is the one that would have been."""
        return {
            "step": self._step,
            "line_seconds": self._line_seconds,
            "sums": dict(self._sums),
            "counts": dict(self._counts),
        }

    def add(self, losses: Mapping[str, float], seconds: float) -> None:
        """Count one step.

        Args:
            losses: Of the step; an algorithm may give other names in other steps.
            seconds: Training time so far.
        """
        self._step += 1
        for name, value in losses.items():
            self._sums[name] = self._sums.get(name, 0.0) + value
            self._counts[name] = self._counts.get(name, 0) + 1
        if self._step % EVERY == 0:
            self._write(seconds)
            self._sums, self._counts = {}, {}
            self._line_step, self._line_seconds = self._step, seconds

    def end(self, seconds: float) -> None:
        """Write a last line for the steps since the one before, if any; a resumed run replaces it."""
        if self._step > self._line_step:
            self._write(seconds)

    def _write(self, seconds: float) -> None:
        elapsed = seconds - self._line_seconds
        line = {
            "step": self._step,
            "seconds": round(seconds, 3),
            "rate": round((self._step - self._line_step) / elapsed, 3) if elapsed > 0 else None,
            "losses": {name: total / self._counts[name] for name, total in sorted(self._sums.items())},
        }
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """The lines of a run so far; one that is being written just now is left out.

    Raises:
        TrainingError: Something else than lines of JSON objects; a run's other files may still be sound.
    """
    try:
        text = (run / FILE).read_text(encoding="utf-8")
        lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
        if not all(isinstance(line, dict) for line in lines):
            raise ValueError("a line that is no object")
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as fault:
        raise TrainingError(f"run {run}: {FILE} is damaged ({fault}); train again into another folder") from None
    return lines


def _kept(path: Path, step: int) -> list[str]:
    """The lines that an uninterrupted run would have at a step."""
    kept = []
    if path.exists():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True):
            try:
                at = json.loads(line)["step"]
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off by a crash
            if at <= step and at % EVERY == 0:
                kept.append(line)
    return kept
