"""Grids: a table in which some values are lists stands for the product of their items."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from typing import Any

from smeoffline.errors import SpecError

MAX_POINTS = 10_000  # a typing error must not become a grid that fills the memory


def expand(table: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    """Every table that a grid stands for; the first key's list varies slowest.

    A list of plain values is an axis. A list of tables is kept as one (a mixture's behaviors), and the axes
    inside each of its tables are expanded.

    Args:
        table: Nested tables, as TOML gives them.
        where: Begins the messages.

    Returns:
        `{"task": {"complexity": [1, 10]}, "nu": 0.1}` gives two tables.

    Raises:
        SpecError: An empty list, lists within a list, or more than `MAX_POINTS` points.
    """
    points = _size(table, where)
    if points > MAX_POINTS:
        raise SpecError(f"{where}: expected a grid of at most {MAX_POINTS:,} points, got {points:,}")
    return _choices(table)


def _size(value: object, where: str) -> int:
    """How many choices a value stands for, counted before any is made."""
    if isinstance(value, Mapping):
        return math.prod(_size(item, f"{where} {key}") for key, item in value.items())
    if not isinstance(value, list):
        return 1
    if not value:
        raise SpecError(f"{where}: expected a value or a list of values, got an empty list")
    if all(isinstance(item, Mapping) for item in value):
        return math.prod(_size(item, where) for item in value)
    if any(isinstance(item, (list, Mapping)) for item in value):
        raise SpecError(f"{where}: expected plain values in the list, got {value!r}")
    return len(value)


def _choices(value: Any) -> list[Any]:
    """All choices of a value that `_size` has accepted."""
    if isinstance(value, Mapping):
        axes = [_choices(item) for item in value.values()]
        return [dict(zip(value, choice, strict=True)) for choice in itertools.product(*axes)]
    if isinstance(value, list) and isinstance(value[0], Mapping):
        return [list(choice) for choice in itertools.product(*map(_choices, value))]
    return list(value) if isinstance(value, list) else [value]
