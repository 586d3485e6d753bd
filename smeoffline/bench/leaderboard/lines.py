"""The leaderboard's own results: one JSON object a line, one line an entry. Needs no torch."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from smeoffline.bench.journal import append_line
from smeoffline.bench.leaderboard.entry import Submission, schema, schema_faults
from smeoffline.bench.leaderboard.flags import KINDS
from smeoffline.bench.leaderboard.place_score import PlaceScore, Scores
from smeoffline.errors import BenchmarkError, VersionError
from smeoffline.score.statistics import Estimate

SCHEMA = 1
FILE = "results.jsonl"
MAX_BYTES = 256 * 2**20
SELF_REPORTED, VERIFIED = "self-reported", "verified"
LARGEST = 1e6  # of any number; scores are far below it


@dataclass(frozen=True)
class HeldOut:
    """What a verification tells beside the held-out scores.

    Attributes:
        draw: Names the secret draw of tasks, without telling it: entries of one draw have the same tasks.
        public: Scores of the same algorithm on the public datasets.
        lead: Public minus held-out gap closed: the mean over datasets with headroom, controls left out; None
            without any.
    """

    draw: str
    public: Scores
    lead: Estimate | None

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        lead = None if self.lead is None else dataclasses.asdict(self.lead)
        return {"draw": self.draw, "public": _plain(self.public), "lead": lead}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> HeldOut:
        """From JSON values that the schema of a line admits."""
        lead = None if fields["lead"] is None else Estimate(**fields["lead"])
        return cls(fields["draw"], _scores(fields["public"]), lead)


@dataclass(frozen=True)
class Line:
    """One entry with its scores.

    Attributes:
        submission: What it says about itself.
        tier: `self-reported` or `verified`.
        scores: Dataset -> scores of each seed: from the optimum, of public tasks, or of held-out ones.
        kinds: Dataset -> what it is used for (`flags.kind`).
        labels: Dataset -> what a person calls it.
        partial: Whether a dataset or seed of the suite is missing.
        flags: Why it is flagged, one sentence each.
        entry_sha256: Of the file that was scored; None for a verified one.
        held_out: Of a verified entry, else None.
    """

    submission: Submission
    tier: str
    scores: Scores
    kinds: Mapping[str, str]
    labels: Mapping[str, str]
    partial: bool
    flags: tuple[str, ...]
    entry_sha256: str | None
    held_out: HeldOut | None

    @property
    def key(self) -> tuple[str, str, str]:
        """What a newer line of the same entry replaces."""
        return self.submission.suite, self.tier, self.submission.name

    def to_dict(self) -> dict[str, Any]:
        """JSON values; `parse_line` is the inverse."""
        held = self.held_out
        return {
            "schema": SCHEMA,
            "suite": self.submission.suite,
            "tier": self.tier,
            "name": self.submission.name,
            "flagged": bool(self.flags),
            "flags": list(self.flags),
            "partial": self.partial,
            "entry": self.submission.to_dict(),
            "entry_sha256": self.entry_sha256,
            "kinds": dict(self.kinds),
            "labels": dict(self.labels),
            "scores": _plain(self.scores),
            "held_out": None if held is None else held.to_dict(),
        }


def _plain(scores: Scores) -> dict[str, Any]:
    return {dataset: [dataclasses.asdict(score) for score in seeds] for dataset, seeds in scores.items()}


def add_line(path: Path, line: Line) -> None:
    """Add a line to a results file, which may not exist yet.

    Raises:
        BenchmarkError: The file holds something else than results of the leaderboard, or those of another suite.
        OSError: The file system refuses; the file is as it was.
    """
    check_suite(path, line.submission.suite)
    append_line(path, json.dumps(line.to_dict(), allow_nan=False).encode())


def check_suite(path: Path, suite: str) -> None:
    """Refuse a results file that can't take an entry of a suite, before any work; one may not exist yet.

    Raises:
        BenchmarkError: It holds entries of another suite, or something else than results.
    """
    others = [line.submission.suite for line in read_lines(path)] if path.exists() else []
    if any(other != suite for other in others):
        raise BenchmarkError(
            f"leaderboard results {str(path)!r}: expected entries of suite {suite!r}, got "
            f"{' and '.join(map(repr, sorted({*others} - {suite})))}; name another file by --results"
        )


def read_lines(path: Path) -> list[Line]:
    """The entries of a results file, the newest line of each, oldest first.

    Raises:
        BenchmarkError: No such file, a line is not one, which it names, or none is.
        VersionError: A newer version wrote it.
    """
    where = f"leaderboard results {str(path)!r}"
    if path.is_dir():
        raise BenchmarkError(f"{where}: expected a file, got a folder; name a file in it")
    try:
        if path.stat().st_size > MAX_BYTES:
            raise BenchmarkError(f"{where}: expected at most {MAX_BYTES:,} bytes, got {path.stat().st_size:,}")
        content = path.read_bytes()
    except OSError as fault:
        raise BenchmarkError(
            f"{where}: can't be read: {fault.strerror or fault}; `leaderboard score` or `verify` makes it"
        ) from None
    found: dict[tuple[str, str, str], Line] = {}
    bad: tuple[str, str] | None = None  # the first bad line, among good ones and without any
    for number, text in enumerate(content.splitlines(), 1):
        if text.strip():
            try:
                line = parse_line(text)
            except VersionError as fault:
                raise VersionError(f"{where}, line {number}: {fault}") from None
            except BenchmarkError as fault:
                bad = bad or (f", line {number}: {fault}; remove that line", f": {_instead(text, fault)}")
                continue
            found.pop(line.key, None)  # its place is that of the newer line: standings go by the newest probes
            found[line.key] = line
    if bad is not None:
        among, alone = bad  # lines of another file are good data, not to be removed
        raise BenchmarkError(where + (among if found else alone))
    return list(found.values())


def _instead(text: bytes, fault: BenchmarkError) -> str:
    """What a file without a good line is, by its first line."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    keys = fields.keys() if isinstance(fields, dict) else ()
    if "cell" in keys:
        return (
            "expected results of the leaderboard, got a benchmark's: `report` reads them, and `leaderboard submit` "
            "makes entries of its runs; name another file"
        )
    if "tier" in keys or "entry" in keys:
        return f"{fault}; it has no other entry: score or verify that one anew, into another file"
    return "expected results of the leaderboard, got something else; `leaderboard score` or `verify` makes them"


def parse_line(text: bytes | str) -> Line:
    """An entry with its scores from one line.

    Raises:
        BenchmarkError: It is none.
        VersionError: A newer schema.
    """
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        raise BenchmarkError("expected a JSON object, got something else") from None
    version = fields.get("schema") if isinstance(fields, dict) else None
    if isinstance(version, int) and version > SCHEMA:
        raise VersionError(f"expected schema {SCHEMA} or older, got {version}; upgrade smeoffline to read it")
    _validate(fields)
    held = fields["held_out"]
    scores = _scores(fields["scores"])
    return Line(
        submission=Submission.from_dict(fields["entry"]),
        tier=fields["tier"],
        scores=scores,
        kinds=fields["kinds"],
        labels=fields["labels"],
        partial=fields["partial"],
        flags=tuple(fields["flags"]),
        entry_sha256=fields["entry_sha256"],
        held_out=None if held is None else HeldOut.from_dict(held),
    )


def _scores(tables: Mapping[str, Any]) -> Scores:
    return {dataset: tuple(PlaceScore(**score) for score in seeds) for dataset, seeds in tables.items()}


def _validate(fields: Any) -> None:
    """Refuse what is no line.

    Raises:
        BenchmarkError: Says what.
    """
    from jsonschema import Draft202012Validator

    error = next(iter(Draft202012Validator(_line_schema()).iter_errors(fields)), None)
    if error is not None:
        where = ".".join(map(str, error.absolute_path))
        raise BenchmarkError(
            f"expected an entry with its scores, but {where}{': ' if where else ''}{error.message[:200]}"
        )
    if not _finite(fields):
        raise BenchmarkError("expected finite numbers, got NaN or infinity")
    faults = schema_faults(fields["entry"])
    if faults:
        raise BenchmarkError(faults[0])
    entry = fields["entry"]
    if not set(fields["scores"]) <= set(fields["kinds"]) & set(fields["labels"]):
        raise BenchmarkError("expected a kind and a label for each dataset")
    if (fields["name"], fields["suite"]) != (entry["name"], entry["suite"]):
        raise BenchmarkError(f"expected one name and suite, got {fields['name']!r} and {entry['name']!r}")


def _finite(value: Any) -> bool:
    """Whether all numbers in JSON values are."""
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@cache
def _line_schema() -> dict[str, Any]:
    """What a line must be, beside the entry in it."""
    text, whole = {"$ref": "#/$defs/line", "maxLength": 500}, {"type": "integer", "minimum": 0}
    number = {"type": "number", "minimum": -LARGEST, "maximum": LARGEST}
    perhaps = {"anyOf": [number, {"type": "null"}]}
    place = {f.name: {"seed": whole, "float": number, "float | None": perhaps} for f in dataclasses.fields(PlaceScore)}
    kinds = {f.name: "seed" if f.name == "seed" else str(f.type) for f in dataclasses.fields(PlaceScore)}
    score = _object({name: place[name][kinds[name]] for name in place})
    scores = {
        "type": "object",
        "propertyNames": text,
        "minProperties": 1,
        "additionalProperties": {"type": "array", "minItems": 1, "items": score},
    }
    lead = _object({"value": number, "low": perhaps, "high": perhaps, "n": whole})
    held = _object({"draw": text, "public": scores, "lead": {"anyOf": [lead, {"type": "null"}]}})
    line = _object(
        {
            "schema": {"const": SCHEMA},
            "suite": text,
            "tier": {"enum": [SELF_REPORTED, VERIFIED]},
            "name": text,
            "flagged": {"type": "boolean"},
            "flags": {"type": "array", "items": text},
            "partial": {"type": "boolean"},
            "entry": {"type": "object"},
            "entry_sha256": {"anyOf": [text, {"type": "null"}]},
            "kinds": {"type": "object", "additionalProperties": {"enum": list(KINDS)}},
            "labels": {"type": "object", "additionalProperties": text},
            "scores": scores,
            "held_out": {"anyOf": [held, {"type": "null"}]},
        }
    )
    return {**line, "$defs": schema()["$defs"]}


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    """A JSON object with exactly these fields."""
    fields = dict(properties)
    return {"type": "object", "properties": fields, "required": list(fields), "additionalProperties": False}
