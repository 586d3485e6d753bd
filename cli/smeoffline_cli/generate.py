"""`sme-offline generate`: roll a behavior out on a task and write a Minari dataset."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_fields, emit_json
from smeoffline_cli.progress import progress_bar
from smeoffline_cli.references import emit_references

if TYPE_CHECKING:
    from smeoffline.data.generate import Generated
    from smeoffline.data.recipe import Recipe


@click.command("generate")
@options.field_options("task", "behavior", "recipe")
@click.option(
    "--recipe",
    type=paths.RECIPE,
    metavar="FILE",
    help="A recipe file (TOML), or the name of a shipped recipe.",
    shell_complete=complete.recipes,
)
@click.option("--overwrite", is_flag=True, help="Replace the dataset if it exists.")
@options.workers_option
@options.json_option
@click.pass_context
def command(
    ctx: click.Context, /, recipe: str | None, overwrite: bool, workers: int | None, as_json: bool, **_: Any
) -> None:
    """Write a dataset of noisy behavior on one task.

    The behavior errs systematically by --nu and explores by --sigma. The optimum is known in every state, so
    the summary tells how good the behavior is, how good imitation of it can get, and what that leaves for the
    reward to teach: headroom.

    The same options give the same bytes.

    A recipe's file is TOML: [task] (state_dim, action_dim, complexity, ... as the options, but seed for --task-seed),
    one or more [[behavior]] (base, nu, explore, sigma, policy, share) and [dataset] (episodes, seed, id); each may be
    left out. docs/reference/formats.md tells more.
    """
    with interruption.at_once():
        spec = _from_options(ctx) if recipe is None else _from_file(ctx, recipe)
        _check_id(ctx)

        from smeoffline.data.generate import generate_recipe  # heavy: not before the options are right

    with progress_bar("generating", "transitions") as progress:
        made = generate_recipe(spec, overwrite=overwrite, workers=workers, progress=progress)
    if as_json:
        emit_json(made.to_dict())
    else:
        _show(made, spec)


def _from_options(ctx: click.Context) -> Recipe:
    """The recipe that the options spell out."""
    from smeoffline.data.behavior import Behavior
    from smeoffline.data.recipe import Component, Recipe
    from smeoffline.sme.task import Task

    typed = options.typed_fields(ctx, "behavior")
    with options.refusals(ctx):
        task, behavior = Task(**options.typed_fields(ctx, "task")), Behavior(**typed)
        if typed.get("explore", "none") != "none" and behavior.sigma == 0:
            # not the library's to refuse: a suite's grid may begin at sigma 0
            raise click.UsageError(
                f"--explore {typed['explore']!r} needs a size: expected --sigma above 0, got {behavior.sigma:g}; "
                "give --sigma, or drop --explore",
                ctx,
            )
        return Recipe(task=task, mix=(Component(behavior),), **options.typed_fields(ctx, "recipe"))


def _from_file(ctx: click.Context, source: str) -> Recipe:
    """The recipe of a file or a shipped one, under another id, seed or length where that was typed."""
    clash = options.typed_flags(ctx, ["task", "behavior"])
    if clash:
        raise click.UsageError(f"--recipe already says what {', '.join(clash)} would; leave one out", ctx)

    from smeoffline.data.recipe import Recipe

    spec = Recipe.load(source)
    with options.refusals(ctx):
        return dataclasses.replace(spec, **options.typed_fields(ctx, "recipe"))


def _check_id(ctx: click.Context) -> None:
    """Refuse an id that Minari does not take, where one was typed."""
    from smeoffline.data.storage.folders import DatasetId

    name = options.typed_fields(ctx, "recipe").get("name")
    if name is not None:
        with options.refusals(ctx, {"dataset id": "--id: dataset id"}):
            DatasetId.parse(name)


def _show(made: Generated, spec: Recipe) -> None:
    """Print what was made and what it can teach."""
    from smeoffline.data.behavior import can_explore  # loaded by now; help does without

    record = made.to_dict()
    fields = {name: record[name] for name in ("path", "episodes", "transitions", "sha256")}
    emit_fields(made.dataset_id, {**fields, "seconds": f"{made.seconds:.1f}"})
    click.echo()
    emit_references(record, explores=can_explore(spec.to_dict()["behavior"]))
