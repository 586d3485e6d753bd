"""The results of a benchmark: one JSON object a line, read and grouped by name, never by position.

Needs no torch: reports are made where nothing is trained.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from smeoffline.bench.lines import LABELS, CellResult, CurvePoint, Label, parse_line
from smeoffline.errors import BenchmarkError, SpecError, VersionError

__all__ = ["FILE_NAME", "CellResult", "CurvePoint", "Group", "Results", "read_results"]

FILE_NAME = "results.jsonl"


@dataclass(frozen=True)
class Group:
    """The runs that share some labels.

    Attributes:
        labels: Their names and values.
        values: Seed to the metric, seeds in order; runs where the metric is null are left out.
    """

    labels: Mapping[str, Label]
    values: Mapping[int, float]


@dataclass(frozen=True)
class Results:
    """Cells, each once: the newest line of each, in the order in which they first appeared.

    Attributes:
        cells: Done and failed.
    """

    cells: tuple[CellResult, ...]

    @property
    def done(self) -> tuple[CellResult, ...]:
        """Those with an evaluation."""
        return tuple(cell for cell in self.cells if cell.done)

    @property
    def failed(self) -> tuple[CellResult, ...]:
        """Those whose newest line is a failure."""
        return tuple(cell for cell in self.cells if not cell.done)

    def where(self, **labels: Label) -> Results:
        """The cells whose labels have these values: `results.where(algo="iql", complexity=50)`.

        Raises:
            SpecError: No such label; has the nearest.
        """
        return Results(tuple(c for c in self.cells if all(c.label(name) == value for name, value in labels.items())))

    def groups(self, metric: str, by: Sequence[str]) -> tuple[Group, ...]:
        """A metric of every done run, grouped by labels and named by seed.

        Args:
            metric: As `score_wd`.
            by: As `("nu", "complexity", "algo")`.

        Returns:
            One group for each combination that occurs, in order of first appearance.

        Raises:
            SpecError: An unknown metric or label, or `by` puts two runs of one seed together (that would
                count as two seeds what is none).
        """
        found: dict[tuple[Label, ...], dict[int, CellResult]] = {}
        for cell in self.done:
            runs = found.setdefault(tuple(cell.label(name) for name in by), {})
            if cell.seed in runs:
                raise SpecError(_mixed(runs[cell.seed], cell, by))
            runs[cell.seed] = cell
        return tuple(
            Group(MappingProxyType(dict(zip(by, key, strict=True))), MappingProxyType(_by_seed(runs, metric)))
            for key, runs in found.items()
        )


def _by_seed(runs: Mapping[int, CellResult], metric: str) -> dict[int, float]:
    values = {seed: runs[seed].metric(metric) for seed in sorted(runs)}
    return {seed: value for seed, value in values.items() if value is not None}


def _mixed(one: CellResult, other: CellResult, by: Sequence[str]) -> str:
    """Why two runs of one seed cannot be one group."""
    differ = [name for name in LABELS if one.label(name) != other.label(name)]
    hint = f"they differ in {', '.join(differ)}" if differ else f"they are {one.cell!r} and {other.cell!r}"
    return f"results: grouping by {', '.join(by)} puts two runs of seed {one.seed} together; {hint}"


def read_results(source: str | Path) -> Results:
    """Read a results file.

    Args:
        source: The file, or the folder that holds `results.jsonl`.

    Returns:
        The newest line of each cell. A half-written last line counts for nothing.

    Raises:
        BenchmarkError: No such file, a leaderboard's, or a line in the middle of it is damaged; names the line.
        VersionError: A line of a newer schema.
    """
    path = Path(source)
    path = path / FILE_NAME if path.is_dir() else path
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise BenchmarkError(f"results {str(path)!r}: there is no such file; run benchmark first") from None
    except NotADirectoryError:
        raise BenchmarkError(
            f"results {str(path.parent)!r}: expected a folder with {path.name}, got a file; name the folder"
        ) from None
    except OSError as fault:
        raise BenchmarkError(f"results {str(path)!r}: cannot be read: {fault.strerror}") from None
    cells: dict[str, CellResult] = {}
    lines = content.split(b"\n")
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = parse_line(line)
        except VersionError as fault:
            raise VersionError(f"results {str(path)!r}: line {number}: {fault}") from None
        except BenchmarkError as fault:
            if number == 1 and _of_a_leaderboard(line):
                raise BenchmarkError(
                    f"results {str(path)!r}: expected a benchmark's results, got a leaderboard's; "
                    "read them with `sme-offline leaderboard build`"
                ) from None
            if number == len(lines):  # without an end of line: half-written
                continue
            raise BenchmarkError(f"results {str(path)!r}: line {number}: {fault}; remove that line") from None
        cells[found.cell] = found
    return Results(tuple(cells.values()))


def _of_a_leaderboard(line: bytes) -> bool:
    """Whether a line that is no cell's is an entry's of a leaderboard, whose file has the same name."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"tier", "entry"} <= set(record)
