"""Tables and figures from the results of a benchmark: `report.md`, `report.json` and SVG figures.

The same results give the same bytes, on another day and in another folder, with the same matplotlib. Nothing
is trained or evaluated: torch is not needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.bench.report.findings import findings, record
from smeoffline.bench.report.runs import study
from smeoffline.bench.results import FILE_NAME, read_results
from smeoffline.errors import BenchmarkError
from smeoffline.train.files import write_atomically

FIGURES = "figures"  # folder beside report.md


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        folder: Where.
        files: Paths of all files, `report.md` first.
        record: The content of `report.json`.
    """

    folder: Path
    files: tuple[Path, ...]
    record: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The record, with the files as they can be opened from here."""
        return {**self.record, "files": [str(path) for path in self.files]}


def report(folder: str | Path, *, out: str | Path | None = None) -> Report:
    """Write the report of a benchmark's results.

    Args:
        folder: Holds `results.jsonl`.
        out: Where to write; None for the same folder.

    Raises:
        BenchmarkError: No results file, none in it, or a damaged line; names it.
        VersionError: Results of a newer schema.
    """
    source = Path(folder)
    target = source if out is None else Path(out)
    texts, content = render(source)
    (target / FIGURES).mkdir(parents=True, exist_ok=True)
    outdated = _figures_before(target) - set(texts)
    for name, text in texts.items():
        write_atomically(target / name, text.encode())
    for name in outdated:
        (target / name).unlink(missing_ok=True)
    return Report(target, tuple(target / name for name in texts), content)


def _figures_before(target: Path) -> set[str]:
    """The figures that an earlier report there says it made, by their paths within it."""
    try:
        listed = json.loads((target / "report.json").read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return set()
    there = {f"{FIGURES}/{path.name}" for path in (target / FIGURES).glob("*.svg")}
    return {name for name in there if name in listed} if isinstance(listed, list) else set()


def render(folder: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """The text of each file by its path within the report, and the content of `report.json`.

    Raises:
        BenchmarkError: As `report`.
        VersionError: As `report`.
    """
    from smeoffline.bench.report.figures import drawings  # matplotlib: not before the results are right
    from smeoffline.bench.report.markdown import page

    cells = read_results(folder / FILE_NAME).cells
    if not cells:
        raise BenchmarkError(
            f"results {str(folder / FILE_NAME)!r}: expected a finished or failed cell, got none; "
            "run benchmark, or wait for its first cell"
        )
    found = findings(study(cells))
    figures = drawings(found)
    texts = {"report.md": page(found, figures, FIGURES), "report.json": ""}
    for part in figures.values():
        texts.update({f"{FIGURES}/{drawing.name}.svg": drawing.svg for drawing in part})
    content = {**record(found), "files": list(texts)}
    texts["report.json"] = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return texts, content
