"""A cell: one training run and its evaluation, as plain data that travels to a worker."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from smeoffline.data.recipe import Recipe

UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


@dataclass(frozen=True)
class Cell:
    """One point of a suite's grid.

    Attributes:
        suite: The suite's name.
        recipe: The dataset's, with its seed.
        algo: A known algorithm's name, or `module:attr`.
        variant: Tells two settings of one algorithm apart; None where there is one.
        settings: Hyperparameters that differ from the algorithm's defaults.
        seed: The suite's seed i: that of the dataset and of the training.
        steps: Training steps.
    """

    suite: str
    recipe: Recipe
    algo: str
    variant: str | None
    settings: Mapping[str, Any]
    seed: int
    steps: int

    @property
    def dataset_name(self) -> str:
        """The dataset's id without the seed, as `s8a4-c50-bias-nu0p1-v0`."""
        return dataclasses.replace(self.recipe, seed=0).dataset_id.removeprefix("sme/")

    @property
    def key(self) -> str:
        """A unique text, also a file name; everything that decides the cell's numbers is in it.

        Two values of `steps`, or of a setting, are two cells, also under one variant's name.
        """
        algo = self.algo if self.variant is None else f"{self.algo}-{self.variant}"
        if self.settings:
            text = json.dumps(dict(self.settings), sort_keys=True, default=str)
            algo += f"-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
        return UNSAFE.sub("-", f"{self.dataset_name}--{algo}--n{self.steps}--s{self.seed}")

    def spec(self) -> dict[str, Any]:
        """The fields of a results line that say what the cell is."""
        return {
            "suite": self.suite,
            "cell": self.key,
            "dataset_id": self.recipe.dataset_id,
            "dataset_name": self.dataset_name,
            **self.recipe.to_dict(),
            "algo": self.algo,
            "variant": self.variant,
            "settings": dict(self.settings),
            "seed": self.seed,
            "steps": self.steps,
        }
