"""Checkpoints: tensors and plain values, written whole or not at all, and read without running anything."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from smeoffline.errors import TrainingError, VersionError
from smeoffline.train.files import write_atomically

FOLDER = "checkpoint"
FILE = "state.pt"
SCHEMA = 1


def save_checkpoint(run: Path, state: Mapping[str, Any]) -> None:
    """Replace a run's checkpoint.

    Args:
        run: The run's folder.
        state: Nested dicts and lists of tensors, numbers and text, nothing else.
    """
    buffer = io.BytesIO()
    torch.save({"schema": SCHEMA, **state}, buffer)
    (run / FOLDER).mkdir(exist_ok=True)
    write_atomically(run / FOLDER / FILE, buffer.getvalue())


def load_checkpoint(run: Path) -> dict[str, Any] | None:
    """A run's checkpoint; None if none was written yet.

    Raises:
        TrainingError: It can't be read or is damaged.
        VersionError: Another version wrote it.
    """
    path = run / FOLDER / FILE
    if not path.exists():
        return None
    # what a damaged file makes torch raise depends on where the damage is
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)[:120]
        raise TrainingError(f"checkpoint {path}: damaged ({reason}); train again without resuming") from error
    schema = state.get("schema") if isinstance(state, dict) else None
    if schema != SCHEMA:
        raise VersionError(
            f"checkpoint {path}: expected schema {SCHEMA}, got {schema!r}; train again with this version"
        )
    return dict(state)
