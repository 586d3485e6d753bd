"""A suite is datasets x algorithms x seeds; a cell is one of its training runs and that run's evaluation.

    seeds = 10
    steps = 20_000

    [[datasets]]                        # lists are axes: this is a grid of six
    task.complexity = [1, 10, 50]
    behavior.nu = [0.0, 0.1]

    [[datasets]]
    recipe = "gain-c1"                  # a shipped recipe or a file

    [[algorithms]]
    name = "iql"

    [[algorithms]]
    name = "iql"
    variant = "greedy"                  # tells two settings of one algorithm apart
    settings = { weight_temp = 10.0 }
    steps = 5_000                       # instead of the suite's

Suite seed i generates dataset i (the recipe's seed) and trains run i; the task stays the same.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.bench.cell import Cell
from smeoffline.bench.entry import Entry, is_name, step_count
from smeoffline.bench.grid import expand
from smeoffline.data.recipe import Recipe
from smeoffline.data.shipped import shipped_folder, shipped_names, text_of
from smeoffline.errors import SpecError
from smeoffline.sme.task import known_keys, whole_number

MAX_SEEDS = 1_000_000
SUITES = "suites"

DEFAULT_SEEDS = 1
DEFAULT_STEPS = 10_000


@dataclass(frozen=True)
class Suite:
    """Datasets x algorithms x seeds.

    Attributes:
        name: Recorded with every result.
        datasets: At least one recipe, no two equal; their seeds and names are the suite's business.
        algorithms: At least one, no two of equal name and variant.
        seeds: How many, >= 1; seed i in [0, seeds) generates dataset i and trains run i.
        steps: Training steps of each run, >= 1, where an algorithm has no own.

    Raises:
        SpecError: A value is out of range, or a dataset or algorithm appears twice.
    """

    name: str
    datasets: tuple[Recipe, ...]
    algorithms: tuple[Entry, ...]
    seeds: int = DEFAULT_SEEDS
    steps: int = DEFAULT_STEPS

    def __post_init__(self) -> None:
        """Validate, and strip the recipes of what the suite decides."""
        if not is_name(self.name):
            raise SpecError(f"suite: name must be of letters, digits, . _ -, got {self.name!r}")
        object.__setattr__(self, "seeds", whole_number("suite", "seeds", self.seeds, 1, MAX_SEEDS))
        object.__setattr__(self, "steps", step_count("suite", self.steps))
        plain = tuple(dataclasses.replace(recipe, seed=0, name=None) for recipe in self.datasets)
        object.__setattr__(self, "datasets", plain)
        _each_once("dataset", [recipe.dataset_id for recipe in plain])
        _each_once(
            "algorithm",
            [a.name if a.variant is None else f"{a.name} {a.variant}" for a in self.algorithms],
            hint="; tell them apart by variant = 'NAME'",
        )

    def with_size(self, *, seeds: int | None = None, steps: int | None = None) -> Suite:
        """The same suite with other seeds or steps; `steps` replaces those of single algorithms too."""
        changed = self
        if seeds is not None:
            changed = dataclasses.replace(changed, seeds=seeds)
        if steps is not None:
            algorithms = tuple(dataclasses.replace(a, steps=None) for a in changed.algorithms)
            changed = dataclasses.replace(changed, steps=steps, algorithms=algorithms)
        return changed

    def cells(self) -> tuple[Cell, ...]:
        """All cells, seed by seed, so that a part of the grid is a whole grid of fewer seeds.

        Within a seed neighbors differ in their dataset, so that parallel workers don't wait for each other
        to generate the same one.
        """
        return tuple(
            Cell(
                suite=self.name,
                recipe=dataclasses.replace(recipe, seed=seed),
                algo=entry.name,
                variant=entry.variant,
                settings=dict(entry.settings),
                seed=seed,
                steps=self.steps if entry.steps is None else entry.steps,
            )
            for seed in range(self.seeds)
            for entry in self.algorithms
            for recipe in self.datasets
        )

    @classmethod
    def load(cls, source: str | Path) -> Suite:
        """A suite from a TOML file, or from the name of a shipped one (`table1`).

        Raises:
            SpecError: No such file or name (with the nearest), not TOML, or a fault in it; names the source.
        """
        return cls.from_toml(
            text_of("suite", source, shipped_folder() / SUITES), name=Path(source).stem, source=str(source)
        )

    @classmethod
    def from_toml(cls, text: str, *, name: str, source: str | None = None) -> Suite:
        """A suite from TOML text.

        Args:
            text: The file's content.
            name: Used where the text has no `name`.
            source: What the messages call it; None for `name`.

        Raises:
            SpecError: Not TOML, or a fault in it.
        """
        source = name if source is None else source
        try:
            return cls.from_dict({"name": name, **tomllib.loads(text)})
        except tomllib.TOMLDecodeError as fault:
            raise SpecError(f"suite {source!r}: not TOML: {fault}") from None
        except SpecError as fault:
            raise SpecError(f"suite {source!r}: {str(fault).removeprefix('suite: ')}") from None
        except (ValueError, RecursionError):  # what tomllib says to thousands of digits or of brackets
            raise SpecError(f"suite {source!r}: a number too long or tables too deep to read") from None

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> Suite:
        """A suite from the tables of a suite file.

        Raises:
            SpecError: A misspelled key (with the nearest known one), an unknown name, a bad value.
        """
        known_keys("suite", tables, [f.name for f in dataclasses.fields(cls)])
        datasets = [recipe for table in _tables(tables, "datasets") for recipe in _recipes(table)]
        return cls(
            **{
                **tables,
                "datasets": tuple(datasets),
                "algorithms": tuple(Entry.from_dict(table) for table in _tables(tables, "algorithms")),
            }
        )


def shipped_suites() -> list[str]:
    """Names of the suites that come with the package, sorted."""
    return shipped_names(shipped_folder() / SUITES)


def _recipes(table: Mapping[str, Any]) -> list[Recipe]:
    """The recipes that one [[datasets]] table stands for, not yet seeded."""
    known_keys("suite [[datasets]]", table, ["recipe", "task", "behavior", "dataset"])
    for key in ("task", "dataset"):
        if not isinstance(table.get(key, {}), Mapping):
            raise SpecError(f"suite [[datasets]]: {key} must be a table, as in {key}.NAME = VALUE, got {table[key]!r}")
    known_keys("suite [[datasets]] dataset", table.get("dataset", {}), ["episodes"])
    return [_recipe(point) for point in expand(table, "suite [[datasets]]")]


def _recipe(point: Mapping[str, Any]) -> Recipe:
    """One point of a grid; a named recipe's fields stand where the point has none."""
    base: dict[str, Any] = {"task": {}, "behavior": [{}], "dataset": {}}
    if "recipe" in point:
        if not isinstance(point["recipe"], str):
            raise SpecError(f"suite [[datasets]]: recipe must be a name or a file, got {point['recipe']!r}")
        base = Recipe.load(point["recipe"]).to_dict()
    behavior = point.get("behavior", base["behavior"])
    return Recipe.from_dict(
        {
            "task": {**base["task"], **point.get("task", {})},
            "behavior": [behavior] if isinstance(behavior, Mapping) else behavior,
            "dataset": {**base["dataset"], **point.get("dataset", {})},
        }
    )


def _tables(tables: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """A list of tables that must not be empty."""
    found = tables.get(key, [])
    if not isinstance(found, list) or not found or not all(isinstance(table, Mapping) for table in found):
        raise SpecError(f"suite: expected one or more tables [[{key}]] (two brackets), got {found!r}")
    return found


def _each_once(kind: str, names: Sequence[str], hint: str = "") -> None:
    """Refuse a suite without any, or with one twice."""
    if not names:
        raise SpecError(f"suite: expected at least one {kind}, got none")
    name, times = Counter(names).most_common(1)[0]
    if times > 1:
        raise SpecError(f"suite: expected each {kind} once, got {name!r} {times} times{hint}")
