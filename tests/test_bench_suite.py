"""Suites: grids, seeds, keys of cells, and what is refused before any work."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.bench.grid import MAX_POINTS, expand
from smeoffline.bench.run import check_algorithms
from smeoffline.bench.suite import Suite, shipped_suites
from smeoffline.data.recipe import Recipe
from smeoffline.errors import SpecError

ALGORITHM = '\n[[algorithms]]\nname = "bc"\n'
scalars = st.one_of(st.integers(-5, 5), st.floats(-1, 1), st.text(max_size=3), st.booleans())
axes = st.one_of(scalars, st.lists(scalars, min_size=1, max_size=3))
names = st.text("abc", min_size=1, max_size=2)
grids = st.dictionaries(names, st.one_of(axes, st.dictionaries(names, axes, max_size=2)), max_size=3)


def suite(text, name="mine"):
    """A suite from TOML."""
    return Suite.from_toml(text, name=name)


def leaves(value):
    """The axes of a grid, as lists."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value if isinstance(value, list) else [value]]


@given(grids)
def test_a_grid_is_the_product_of_its_lists(grid):
    """A grid has a point for each combination of its lists' items; a point takes one item of each list."""
    points = expand(grid, "grid")
    assert len(points) == math.prod(map(len, leaves(grid)))
    for point in points:
        chosen = [leaf[0] for leaf in leaves(point)]
        assert all(any(c is a for a in axis) for c, axis in zip(chosen, leaves(grid), strict=True))


def test_a_grid_varies_its_last_list_fastest():
    """The order of points is that of nested loops, first key outermost."""
    points = expand({"task": {"complexity": [1, 5]}, "behavior": {"nu": [0.0, 0.1]}}, "grid")
    found = [(p["task"]["complexity"], p["behavior"]["nu"]) for p in points]
    assert found == [(1, 0.0), (1, 0.1), (5, 0.0), (5, 0.1)]


def test_a_grid_without_bounds_is_refused_before_it_is_made():
    """A grid of a billion points is refused at once."""
    with pytest.raises(SpecError, match=f"at most {MAX_POINTS:,} points, got 1,000,000,000"):
        expand({name: list(range(1000)) for name in "abc"}, "grid")


def test_the_lists_inside_a_mixture_are_axes_too():
    """A mixture's behaviors stay together, and lists inside them expand."""
    made = suite(
        "[[datasets]]\n[[datasets.behavior]]\nnu = [0.1, 0.3]\nshare = 0.5\n[[datasets.behavior]]\n"
        'base = "random"\nshare = 0.5\n' + ALGORITHM
    )
    assert [[c.behavior.nu for c in recipe.mix] for recipe in made.datasets] == [[0.1, 0.0], [0.3, 0.0]]


@pytest.mark.parametrize(
    ("name", "cells", "datasets", "algorithms"),
    [
        ("table1", 120, 6, ["bc", "iql"]),
        ("gain", 270, 18, ["bc", "iql", "td3plusbc", "plas", "crr"]),
        ("size", 12, 4, ["bc"]),
        ("smoke", 8, 2, ["bc", "td3plusbc"]),
    ],
)
def test_shipped_suites_are_the_grids_they_promise(name, cells, datasets, algorithms):
    """Each shipped suite loads by its name and has the cells of the issue's grid, every key once."""
    made = Suite.load(name)
    keys = [cell.key for cell in made.cells()]
    assert (made.name, len(keys), len(made.datasets)) == (name, cells, datasets)
    assert len(set(keys)) == cells
    assert [entry.name for entry in made.algorithms] == algorithms


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_loads(name):
    """Each suite in the folder is sound, is called like its file, and has each cell once."""
    made = Suite.load(name)
    assert made.name == name
    assert len({cell.key for cell in made.cells()}) == len(made.cells()) > 0


def test_table1_is_the_grid_of_the_paper():
    """Its tasks and behaviors are those of the paper's Table 1, at the size and steps that reproduce it."""
    made = Suite.load("table1")
    found = {(r.task.complexity, r.mix[0].behavior.nu) for r in made.datasets}
    assert found == {(c, nu) for c in (1, 10, 50) for nu in (0.0, 0.1)}
    assert {(r.task.state_dim, r.task.action_dim, r.episodes) for r in made.datasets} == {(8, 4, 1000)}
    assert {r.mix[0].behavior.base for r in made.datasets} == {"bias"}
    assert (made.seeds, made.steps) == (10, 20_000)


def test_seed_i_seeds_dataset_i_and_training_i_and_no_task():
    """A cell's seed is its dataset's and its training's; the task is the same for all."""
    made = suite("seeds = 3\n[[datasets]]\ntask.seed = 7\n" + ALGORITHM)
    assert [(c.seed, c.recipe.seed, c.recipe.task.seed) for c in made.cells()] == [
        (0, 0, 7),
        (1, 1, 7),
        (2, 2, 7),
    ]


def test_cells_come_seed_by_seed():
    """The first cells of a grid are the whole grid at seed 0, then at seed 1."""
    made = suite('seeds = 2\n[[datasets]]\ntask.complexity = [1, 2]\n[[algorithms]]\nname = "iql"\n' + ALGORITHM)
    cells = made.cells()
    assert [c.seed for c in cells] == [0] * 4 + [1] * 4
    assert len({(c.algo, c.dataset_name) for c in cells[:4]}) == 4


def test_a_named_recipe_is_taken_with_its_fields_changed():
    """A recipe's name stands for its task, behavior and episodes; what the suite says besides wins."""
    made = suite('[[datasets]]\nrecipe = "gain-c1"\ndataset.episodes = 5\n' + ALGORITHM)
    expected = dataclasses.replace(Recipe.load("gain-c1"), episodes=5)
    assert made.datasets == (expected,)


def test_names_of_recipes_can_be_a_grid():
    """A list of names is a list of datasets."""
    made = suite('[[datasets]]\nrecipe = ["gain-c1", "mixture-c1"]\n' + ALGORITHM)
    assert made.datasets == (Recipe.load("gain-c1"), Recipe.load("mixture-c1"))


@pytest.mark.parametrize(
    "other",
    ["task.complexity = 2", "task.discount = 0.9", "behavior.nu = 0.2", "dataset.episodes = 7"],
)
def test_another_dataset_is_another_cell(other):
    """Whatever changes the data changes the key."""
    key = suite("[[datasets]]\n" + ALGORITHM).cells()[0].key
    assert suite(f"[[datasets]]\n{other}\n" + ALGORITHM).cells()[0].key != key


def test_other_steps_settings_or_seeds_are_other_cells():
    """Steps and settings are part of a cell's key, also under one variant's name."""
    base = '[[datasets]]\n[[algorithms]]\nname = "iql"\nvariant = "greedy"\n'
    texts = [
        base,
        base + "steps = 5",
        base + "settings.weight_temp = 9.0",
        base + "settings.weight_temp = 8.0",
    ]
    keys = {suite("seeds = 2\n" + text).cells()[i].key for text in texts for i in (0, 1)}
    assert len(keys) == 8


def test_steps_of_a_call_replace_those_of_single_algorithms():
    """An algorithm's own steps hold against the suite's, and not against the call's."""
    made = suite('steps = 100\n[[datasets]]\n[[algorithms]]\nname = "iql"\nsteps = 7\n' + ALGORITHM)
    assert [c.steps for c in made.cells()] == [7, 100]
    assert [c.steps for c in made.with_size(steps=9).cells()] == [9, 9]
    assert [c.seed for c in made.with_size(seeds=2).cells()] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step = 3\n[[datasets]]\n" + ALGORITHM, "unknown key 'step'; did you mean 'steps'?"),
        (
            "[[datasets]]\ntask.complexty = 3\n" + ALGORITHM,
            "unknown key 'complexty'; did you mean 'complexity'?",
        ),
        ("[[datasets]]\nbehaviour.nu = 3\n" + ALGORITHM, "unknown key 'behaviour'; did you mean 'behavior'?"),
        ("[[datasets]]\ndataset.seed = 3\n" + ALGORITHM, "unknown key 'seed'"),
        ("[[datasets]]\ndataset = 3\n" + ALGORITHM, "dataset must be a table"),
        (
            '[[datasets]]\nrecipe = "gain-c2"\n' + ALGORITHM,
            "table1-c50-nu0p1); did you mean 'gain-c1'?",
        ),
        ("[[datasets]]\nrecipe = 3\n" + ALGORITHM, "recipe must be a name or a file, got 3"),
        (
            "[[datasets]]\ntask.complexity = []\n" + ALGORITHM,
            "task complexity: expected a value or a list of values",
        ),
        ("[[datasets]]\ntask.complexity = [[1]]\n" + ALGORITHM, "expected plain values in the list"),
        ("[[datasets]]\ntask.complexity = [1, 0]\n" + ALGORITHM, "complexity must be in"),
        ("[[datasets]]\nbehavior.nu = [0.1, 0.1]\n" + ALGORITHM, "each dataset once"),
        (ALGORITHM, "one or more tables [[datasets]]"),
        ("[datasets]\n" + ALGORITHM, "one or more tables [[datasets]] (two brackets)"),
        ("[[datasets]]\n", "one or more tables [[algorithms]]"),
        ("[[datasets]]\n" + ALGORITHM + ALGORITHM, "each algorithm once, got 'bc' 2 times"),
        ('[[datasets]]\n[[algorithms]]\nname = "iqn"', "got 'iqn'; did you mean 'iql'?"),
        ('[[datasets]]\n[[algorithms]]\nname = "dqn"', "needs discrete actions"),
        ('[[datasets]]\n[[algorithms]]\nnme = "bc"', "unknown key 'nme'; did you mean 'name'?"),
        ("[[datasets]]\n[[algorithms]]\nsteps = 3", "expected a name"),
        ("[[datasets]]\n[[algorithms]]\nname = 3", "name must be text"),
        ('[[datasets]]\n[[algorithms]]\nname = "bc"\nsteps = 0', "steps must be in"),
        ('[[datasets]]\n[[algorithms]]\nname = "bc"\nsettings = 3', "settings must be a table"),
        ('[[datasets]]\n[[algorithms]]\nname = "bc"\nvariant = "a/b"', "variant must be of letters"),
        ("seeds = 0\n[[datasets]]\n" + ALGORITHM, "seeds must be in"),
        ("seeds = 1.5\n[[datasets]]\n" + ALGORITHM, "seeds must be a whole number"),
        ('name = "../x"\n[[datasets]]\n' + ALGORITHM, "name must be of letters"),
        ("seeds = = 1", "not TOML"),
    ],
)
def test_a_fault_in_a_suite_is_one_line_that_names_it(text, message):
    """Whatever is wrong with a suite is told in one line that begins with the suite's name."""
    with pytest.raises(SpecError) as caught:
        suite(text)
    told = str(caught.value)
    assert told.startswith("suite 'mine': ")
    assert message in told
    assert "\n" not in told


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('name = "iql"\nsettings.weight_tmp = 3.0', "iql has no 'weight_tmp'; did you mean 'weight_temp'?"),
        ('name = "iql"\nsettings.expectile = 3.0', "expectile of iql: expected a number in (0, 1]"),
        ('name = "no_such_module:train"', "no module 'no_such_module'"),
        ('name = "bench_algorithm:trian"', "no 'trian'; did you mean 'train'?"),
        ('name = "bench_algorithm:train"\nsettings.x = 1', "takes none, got x"),
    ],
)
def test_a_fault_that_only_the_algorithm_knows_is_found_before_any_work(entry, message):
    """Settings and own algorithms are checked against the algorithm itself."""
    with pytest.raises(SpecError) as caught:
        check_algorithms(suite(f"[[datasets]]\n[[algorithms]]\n{entry}"))
    assert message in str(caught.value)


def test_an_unknown_suite_names_the_shipped_ones():
    """A misspelled name is answered with the nearest and the list."""
    with pytest.raises(SpecError, match=r"gain, .*smoke, table1.*did you mean 'table1'"):
        Suite.load("tabel1")


def test_a_file_that_is_no_text_is_refused(tmp_path):
    """A binary file is refused in one line."""
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(SpecError, match="not UTF-8"):
        Suite.load(tmp_path / "x.toml")
