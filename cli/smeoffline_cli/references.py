"""The reference rows of a dataset: what can be said about it without training anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from smeoffline_cli.output import cell, emit_table


def emit_references(record: Mapping[str, Any], *, explores: bool) -> None:
    """Print the reference scores, best first, and what they leave to learn.

    Args:
        record: Holds the keys of the library's `ROWS`, `headroom`, and `approximate` (whether the clone rows are).
        explores: Whether a state can show more than one action.
    """
    from smeoffline.data.reference import ROWS  # loaded by whatever made the record; help does without

    known = [(record[key], *ROWS[key]) for key in ROWS if isinstance(record.get(key), (int, float))]
    known.sort(key=lambda row: -row[0])
    emit_table(["reference", "score", ""], [(name, score, meaning) for score, name, meaning in known])
    click.echo()
    click.echo(f"headroom {cell(record['headroom'])}: {lesson(record['headroom'], explores=explores)}")
    if record.get("approximate"):
        click.echo("The clone rows are approximate: this noise or mixture depends on more than the state.")


def lesson(headroom: float, *, explores: bool) -> str:
    """What kind of dataset this is: what it leaves to learn, and from what."""
    from smeoffline.data.reference import MIN_HEADROOM  # as above

    if headroom < MIN_HEADROOM:
        return "imitation alone all but reaches the optimum; gains over it would be noise"
    if not explores:
        return "left by the best imitation; but no state shows two actions, so rewards can tell little"
    return "left by the best imitation, and what the rewards of different actions can teach"
