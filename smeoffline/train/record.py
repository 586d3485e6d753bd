"""`run.json`: what a run is, how far it came, and how it ended."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import TrainingError, VersionError
from smeoffline.train.files import write_atomically

FILE = "run.json"
SCHEMA = 1
STATUSES: Final = ("running", "done", "failed", "interrupted")
PACKAGES = ("smeoffline", "torch", "d3rlpy", "numpy", "onnx", "onnxruntime")


@dataclass(frozen=True)
class RunRecord:
    """A run's spec and state.

    Attributes:
        dataset_id: What it trains on.
        dataset_path: Where that lay.
        dataset_sha256: Of the dataset's content; resuming on other data is refused.
        algorithm: A name of the table, or `module:function`.
        seed: Of everything that is drawn.
        steps: How many it is to have.
        observation_dim: D.
        action_low: Bounds of the action space.
        action_high: As above.
        settings: Hyperparameters that were given.
        hyperparameters: All of them.
        step: How many it has, as of the last checkpoint.
        status: `running`, `done`, `failed` or `interrupted`. A process that was killed leaves `running`.
        reason: Why it failed.
        seconds: Training time in seconds, all sittings together.
        reloadable: Whether `policy.onnx` holds the policy; a plain callable of your own algorithm is in none.
        notes: What a reader of its results should know.
        versions: Of what it trained with.
    """

    dataset_id: str
    dataset_path: str
    dataset_sha256: str
    algorithm: str
    seed: int
    steps: int
    observation_dim: int
    action_low: list[float]
    action_high: list[float]
    settings: dict[str, Any] = field(default_factory=dict)
    hyperparameters: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    status: str = "running"
    reason: str | None = None
    seconds: float = 0.0
    reloadable: bool = True
    notes: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def box(self) -> ActionBox:
        """The action space."""
        return ActionBox(tuple(self.action_low), tuple(self.action_high))

    def write(self, run: Path) -> None:
        """Replace a run's record."""
        text = json.dumps({"schema": SCHEMA, **dataclasses.asdict(self)}, indent=2)
        write_atomically(run / FILE, (text + "\n").encode())

    def changed(self, **changes: Any) -> RunRecord:
        """A copy with other values."""
        return dataclasses.replace(self, **changes)


def read_run(run: Path) -> RunRecord:
    """The record of a run.

    Raises:
        TrainingError: The folder is no run, or its record is damaged.
        VersionError: Another version wrote it.
    """
    path = run / FILE
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise TrainingError(
            f"run {run}: expected a folder with {FILE}, got none; is it the folder of a run?"
        ) from error
    except (ValueError, OSError, RecursionError) as error:
        raise TrainingError(f"run {run}: {FILE} is damaged ({error}); train again into another folder") from error
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise VersionError(
            f"run {run}: expected {FILE} of schema {SCHEMA}, got {schema!r}; train again, or use the "
            "version that wrote it"
        )
    return _checked(run, found)


def _checked(run: Path, found: dict[str, Any]) -> RunRecord:
    """The record in a parsed file, each field of its type."""
    kinds: dict[str, Any] = {
        "str": str,
        "int": int,
        "float": (int, float),
        "bool": bool,
        "str | None": (str, type(None)),
        "dict[str, Any]": dict,
        "dict[str, str]": dict,
        "list[float]": list,
        "list[str]": list,
    }
    values = {}
    for spec in dataclasses.fields(RunRecord):
        if spec.name not in found:
            raise TrainingError(
                f"run {run}: {FILE} is damaged: {spec.name!r} is missing; train again into another folder"
            )
        value = found[spec.name]
        kind = kinds[str(spec.type)]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise TrainingError(
                f"run {run}: {FILE} is damaged: expected {spec.name!r} of type {spec.type}, got {value!r}"
            )
        values[spec.name] = value
    if values["status"] not in STATUSES:
        raise TrainingError(
            f"run {run}: {FILE} is damaged: expected a status of {', '.join(STATUSES)}, got {values['status']!r}"
        )
    return RunRecord(**values)


def versions() -> dict[str, str]:
    """Python and the packages a result depends on; those not installed as packages are left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
