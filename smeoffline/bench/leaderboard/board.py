"""What a suite's leaderboard asks for: actions at fixed probes, for each dataset and seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from smeoffline.bench.leaderboard import archive
from smeoffline.bench.leaderboard.flags import kind
from smeoffline.bench.report.labels import DatasetLabels
from smeoffline.bench.suite import Suite
from smeoffline.data.recipe import DEFAULT_EPISODES, Recipe
from smeoffline.sme import probes
from smeoffline.sme.arrays import Floats
from smeoffline.sme.task import Task

SCHEMA = 1
WITHIN = 10_000  # those of `evaluate`, so that an entry's score is that of its policy
OUTSIDE = 2_000
PROBE_SEED = 0
TEXT = "probes"  # the member of a probes file that says what the others are


@dataclass(frozen=True)
class Place:
    """One dataset with one seed.

    Attributes:
        dataset: The dataset's id without namespace and seed.
        seed: Of the suite: it draws the dataset and the training.
        recipe: Of this seed's dataset.
    """

    dataset: str
    seed: int
    recipe: Recipe

    @property
    def key(self) -> str:
        """The array's name in an entry, as `s8a4-c1-bias-nu0p3-v0--s0`."""
        return f"{self.dataset}--s{self.seed}"


@dataclass(frozen=True)
class Board:
    """A suite with its probes.

    Attributes:
        suite: The suite; its algorithms and steps are those of the baselines, and of no consequence here.
    """

    suite: Suite

    @classmethod
    def load(cls, suite: str | Path) -> Board:
        """The board of a suite's file, or of a shipped suite.

        Raises:
            SpecError: No such suite, or a fault in it.
        """
        return cls(Suite.load(suite))

    @cached_property
    def datasets(self) -> Mapping[str, Recipe]:
        """The recipe of each dataset, by its name, at seed 0."""
        return {recipe.dataset_id.removeprefix("sme/"): recipe for recipe in self.suite.datasets}

    @cached_property
    def kinds(self) -> Mapping[str, str]:
        """What each dataset is used for (`flags.kind`)."""
        return {name: kind(recipe) for name, recipe in self.datasets.items()}

    @cached_property
    def labels(self) -> Mapping[str, str]:
        """What a person calls each dataset: what differs from the defaults, as `C = 1, k = 2, ν = 0.5, probit 0.5`."""
        return {name: _label(recipe) for name, recipe in self.datasets.items()}

    @cached_property
    def held_out_labels(self) -> Mapping[str, str]:
        """The same for tasks from a secret, which have no seed."""
        usual = Task().seed
        return {
            name: _label(dataclasses.replace(recipe, task=dataclasses.replace(recipe.task, seed=usual)))
            for name, recipe in self.datasets.items()
        }

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every dataset with every seed."""
        return tuple(
            Place(name, seed, dataclasses.replace(recipe, seed=seed))
            for name, recipe in self.datasets.items()
            for seed in range(self.suite.seeds)
        )

    @cached_property
    def shapes(self) -> Mapping[str, tuple[int, int]]:
        """The shape of each array of an entry, by its name."""
        return {place.key: (WITHIN + OUTSIDE, place.recipe.task.action_dim) for place in self.places}

    @cached_property
    def observations(self) -> Mapping[str, Floats]:
        """(12,000, N_s + 2) probes of each dataset: 10,000 uniform in the cube, then 2,000 outside it."""
        return {name: _observations(recipe.task.state_dim) for name, recipe in self.datasets.items()}

    @cached_property
    def described(self) -> str:
        """All that the actions asked for depend on, as JSON."""
        datasets = {name: {**r.to_dict(), "dataset": {"episodes": r.episodes}} for name, r in self.datasets.items()}
        about = {
            "schema": SCHEMA,
            "suite": self.suite.name,
            "seeds": list(range(self.suite.seeds)),
            "within": WITHIN,
            "outside": OUTSIDE,
            "datasets": datasets,
            "dataset_ids": {place.key: place.recipe.dataset_id for place in self.places},
        }
        return json.dumps(about, sort_keys=True)

    @cached_property
    def probes_sha256(self) -> str:
        """The hash of `described` and of all probes, 64 hex digits: an entry names what it answers."""
        digest = hashlib.sha256(self.described.encode())
        for name, observations in self.observations.items():
            digest.update(f"{name} {observations.shape}\n".encode())
            digest.update(observations.astype("<f4").data)
        return digest.hexdigest()

    def write_probes(self, path: Path) -> None:
        """Write the probes: an array for each dataset, and the text `probes` that says what they are.

        Raises:
            OSError: The file can't be written.
        """
        about = {**json.loads(self.described), "probes_sha256": self.probes_sha256}
        archive.write(path, {TEXT: np.array(json.dumps(about)), **self.observations})


def _label(recipe: Recipe) -> str:
    """A dataset by what differs from the defaults."""
    tables, usual = recipe.to_dict(), Task().to_dict()
    fields = tuple(name for name, value in tables["task"].items() if name == "complexity" or value != usual[name])
    spec = {"task": tables["task"], "behavior": tables["behavior"], "episodes": recipe.episodes}
    return DatasetLabels(fields, recipe.episodes != DEFAULT_EPISODES).dataset(spec)


def _observations(state_dim: int) -> Floats:
    """States in and outside the cube, with both bookkeeping channels 0."""
    inside = probes.within(state_dim, WITHIN, PROBE_SEED)
    outside = probes.out_of_distribution(state_dim, OUTSIDE, PROBE_SEED).states
    states = np.concatenate([inside, outside])
    return np.concatenate([states, np.zeros((len(states), 2), np.float32)], axis=1)
