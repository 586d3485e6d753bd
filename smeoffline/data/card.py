"""Dataset cards: one Markdown page a recipe, generated from it (`python -m smeoffline.data.card FOLDER`)."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

from smeoffline.data.recipe import Recipe
from smeoffline.data.reference import reference_returns, references
from smeoffline.data.rollout import Rollout
from smeoffline.sme.task import Task

ROWS = (
    ("optimal_score", "the optimum"),
    ("imitation_score", "the best that cloning can do"),
    ("clone_mean_score", "perfect least-squares cloning"),
    ("clone_median_score", "perfect least-absolute cloning"),
    ("clone_shrunk_score", "the better clone, drawn towards 1/2 as far as helps"),
    ("behavior_score", "what acted, its exploration included"),
    ("random_score", "uniform actions"),
)


def card(name: str, text: str) -> str:
    """The card of a recipe.

    Args:
        name: The recipe's name.
        text: Its TOML; the comment at its top becomes the card's first paragraph.

    Returns:
        Markdown, ending in a newline; the same for the same recipe.
    """
    recipe = Recipe.from_toml(text, source=name)
    rollout = Rollout.prepare(recipe)
    rows = references(rollout)
    scores = rows.to_dict()
    worst, best = reference_returns(rollout)
    task = recipe.task
    top = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = [line.removeprefix("#").strip() for line in top]
    lines = [
        f"# {name}",
        "",
        "\n".join(comment),
        "",
        f"Dataset id: `{recipe.dataset_id}`  ",
        f"Make it: `sme-offline generate --recipe {name}`",
        "",
        f"{recipe.episodes:,} episodes of {task.episode_length} steps, {task.state_dim} state and "
        f"{task.action_dim} action channels, complexity {task.complexity}, task seed {task.seed}, "
        f"dataset seed {recipe.seed}{_rest(task)}.",
        "",
        "| share | base | nu | explore | sigma |",
        "|---|---|---|---|---|",
        *(
            f"| {c.share:.2g} | {c.behavior.base} | {c.behavior.nu:g} | {c.behavior.explore} | {c.behavior.sigma:g} |"
            for c in recipe.mix
        ),
        "",
        "| on uniform probes | score | |",
        "|---|---|---|",
        *(f"| {key.removesuffix('_score')} | {scores[key]:.3f} | {what} |" for key, what in ROWS),
        "",
        f"Headroom {rows.headroom:.3f}"
        + (" (the clones are approximate here)." if rows.approximate else ".")
        + f" Mean return of random actions {worst:.1f}, of the optimum {best:.1f}.",
    ]
    return "\n".join(lines) + "\n"


def _rest(task: Task) -> str:
    """The fields of a task that a card's sentence does not name, where they are not their defaults."""
    usual = Task()
    named = ("state_dim", "action_dim", "complexity", "episode_length", "seed")
    fields = [name for name in task.to_dict() if name not in named and getattr(task, name) != getattr(usual, name)]
    return "".join(f", {name.replace('_', ' ')} {getattr(task, name):g}" for name in fields)


def main(folder: Path) -> None:
    """Write the card of every recipe in a folder beside it."""
    for path in sorted(folder.glob("*.toml")):
        path.with_suffix(".md").write_text(card(path.stem, path.read_text(encoding="utf-8")), encoding="utf-8")
        print(path.with_suffix(".md").name)  # noqa: T201 - run as a script, it says what it wrote


if __name__ == "__main__":
    main(Path(sys.argv[1]))
