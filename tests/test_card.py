"""Cards: what stands beside a recipe is what the recipe gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from smeoffline.data.card import card, main
from smeoffline.data.recipe import Recipe

DATASETS = Path(__file__).parents[1] / "datasets"
RECIPES = sorted(DATASETS.glob("*.toml"))
NUMBER = re.compile(r"\d+\.\d+")

TEXT = """# A first line.
# A second line.

[task]
episode_length = 5
# not part of the card
[dataset]
episodes = 3
"""


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_committed_cards_are_current(path):
    """Each committed card is the one its recipe gives: the same text, and numbers that agree as printed."""
    committed = path.with_suffix(".md").read_text(encoding="utf-8")
    made = card(path.stem, path.read_text(encoding="utf-8"))
    assert NUMBER.sub("#", made) == NUMBER.sub("#", committed), (
        f"run: {sys.executable} -m smeoffline.data.card datasets"
    )
    # Another type of processor may round another way, and the mean of long rollouts (shaped returns) differs.
    shaped = Recipe.load(path).task.shaping > 0
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(committed), strict=True):
        decimals = len(one.partition(".")[2])
        slack = 0.5 if shaped and decimals == 1 else 1.01 * 10**-decimals
        assert float(one) == pytest.approx(float(other), abs=slack)


def test_no_card_is_left_without_its_recipe():
    """Cards and recipes come in pairs (suites have neither)."""
    assert {path.stem for path in DATASETS.glob("*.md")} == {path.stem for path in RECIPES}


def test_a_card_says_what_the_recipe_says():
    """A card has the recipe's name, its leading comment alone, its id, its command, sizes and rows."""
    text = card("mine", TEXT)
    assert text.startswith("# mine\n\nA first line.\nA second line.\n\n")
    assert "not part of the card" not in text
    assert "`sme/s8a4-c1-bias-nu0-len5-n3-v0`" in text
    assert "`sme-offline generate --recipe mine`" in text
    assert "3 episodes of 5 steps, 8 state and 4 action channels, complexity 1, task seed 1, dataset seed 0." in text
    assert "| 1 | bias | 0 | none | 0 |" in text
    for row in ("| optimal | 1.000 |", "| imitation | 1.000 |", "| behavior | 1.000 |", "| random | 0.66"):
        assert row in text
    assert text.endswith("of the optimum 5.0.\n")
    assert card("mine", TEXT) == text


def test_cards_are_written_beside_their_recipes(tmp_path, capsys):
    """The command writes one card for each recipe of a folder and names it."""
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(TEXT)
    main(tmp_path)
    assert capsys.readouterr().out.split() == ["one.md", "two.md"]
    assert (tmp_path / "two.md").read_text() == card("two", TEXT)


def test_cards_are_made_by_one_command(tmp_path):
    """`python -m smeoffline.data.card FOLDER` does the same, and an empty folder is no fault."""
    done = subprocess.run([sys.executable, "-m", "smeoffline.data.card", tmp_path], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


def test_a_card_tells_what_is_unusual_of_a_task():
    """Delayed rewards, shaping and the like are named where a recipe has them, and nowhere else."""
    unusual = TEXT.replace("episode_length = 5", "episode_length = 5\nreward_every = 2\nshaping = 0.5")
    assert "dataset seed 0, reward every 2, shaping 0.5.\n" in card("mine", unusual)
    assert "dataset seed 0.\n" in card("mine", TEXT)
