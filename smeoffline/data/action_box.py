"""The action space of a dataset, taken from its metadata and never guessed from the actions."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smeoffline.errors import DatasetFaultError, TrainingError
from smeoffline.sme.arrays import Floats

if TYPE_CHECKING:
    from smeoffline.data.storage.store import Dataset

SLACK = 1e-3  # of the range: what a float32 round trip or a careless writer may exceed a bound by


@dataclass(frozen=True)
class ActionBox:
    """Bounds of each action channel.

    Attributes:
        low: A finite numbers.
        high: A finite numbers, each above its `low`.
    """

    low: tuple[float, ...]
    high: tuple[float, ...]

    def __post_init__(self) -> None:
        """Refuse bounds that no scaling can map to [-1, 1]."""
        pairs = list(zip(self.low, self.high, strict=True))
        # in float32, as they are used: some environments call the largest float32 no bound, and twice that overflows
        with np.errstate(over="ignore", invalid="ignore"):
            ranges = [float(np.float32(h) - np.float32(low)) for low, h in pairs]
        if not pairs or not all(math.isfinite(r) and r > 0 for r in ranges):
            raise TrainingError(
                f"action space: expected finite bounds with low < high in every channel, got low "
                f"{list(self.low)} and high {list(self.high)}; policies here are tanh networks scaled to them"
            )

    @classmethod
    def unit(cls, action_dim: int) -> ActionBox:
        """[0, 1] in every channel, as every SME has it."""
        return cls((0.0,) * action_dim, (1.0,) * action_dim)

    @classmethod
    def of(cls, dataset: Dataset) -> ActionBox:
        """The action space of a dataset: [0, 1] where it is ours, what its metadata says where it is not.

        Raises:
            TrainingError: The actions are discrete, not one vector a step, or have no finite bounds.
            DatasetFaultError: An action lies outside; the text names the episode and step.
        """
        actions = dataset.actions
        if actions.ndim != 2:
            raise TrainingError(
                f"dataset {dataset.id!r}: expected actions of shape (N, channels), got {actions.shape}; "
                "train on a dataset with continuous actions"
            )
        box = cls._read(dataset) if dataset.provenance is None else cls.unit(actions.shape[1])
        box._check(dataset)
        return box

    @classmethod
    def _read(cls, dataset: Dataset) -> ActionBox:
        """From Minari's metadata, where a space is JSON inside JSON."""
        space: Any = dataset.metadata.get("action_space")
        if isinstance(space, str):
            try:
                space = json.loads(space)
            except ValueError:
                space = None
        kind = space.get("type") if isinstance(space, dict) else None
        if not isinstance(space, dict) or kind != "Box":
            found = f"a {kind} space" if kind else "no readable action_space in its metadata"
            raise TrainingError(
                f"dataset {dataset.id!r}: expected continuous actions (a Box space), got {found}; every "
                "algorithm here needs bounded continuous actions"
            )
        try:
            low, high = (np.ravel(np.asarray(space.get(side), np.float64)) for side in ("low", "high"))
        except (TypeError, ValueError, OverflowError):
            raise TrainingError(
                f"dataset {dataset.id!r}: expected the bounds of its action_space to be numbers, got others"
            ) from None
        if not len(low) == len(high) == dataset.actions.shape[1]:
            raise TrainingError(
                f"dataset {dataset.id!r}: expected bounds for {dataset.actions.shape[1]} action channels, "
                f"got {len(low)} low and {len(high)} high ones"
            )
        return cls(tuple(low.tolist()), tuple(high.tolist()))

    def _check(self, dataset: Dataset) -> None:
        """Refuse actions outside, as one of 1e30 that would make every loss NaN."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        slack = SLACK * (high - low)
        inside = (dataset.actions >= low - slack) & (dataset.actions <= high + slack)  # false for NaN
        bad = np.flatnonzero(~inside.all(axis=1))
        if len(bad) > 0:
            row = int(bad[0])
            starts = np.cumsum(dataset.lengths) - dataset.lengths
            episode = int(np.searchsorted(starts, row, side="right")) - 1
            raise DatasetFaultError(
                f"dataset {dataset.id!r}: episode {episode}, step {row - int(starts[episode])}: expected "
                f"actions between {list(self.low)} and {list(self.high)}, got {dataset.actions[row].tolist()}"
            )

    def to_unit_interval(self, actions: Floats) -> Floats:
        """Actions of the box as d3rlpy's networks speak them: (N, A) in [-1, 1]."""
        low, high = np.asarray(self.low, np.float32), np.asarray(self.high, np.float32)
        return (((actions - low) / (high - low)) * np.float32(2) - np.float32(1)).astype(np.float32)
