"""An entry: who submits what, as JSON that a schema describes, and the actions at every probe.

np.savez("mine.npz", entry=json.dumps({...}), **{"<dataset>--s<seed>": actions, ...})
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from smeoffline.bench.leaderboard import archive
from smeoffline.bench.leaderboard.board import SCHEMA, Board
from smeoffline.errors import BenchmarkError
from smeoffline.sme.arrays import Floats

TEXT = "entry"  # the member that holds the JSON
SCHEMA_FILE = "entry.schema.json"
ROUNDING = 1e-5  # how far beyond [0, 1] an action may lie: `evaluate` allows as much


@dataclass(frozen=True)
class Submission:
    """What an entry says about itself; the schema's file describes the fields.

    Attributes:
        suite: The suite's name.
        name: The entry's.
        algorithm: Its name, or a sentence.
        hyperparameters: One set for all datasets.
        steps: Gradient steps of each run.
        seeds: Of the suite.
        code_version: Of the code that trained.
        probes_sha256: Which probes are answered.
        authors: Their names.
        link: To a paper or a repository; None without one.
        partial: Whether datasets or seeds may be missing: it is listed then, and not ranked.
        schema: Version of the format.
    """

    suite: str
    name: str
    algorithm: str
    hyperparameters: Mapping[str, Any]
    steps: int
    seeds: tuple[int, ...]
    code_version: str
    probes_sha256: str
    authors: tuple[str, ...] = ()
    link: str | None = None
    partial: bool = False
    schema: int = field(default=SCHEMA)

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {**dataclasses.asdict(self), "seeds": list(self.seeds), "authors": list(self.authors)}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Submission:
        """From JSON values in which `schema_faults` has found nothing."""
        known = {f.name for f in dataclasses.fields(cls)}
        values = {name: value for name, value in fields.items() if name in known}
        return cls(**{**values, "seeds": tuple(values["seeds"]), "authors": tuple(values.get("authors", ()))})


@dataclass(frozen=True)
class Entry:
    """An entry without a fault.

    Attributes:
        submission: What it says about itself.
        actions: (12,000, N_a) in [0, 1], by the places' keys.
        sha256: Of the file.
    """

    submission: Submission
    actions: Mapping[str, Floats]
    sha256: str


class EntryError(BenchmarkError):
    """An entry has faults.

    Attributes:
        faults: One sentence each.
    """

    def __init__(self, path: Path, faults: tuple[str, ...]) -> None:
        self.faults = faults
        others = len(faults) - 1
        more = f"; and {others} other fault{'s' if others > 1 else ''}" if others else ""
        super().__init__(f"entry {path}: {faults[0]}{more}")


def write_entry(path: Path, submission: Submission, actions: Mapping[str, Floats], board: Board) -> None:
    """Write an entry's file, if `read_entry` would accept it.

    Raises:
        EntryError: It would not.
        OSError: The file can't be written.
    """
    text = json.dumps(submission.to_dict(), sort_keys=True)
    faults = [*parse(text)[1], *board_faults(submission, frozenset(actions), board)]
    faults += [f"{key!r}: {fault}" for key, array in actions.items() for fault in action_faults(array)]
    if faults:
        raise EntryError(path, tuple(faults))
    archive.write(path, {TEXT: np.array(text), **{key: array.astype("<f4") for key, array in actions.items()}})


def read_entry(path: Path, board: Board) -> Entry:
    """Read a stranger's entry; every fault in it is found, not only the first.

    Raises:
        EntryError: It has faults.
        OSError: There is no such file, or it can't be read.
    """
    found = archive.read(path, board.shapes, TEXT)
    faults = list(found.faults)
    fields: Any = None
    if found.text is not None:
        fields, wrong = parse(found.text)
        faults += wrong
    if fields is not None and fields["suite"] != board.suite.name:  # all other faults follow from it
        told = f"expected suite {board.suite.name!r}, got {fields['suite']!r}; name the entry's suite by --suite"
        raise EntryError(path, (told,))
    if fields is not None:
        faults += board_faults(Submission.from_dict(fields), found.names.intersection(board.shapes), board)
    for key, array in found.arrays.items():
        faults += [f"{key!r}: {fault}" for fault in action_faults(array)]
    if faults or fields is None:
        raise EntryError(path, tuple(faults[: archive.MAX_FAULTS]))
    actions = {key: np.clip(array, 0, 1) for key, array in found.arrays.items()}
    return Entry(Submission.from_dict(fields), actions, hashlib.sha256(path.read_bytes()).hexdigest())


def check_said(submission: Submission) -> None:
    """Refuse what an entry says about itself, before any work is done for it.

    Raises:
        BenchmarkError: The schema has something against a field; the text begins with `entry: ` and its name.
    """
    faults = schema_faults(submission.to_dict())
    if faults:
        raise BenchmarkError(faults[0].replace(repr(TEXT), TEXT, 1))


def parse(text: str) -> tuple[Any, list[str]]:
    """The fields of an entry's JSON, or None; and what is wrong with it."""
    try:
        fields = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None, [f"{TEXT!r}: expected JSON with finite numbers, got something else"]
    faults = schema_faults(fields)
    return (None if faults else fields), faults


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _finite(text: str) -> float:
    """A number that JSON can also write."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


@cache
def schema() -> dict[str, Any]:
    """The JSON schema of an entry's text, which also comes with the package as a file."""
    text = resources.files("smeoffline.bench.leaderboard").joinpath(SCHEMA_FILE).read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def schema_faults(fields: Any) -> list[str]:
    """What the schema has against an entry's fields."""
    from jsonschema import Draft202012Validator

    faults = []
    for error in Draft202012Validator(schema()).iter_errors(fields):
        where = ".".join(str(part)[: archive.SHOWN] for part in error.absolute_path)
        faults.append(f"{TEXT!r}: {f'{where}: ' if where else ''}{_short(_told(error))}")
    return sorted(faults)


def _told(error: Any) -> str:
    """A fault of the schema in words; a pattern of it says nothing to a reader."""
    if list(error.absolute_path) == ["link"]:
        return f"expected an address that begins with https:// or http://, got {error.instance!a}"
    if error.validator == "not":
        return f"expected one line of text without control characters, got {error.instance!a}"
    return str(error.message)


def _short(text: str) -> str:
    """A message that may repeat a stranger's text: printable, and of bounded length."""
    plain = "".join(character if character.isprintable() else "?" for character in text)
    return plain if len(plain) <= 200 else f"{plain[:100]} ... {plain[-90:]}"


def board_faults(submission: Submission, keys: frozenset[str], board: Board) -> list[str]:
    """Whether an entry of this suite answers its probes, and completely."""
    faults = []
    if submission.probes_sha256 != board.probes_sha256:
        faults.append(
            f"{TEXT!r}: expected probes_sha256 {_begin(board.probes_sha256)}, got {_begin(submission.probes_sha256)}; "
            "it answers other probes: make them anew with `leaderboard probes`"
        )
    missing = [place.key for place in board.places if place.key not in keys]
    if missing and not submission.partial:
        faults += [f"{key!r}: is missing" for key in missing]
        faults.append('every dataset needs every seed; with "partial": true an entry is listed and not ranked')
    if not keys:
        faults.append("expected at least one array of actions, got none")
    said, held = set(submission.seeds), {place.seed for place in board.places if place.key in keys}
    if said != held:
        faults.append(f"{TEXT!r}: expected seeds {sorted(held)}, those of the arrays, got {sorted(said)}")
    return faults


def _begin(sha256: str) -> str:
    """Enough of a hash to tell it from another: two whole ones would fill the screen."""
    return f"{sha256[:12]}..."


def action_faults(actions: Floats) -> list[str]:
    """What is wrong with the numbers of one array (n, N_a)."""
    bad = ~np.isfinite(actions)
    if bad.any():
        row, channel = np.argwhere(bad)[0]
        return [f"expected finite actions, got {actions[row, channel]} at probe {row}, channel {channel}"]
    low, high = float(actions.min()), float(actions.max())
    if low < -ROUNDING or high > 1 + ROUNDING:
        return [f"expected actions in [0, 1], got values from {low:g} to {high:g}; scale or clip them"]
    return []
