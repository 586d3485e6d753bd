"""One line of results: a cell that was done or that failed, as JSON and as a frozen record.

Needs no torch: reports are made where nothing is trained.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from smeoffline.data.recipe import Recipe
from smeoffline.errors import BenchmarkError, PolicyError, SpecError, VersionError, nearest

SCHEMA = 1
LARGEST = 1e12  # of any number of an evaluation; seeds and returns are below it

Label = str | int | float | None


@dataclass(frozen=True)
class CurvePoint:
    """A score on the way.

    Attributes:
        step: Training steps so far.
        score_wd: Mean score on uniform probes.
    """

    step: int
    score_wd: float


@dataclass(frozen=True)
class CellResult:
    """One line of results: a cell that was done, or that failed.

    Attributes:
        suite: The suite's name.
        cell: The cell's unique key; never parsed.
        status: `done` or `failed`.
        reason: Why it failed, in one line; None if done.
        dataset_id: What it trained on.
        dataset_name: The same without the seed: equal for all seeds of a dataset.
        task: `Task.to_dict()`.
        behavior: `Behavior.to_dict()` of each behavior, with its share.
        dataset: Its number of episodes and seed.
        dataset_sha256: Of its content; None where it was never made.
        algo: A known algorithm's name, or `module:attr`.
        variant: Tells two settings of one algorithm apart; None where there is one.
        settings: Hyperparameters that differ from the algorithm's defaults.
        seed: The suite's seed.
        steps: Training steps.
        evaluation: `Evaluation.to_dict()`; None if it failed.
        curve: Scores on the way; may be empty.
        seconds: Wall time of the call that finished it.
        versions: Of the packages that made it.
        platform: The machine that made it.
    """

    suite: str
    cell: str
    status: Literal["done", "failed"]
    reason: str | None
    dataset_id: str
    dataset_name: str
    task: Mapping[str, Any]
    behavior: Sequence[Mapping[str, Any]]
    dataset: Mapping[str, Any]
    dataset_sha256: str | None
    algo: str
    variant: str | None
    settings: Mapping[str, Any]
    seed: int
    steps: int
    evaluation: Mapping[str, Any] | None
    curve: Sequence[CurvePoint]
    seconds: float
    versions: Mapping[str, str]
    platform: Mapping[str, str]

    @property
    def done(self) -> bool:
        """Whether it has an evaluation."""
        return self.status == "done"

    def label(self, name: str) -> Label:
        """One of `LABELS` by name.

        Raises:
            SpecError: No such label; has the nearest.
        """
        if name in _OWN:
            value: Label = getattr(self, name)
        elif name in _OF_TASK:
            value = self.task[name]
        elif name in _OF_BEHAVIOR:
            value = self.behavior[0][name] if len(self.behavior) == 1 else None
        elif name == "label":
            value = self.algo if self.variant is None else f"{self.algo} {self.variant}"
        else:
            raise SpecError(
                f"results: expected a label, one of {', '.join(LABELS)}, got {name!r}{nearest(name, LABELS)}"
            )
        return value

    def metric(self, name: str) -> float | None:
        """A number of the evaluation by name; None where the evaluation has null.

        Raises:
            SpecError: Not a number of an evaluation (with the nearest), or the cell failed.
        """
        if self.evaluation is None:
            raise SpecError(f"results: cell {self.cell!r} failed and has no {name}")
        value = self.evaluation.get(name)
        if name not in self.evaluation or not (value is None or _is_number(value)):
            known = [key for key, number in self.evaluation.items() if number is None or _is_number(number)]
            raise SpecError(f"results: no metric {name!r}{nearest(name, known)} (known: {', '.join(known)})")
        return None if value is None else float(value)

    def to_line(self) -> str:
        """One line of JSON, without its end; `parse_line` is the inverse."""
        record = {"schema": SCHEMA, **dataclasses.asdict(self)}
        return json.dumps(record, allow_nan=False)


_OWN = ("suite", "dataset_id", "dataset_name", "algo", "variant", "seed", "steps")
_OF_TASK = ("state_dim", "action_dim", "complexity", "episode_length", "reward_every", "shaping")
_OF_BEHAVIOR = ("base", "nu", "explore", "sigma")  # None where several behaviors are mixed
LABELS = (*_OWN, "label", *_OF_TASK, *_OF_BEHAVIOR)


def parse_line(line: bytes | str) -> CellResult:
    """A cell's result from one line.

    Raises:
        BenchmarkError: Not a JSON object, or a field is missing or of the wrong kind.
        VersionError: A newer schema.
    """
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise BenchmarkError("expected a JSON object, got something else") from None
    if not isinstance(record, dict):
        raise BenchmarkError(f"expected a JSON object, got {type(record).__name__}")
    schema = record.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise BenchmarkError(f"expected a schema number, got {schema!r}")
    if schema > SCHEMA:
        raise VersionError(f"expected schema {SCHEMA} or older, got {schema}; upgrade smeoffline to read it")
    fields = {}
    for name, (kinds, expected) in _KINDS.items():
        value = record.get(name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise BenchmarkError(f"expected {name} to be {expected}, got {value!r}")
        fields[name] = value
    try:
        json.dumps({**fields, "evaluation": None}, allow_nan=False)
    except ValueError:
        raise BenchmarkError("expected finite numbers, got NaN or infinity") from None
    return _checked(CellResult(**{**fields, "curve": _curve(fields["curve"])}))


_TEXT = (str, "text")
_OPTIONAL_TEXT = ((str, type(None)), "text or null")
_WHOLE = (int, "a whole number")
_TABLE = (dict, "an object")
_LIST = (list, "a list")
_KINDS: Mapping[str, tuple[Any, str]] = {
    "suite": _TEXT,
    "cell": _TEXT,
    "status": _TEXT,
    "reason": _OPTIONAL_TEXT,
    "dataset_id": _TEXT,
    "dataset_name": _TEXT,
    "task": _TABLE,
    "behavior": _LIST,
    "dataset": _TABLE,
    "dataset_sha256": _OPTIONAL_TEXT,
    "algo": _TEXT,
    "variant": _OPTIONAL_TEXT,
    "settings": _TABLE,
    "seed": _WHOLE,
    "steps": _WHOLE,
    "evaluation": ((dict, type(None)), "an object or null"),
    "curve": _LIST,
    "seconds": ((int, float), "a number"),
    "versions": _TABLE,
    "platform": _TABLE,
}


def _curve(points: list[Any]) -> tuple[CurvePoint, ...]:
    try:
        return tuple(CurvePoint(int(point["step"]), float(point["score_wd"])) for point in points)
    except (TypeError, KeyError, ValueError, OverflowError):
        raise BenchmarkError("expected curve to be a list of {step, score_wd}, got something else") from None


def _checked(found: CellResult) -> CellResult:
    """What holds between the fields, and what labels rely on."""
    if found.status not in ("done", "failed"):
        raise BenchmarkError(f"expected status done or failed, got {found.status!r}")
    if found.done != (found.evaluation is not None):
        raise BenchmarkError(f"expected an evaluation exactly if done, got status {found.status!r}")
    for name in _OF_TASK:
        if not _is_number(found.task.get(name)):
            raise BenchmarkError(f"expected task {name} to be a number, got {found.task.get(name)!r}")
    behaviors = found.behavior
    if not behaviors or not all(isinstance(b, dict) and all(n in b for n in _OF_BEHAVIOR) for b in behaviors):
        raise BenchmarkError(f"expected behavior to be objects with {', '.join(_OF_BEHAVIOR)}, got {behaviors!r}")
    try:
        Recipe.from_dict({"task": found.task, "behavior": behaviors, "dataset": found.dataset})
    except (SpecError, PolicyError) as fault:
        raise BenchmarkError(f"expected a task, behavior and dataset that exist: {fault}") from None
    for name, value in (found.evaluation or {}).items():
        if _is_number(value) and abs(value) > LARGEST:  # what is no number at all, the reader of a metric tells
            raise BenchmarkError(f"expected {name} to be at most {LARGEST:g} in size, got {str(value)[:20]}")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
