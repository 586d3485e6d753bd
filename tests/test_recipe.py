"""Recipes: one spec, one id, one file."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.data.behavior import BASES, WITHOUT_NU, Behavior
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.recipe import Component, Recipe, number_tag, shipped_recipes
from smeoffline.data.shipped import shipped_folder
from smeoffline.errors import SpecError
from smeoffline.sme.task import Task

REPOSITORY = Path(__file__).parents[1]

# Numbers that could be confused once they are part of a name, and any other.
rates = st.one_of(st.sampled_from([0.0, 0.1, 0.01, 0.11, 1e-5, 1.5e-5, 0.2, 0.02]), st.floats(1e-9, 0.999))
counts = st.one_of(st.sampled_from([1, 2, 10, 11, 100]), st.integers(1, 1000))
seeds = st.one_of(st.sampled_from([0, 1, 2, 10, 11, 2**32 - 1]), st.integers(0, 2**32 - 1))


@st.composite
def tasks(draw) -> Task:
    """Any task; most fields at their default, as in real recipes."""
    fields = {
        "state_dim": counts,
        "action_dim": counts,
        "complexity": counts,
        "episode_length": counts,
        "reward_every": counts,
        "min_reward": rates,
        "kill_threshold": rates,
        "shaping": rates,
        "discount": rates,
        "seed": seeds,
    }
    chosen = draw(st.sets(st.sampled_from(sorted(fields))))
    return Task(**{name: draw(fields[name]) for name in sorted(chosen)})


@st.composite
def behaviors(draw) -> Behavior:
    """Any behavior."""
    base = draw(st.sampled_from(BASES))
    if base == "random":
        return Behavior(base=base)
    nu = 0.0 if base in WITHOUT_NU else draw(rates)
    explore, sigma = draw(st.sampled_from(sorted(set(EXPLORATIONS) - {"none"}))), draw(rates)
    if base != "policy":
        return Behavior(base, nu, explore, sigma)
    digest = draw(st.sampled_from(["a1" * 32, "b2" * 32, "0" * 64]))  # an id holds six digits of it
    return Behavior(base, nu, explore, sigma, policy="policy.onnx", policy_sha256=digest)


@st.composite
def mixtures(draw) -> tuple[Component, ...]:
    """One to four behaviors whose shares sum to 1, up to rounding."""
    listed = draw(st.lists(behaviors(), min_size=1, max_size=4))
    parts = [draw(st.one_of(st.sampled_from([0.1, 1.0, 2.0]), st.floats(1e-3, 1e3))) for _ in listed]
    return tuple(Component(b, part / math.fsum(parts)) for b, part in zip(listed, parts, strict=True))


mixes = mixtures()
recipes = st.builds(Recipe, task=tasks(), mix=mixes, episodes=counts, seed=seeds)


@st.composite
def neighbors(draw) -> tuple[Recipe, Recipe]:
    """Two recipes that differ in one field at most: an id that lost it would be shared."""
    first = draw(recipes)
    part = draw(st.sampled_from(["mix", "episodes", "seed", "task"]))
    if part == "task":
        name = draw(st.sampled_from([f.name for f in dataclasses.fields(Task)]))
        return first, dataclasses.replace(
            first, task=dataclasses.replace(first.task, **{name: getattr(draw(tasks()), name)})
        )
    return first, dataclasses.replace(first, **{part: getattr(draw(recipes), part)})


def bias(**fields) -> Behavior:
    """The default base."""
    return Behavior(base="bias", **fields)


@pytest.mark.parametrize(
    ("recipe", "expected"),
    [
        (Recipe(Task(complexity=50), (Component(bias(nu=0.1)),)), "sme/s8a4-c50-bias-nu0p1-v0"),
        (Recipe(Task(), (Component(bias(nu=0.3, sigma=0.3)),)), "sme/s8a4-c1-bias-nu0p3-probit0p3-v0"),
        (Recipe(Task(reward_every=10)), "sme/s8a4-c1-bias-nu0-k10-v0"),
        (Recipe(Task(min_reward=0.5)), "sme/s8a4-c1-bias-nu0-rmin0p5-v0"),
        (Recipe(Task(kill_threshold=0.2)), "sme/s8a4-c1-bias-nu0-kill0p2-v0"),
        (Recipe(Task(episode_length=50)), "sme/s8a4-c1-bias-nu0-len50-v0"),
        (Recipe(Task(shaping=0.5)), "sme/s8a4-c1-bias-nu0-shape0p5-v0"),
        (Recipe(Task(seed=3)), "sme/s8a4-c1-bias-nu0-task3-v0"),
        (Recipe(Task(), seed=2), "sme/s8a4-c1-bias-nu0-seed2-v0"),
        (Recipe(Task(), episodes=5000), "sme/s8a4-c1-bias-nu0-n5000-v0"),
        (Recipe(Task(discount=0.9)), "sme/s8a4-c1-bias-nu0-disc0p9-v0"),
        (Recipe(Task(), (Component(Behavior(base="optimal")),)), "sme/s8a4-c1-optimal-v0"),
        (Recipe(Task(), (Component(Behavior(base="random")),)), "sme/s8a4-c1-random-v0"),
        (
            Recipe(Task(), (Component(Behavior("optimal", explore="gaussian", sigma=0.3)),)),
            "sme/s8a4-c1-optimal-gaussian0p3-v0",
        ),
        (Recipe(Task(), (Component(Behavior("weights", nu=1e-5)),)), "sme/s8a4-c1-weights-nu1em05-v0"),
        (Recipe(Task(shaping=1, seed=0), seed=7), "sme/s8a4-c1-bias-nu0-shape1-task0-seed7-v0"),
        (
            Recipe(
                Task(2, 3, 4, 50, 10, 0.5, 0.2, 0.5, 0.9, 3),
                (Component(bias(nu=1, explore="ou", sigma=2)),),
                episodes=5000,
                seed=2,
            ),
            "sme/s2a3-c4-bias-nu1-ou2-k10-rmin0p5-kill0p2-len50-shape0p5-disc0p9-task3-seed2-n5000-v0",
        ),
        (Recipe(Task(), name="mine/data-v3"), "mine/data-v3"),
    ],
)
def test_ids_are_built_from_the_fields(recipe, expected):
    """The id names what differs from the defaults, numbers by their shortest text."""
    assert recipe.dataset_id == expected


def test_a_mixture_is_named_by_six_hex_digits():
    """Several behaviors are named by a hash of behaviors and shares."""
    parts = (Component(bias(nu=0.1), 0.25), Component(Behavior("random"), 0.75))
    recipe = Recipe(Task(), parts)
    head, digits, version = recipe.dataset_id.rsplit("-", 2)
    assert (head, version) == ("sme/s8a4-c1-mix", "v0")
    assert len(digits) == 6
    assert set(digits) <= set("0123456789abcdef")
    assert Recipe(Task(), parts[::-1]).dataset_id != recipe.dataset_id
    others = tuple(Component(c.behavior, 0.5) for c in parts)
    assert Recipe(Task(), others).dataset_id != recipe.dataset_id
    assert Recipe.load("mixture-c1").dataset_id == "sme/s8a4-c1-mix-a68d79-v0"  # what is published keeps its id


@given(neighbors())
def test_two_specs_never_share_an_id(pair):
    """Ids are equal exactly where the specs are."""
    first, second = pair
    assert (first.dataset_id == second.dataset_id) == (first == second)


@given(recipes)
def test_minari_takes_every_id(recipe):
    """Every id that is built is one that Minari accepts, with its namespace and version."""
    from minari.dataset.minari_dataset import parse_dataset_id

    namespace, name, version = parse_dataset_id(recipe.dataset_id)
    assert (namespace, version) == ("sme", 0)
    assert f"{namespace}/{name}-v{version}" == recipe.dataset_id


@given(
    st.one_of(st.integers(0, 2**63), st.floats(0, 1e300)),
    st.one_of(st.integers(0, 2**63), st.floats(0, 1e300)),
)
def test_number_tags_tell_numbers_apart(one, other):
    """Different numbers have different tags, made of what an id may hold."""
    assert (number_tag(one) == number_tag(other)) == (
        one == other or repr(one) == repr(other) + ".0" or repr(other) == repr(one) + ".0"
    )
    assert number_tag(one).isalnum()


@given(recipes)
def test_json_round_trip(recipe):
    """Through JSON text and back a recipe equals itself, to the last bit of its shares."""
    assert Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@given(recipes)
def test_toml_round_trip(recipe):
    """Written out as TOML a recipe reads back as itself."""
    assert Recipe.from_toml(toml(recipe.to_dict())) == recipe


def toml(tables: dict) -> str:
    """A recipe's tables as TOML text."""

    def lines(table: dict) -> list[str]:
        return [f"{key} = {json.dumps(value)}" for key, value in table.items()]

    parts = ["[task]", *lines(tables["task"])]
    for behavior in tables["behavior"]:
        parts += ["[[behavior]]", *lines(behavior)]
    return "\n".join([*parts, "[dataset]", *lines(tables["dataset"])])


@given(mixes, st.floats(-9e-7, 9e-7))
def test_shares_that_were_rounded_sum_to_one(mix, error):
    """A sum that misses 1 by rounding is mended, once: doing it again changes nothing."""
    rounded = tuple(Component(c.behavior, c.share * (1 + error)) for c in mix)
    recipe = Recipe(Task(), rounded)
    assert math.fsum(c.share for c in recipe.mix) == pytest.approx(1, abs=1e-8)
    assert [c.share for c in recipe.mix] == pytest.approx([c.share for c in mix], rel=1e-6)
    assert dataclasses.replace(recipe, episodes=7).mix == recipe.mix
    assert [c.behavior for c in recipe.mix] == [c.behavior for c in mix]


@pytest.mark.parametrize(
    ("shares", "total"), [((0.8, 0.1), "0.9"), ((3, 1), "4"), ((0.5,), "0.5"), ((0.9, 0.100002), "1.000002")]
)
def test_shares_of_another_sum_are_refused(shares, total):
    """They are no weights: the line tells their sum, from Python as from a file."""
    mix = tuple(Component(bias(nu=0.1 * i), share) for i, share in enumerate(shares))
    with pytest.raises(SpecError, match=rf"recipe: shares must sum to 1, got {re.escape(total)};"):
        Recipe(Task(), mix)
    with pytest.raises(SpecError, match=rf"^mine: recipe: shares must sum to 1, got {re.escape(total)};"):
        Recipe.from_toml("".join(f"[[behavior]]\nshare = {share}\n" for share in shares), source="mine")


def test_shares_that_are_left_out_are_equal():
    """Where no behavior has a share, all have the same."""
    tables = [{"base": "bias"}, {"base": "optimal"}, {"base": "random"}]
    recipe = Recipe.from_dict({"behavior": tables})
    assert [c.share for c in recipe.mix] == [1 / 3] * 3
    assert recipe == Recipe.from_dict({"behavior": [{**table, "share": 1 / 3} for table in tables]})


def test_an_empty_file_is_the_default_recipe():
    """Every table and key may be left out."""
    assert Recipe.from_toml("") == Recipe(Task())
    assert Recipe.from_toml("[task]\n[[behavior]]\n[dataset]\n") == Recipe(Task())
    assert Recipe(Task()).mix == (Component(Behavior(), 1.0),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tasks]", ["unknown key 'tasks'", "did you mean 'task'"]),
        ("[[behaviour]]", ["unknown key 'behaviour'", "did you mean 'behavior'"]),
        ("episodes = 3", ["unknown key 'episodes'", "known: task, behavior, dataset"]),
        ("[task]\ncomplexty = 3", ["task", "unknown key 'complexty'", "did you mean 'complexity'"]),
        ("[[behavior]]\nsigm = 3", ["behavior", "unknown key 'sigm'", "did you mean 'sigma'"]),
        ("[[behavior]]\nshares = 3", ["behavior", "unknown key 'shares'", "did you mean 'share'"]),
        ("[dataset]\nepisode = 3", ["[dataset]", "unknown key 'episode'", "did you mean 'episodes'"]),
        ("[dataset]\nname = 'x'", ["[dataset]", "unknown key 'name'", "known: episodes, seed, id"]),
        ("[task]\ncomplexity = 0", ["task: complexity", "got 0"]),
        ("[task]\ncomplexity = 1.5", ["task: complexity", "whole number", "1.5"]),
        ("[[behavior]]\nbase = 'biass'", ["base", "did you mean 'bias'"]),
        ("[[behavior]]\nexplore = ['ou']", ["explore", "['ou']"]),
        ("[[behavior]]\nnu = nan", ["nu", "nan"]),
        ("[[behavior]]\nshare = 0", ["share", "above 0", "got 0"]),
        ("[[behavior]]\nshare = -1", ["share", "-1"]),
        ("[[behavior]]\nshare = 'half'", ["share", "'half'"]),
        ("[[behavior]]\nshare = 0.5\n[[behavior]]\n", ["behavior 2 has no share", "every one", "or none"]),
        ("[[behavior]]\nshare = 0.5\n[[behavior]]\nshares = 0.5", ["unknown key 'shares'", "did you mean 'share'"]),
        ("[behavior]\nnu = 0.1", ["[[behavior]]", "two brackets"]),
        ("behavior = 'bias'", ["[[behavior]]"]),
        ("behavior = []", ["at least one behavior"]),
        ("task = 3", ["task", "table"]),
        ("dataset = 3", ["[dataset]", "table"]),
        ("[dataset]\nepisodes = 0", ["episodes", "got 0"]),
        ("[dataset]\nepisodes = true", ["episodes", "True"]),
        ("[dataset]\nseed = -1", ["seed", "-1"]),
        ("[dataset]\nseed = 9223372036854775808", ["seed", "9223372036854775808"]),
        ("[dataset]\nid = 3", ["[dataset]", "id", "3"]),
        ("[task", ["not TOML", "end of document"]),
        ("[task]\n[task]", ["not TOML"]),
        ("x = " + "[" * 5000, ["too deep"]),
        ("[task]\nseed = " + "1" * 5000, ["too long"]),
        ("[[behavior]]\nnu = " + "1" * 400, ["nu"]),
    ],
)
def test_a_fault_in_a_file_names_the_file_and_the_key(tmp_path, text, words):
    """A fault in a recipe file is told in one line with the file, what is wrong and what is near."""
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as caught:
        Recipe.load(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize(
    ("content", "reason"), [(None, "No such file"), (b"\xff\xfe\x00", "UTF-8"), (b"#" * 2**21, "larger than")]
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, content, reason):
    """A missing, binary or huge file is refused by name."""
    path = tmp_path / "mine.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SpecError) as caught:
        Recipe.load(path)
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_recipe(tmp_path):
    """A folder in a file's place is refused by name."""
    with pytest.raises(SpecError, match=str(tmp_path)):
        Recipe.load(tmp_path)


def test_a_misspelled_shipped_name_gets_the_nearest():
    """A name that is neither a file nor shipped is refused with the nearest shipped one."""
    with pytest.raises(SpecError, match=r"'table1-c50-nu0\.1'.*did you mean 'table1-c50-nu0p1'"):
        Recipe.load("table1-c50-nu0.1")


def test_a_file_without_the_suffix_is_read(tmp_path):
    """A recipe file may have any name."""
    path = tmp_path / "recipe"
    path.write_text("[task]\ncomplexity = 7")
    assert Recipe.load(path) == Recipe(Task(complexity=7))


def test_shipped_recipes_are_those_of_the_repository():
    """Every recipe file in `datasets/` is shipped under its name."""
    assert shipped_folder().is_dir()
    assert shipped_recipes() == sorted(path.stem for path in (REPOSITORY / "datasets").glob("*.toml"))
    assert len(shipped_recipes()) >= 11


@pytest.mark.parametrize("name", shipped_recipes())
def test_every_shipped_recipe_loads(name):
    """A shipped recipe loads by its name and by its file, under the id that its fields make."""
    recipe = Recipe.load(name)
    assert recipe == Recipe.load(shipped_folder() / f"{name}.toml")
    assert recipe.name is None
    assert recipe.dataset_id.startswith("sme/")
    assert Recipe.from_dict(recipe.to_dict()) == recipe


def test_shipped_recipes_make_different_datasets():
    """No two shipped recipes make the same dataset."""
    ids = [Recipe.load(name).dataset_id for name in shipped_recipes()]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("complexity", [1, 10, 50])
@pytest.mark.parametrize(("nu", "tag"), [(0.0, "0"), (0.1, "0p1")])
def test_table_1_is_shipped(complexity, nu, tag):
    """The recipes of the paper's Table 1: persistent offsets of nu, 100,000 transitions at (8, 4)."""
    recipe = Recipe.load(f"table1-c{complexity}-nu{tag}")
    assert recipe == Recipe(Task(complexity=complexity), (Component(Behavior("bias", nu)),))
    assert recipe.episodes * recipe.task.episode_length == 100_000
    assert recipe.dataset_id == f"sme/s8a4-c{complexity}-bias-nu{tag}-v0"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"episodes": 0}, "episodes"),
        ({"episodes": 10**9 + 1}, "episodes"),
        ({"seed": 2**63}, "seed"),
        ({"seed": 0.5}, "seed"),
        ({"mix": ()}, "behavior"),
        ({"mix": (Component(Behavior(), math.nan),)}, "share"),
    ],
)
def test_values_out_of_range_are_refused(fields, words):
    """A recipe built in Python is checked as one read from a file."""
    with pytest.raises(SpecError, match=f"^recipe: .*{words}"):
        Recipe(Task(), **fields)


def test_anything_but_tables_is_refused():
    """A JSON value that is no object is no recipe."""
    with pytest.raises(SpecError, match="recipe: expected tables"):
        Recipe.from_dict([])
