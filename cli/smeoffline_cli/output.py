"""Results on stdout: one JSON object, or tables for a person. NaN is never printed."""

from __future__ import annotations

import io
import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

MISSING = "-"
WIDE = 1_000_000  # tables are never folded: a path or a hash must survive copying


def emit_json(record: Mapping[str, Any]) -> None:
    """Print one JSON object on one line; NaN and infinities become null."""
    click.echo(json.dumps(plain(record), allow_nan=False))


def plain(value: Any) -> Any:
    """A value as JSON knows it: mappings, lists, text, numbers, booleans and null.

    Args:
        value: Anything a result holds; numpy scalars, paths and tuples included.

    Returns:
        The same with every non-finite number replaced by None.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy scalars and arrays
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def emit_fields(title: str, fields: Mapping[str, Any]) -> None:
    """Print a title and aligned `name  value` lines under it."""
    click.echo(title)
    rows = [(f"  {name}", value) for name, value in fields.items()]
    click.echo(_render(rows, headers=None, right=frozenset()))


def emit_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Print rows under headers; a column of numbers is right-aligned."""
    listed = [tuple(row) for row in rows]
    right = {
        i for i in range(len(headers)) if all(isinstance(row[i], (int, float)) or row[i] is None for row in listed)
    }
    click.echo(_render(listed, headers=headers, right=frozenset(right)))


def emit_warning(text: str, kind: str = "warning") -> None:
    """Print a remark on stderr, in one line."""
    # not click's echo, which writes past what a progress bar has put in stderr's place, and so onto the bar
    sys.stderr.write(f"{kind}: {one_line(text)}\n")


def emit_note(text: str) -> None:
    """Print on stderr, in one line, what is no reason to worry."""
    emit_warning(text, "note")


def one_line(text: str) -> str:
    """A message in one line that is safe to print."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Text with a ? for what could steer a terminal: files of strangers are quoted in tables and messages."""
    return "".join(c if c.isprintable() else "?" for c in text)


def cell(value: Any) -> str:
    """One value as a person reads it: four decimals, thousands marked, `-` for what does not exist."""
    value = plain(value)
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}"
    return printable(str(value))


def _render(rows: Iterable[Sequence[Any]], *, headers: Sequence[str] | None, right: frozenset[int]) -> str:
    """Aligned text, without colors, trailing blanks or folding."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    listed = [[Text(cell(value)) for value in row] for row in rows]
    names = headers if headers is not None else [""] * max(map(len, listed), default=0)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=headers is not None)
    for i, name in enumerate(names):
        table.add_column(Text(name), justify="right" if i in right else "left", no_wrap=True)
    for row in listed:
        table.add_row(*row)
    page = io.StringIO()
    Console(file=page, width=WIDE, color_system=None, legacy_windows=False).print(table)
    return "\n".join(line.rstrip() for line in page.getvalue().rstrip("\n").split("\n"))
