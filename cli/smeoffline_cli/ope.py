"""`sme-offline ope`: off-policy evaluation beside true values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_fields, emit_json, emit_table
from smeoffline_cli.progress import progress_bar

METHODS = ("fqe", "pdis", "wis", "wpdis", "direct", "behavior")
TARGET = paths.Existing("either", "name a run's folder, an ONNX file, behavior or optimal", ("behavior", "optimal"))
# How the library's messages about an option begin.
FLAGS = {
    "ope: horizon": "--horizon",
    "ope: discount": "--discount",
    "ope: fqe_steps": "--fqe-steps",
    "ope: episodes": "--episodes",
    "ope: seed": "--seed",
    "ope: sigma": "--sigma",
    "ope: expected methods": "--methods: expected methods",
    "ope: expected each policy": "expected each policy",
}


@click.command("ope")
@options.dataset_argument
@click.argument(
    "targets",
    type=TARGET,
    metavar="RUN|POLICY.onnx|behavior|optimal...",
    nargs=-1,
    required=True,
    shell_complete=complete.policies,
)
@click.option(
    "--methods",
    metavar="LIST",
    help=f"Of {options.spelled(METHODS, 'and')}, separated by commas.  [default: all that apply]",
    shell_complete=complete.listed(*METHODS),
)
@click.option("--sigma", type=float, help="Probit noise around every policy.  [default: the behavior's]")
@click.option("--discount", type=float, help="Of rewards.  [default: the task's, 0.99]")
@click.option("--horizon", type=int, help="Steps of an episode that count.  [default: all]")
@click.option("--fqe-steps", type=int, default=10_000, show_default=True, help="Updates of what is fitted.")
@click.option("--episodes", type=int, default=1000, show_default=True, help="Rollouts for each true value.")
@click.option("--seed", type=int, default=0, show_default=True, help="Draws rollouts, weights, batches and noise.")
@options.json_option
@click.pass_context
def command(
    ctx: click.Context, /, dataset: str, targets: tuple[str, ...], methods: str | None, as_json: bool, **numbers: Any
) -> None:
    """Estimate policies from a dataset, beside their true values.

    Estimates what each policy is worth from DATASET alone, by fitted Q evaluation (fqe), importance sampling (pdis,
    wis, wpdis), a fitted reward model (direct) and the behavior's own return (behavior), and measures what it is
    worth by rollouts. A value is the mean reward a step, weighted by discount^t. Every policy is evaluated with the
    same noise around it, `Phi(Phi^-1(a) + sigma eps)`, since a deterministic one has no importance weights; its
    true value is that of the noisy policy.
    """
    chosen = None if methods is None else [name.strip() for name in methods.split(",")]
    with interruption.at_once():  # torch, while an interruption can't abort it
        if chosen is not None:
            from smeoffline.score.ope.names import check_methods  # without torch: refused at once

            with options.refusals(ctx, FLAGS):
                check_methods(chosen)
        from smeoffline.score.ope.estimate import off_policy

    with options.refusals(ctx, FLAGS), progress_bar("evaluating", "policies", lines=True) as progress:
        found = off_policy(
            dataset,
            targets,
            methods=chosen,
            progress=progress,
            **numbers,
        )
    record = found.to_dict()
    if as_json:
        emit_json(record)
    else:
        _show(record)


def _show(record: Mapping[str, Any]) -> None:
    """Print the estimates beside the truth, and how good each method is."""
    from smeoffline.score.runs import short_names

    names = ("discount", "horizon", "sigma", "fqe_steps")
    emit_fields(record["dataset_id"], {name.replace("_", " "): record[name] for name in names})
    click.echo()
    methods = list(record["methods"])
    policies = record["policies"]
    rows = [
        (name, p["true"], p["standard_error"], *(p["estimates"][m]["value"] for m in methods))
        for name, p in zip(short_names([p["name"] for p in policies]), policies, strict=True)
    ]
    rows.sort(key=lambda row: -row[1])
    emit_table(["mean reward a step", "true", "+-", *methods], rows)
    click.echo()
    ks = [found["k"] for found in record["methods"][methods[0]]["regret"]]
    rows = [
        (
            name,
            m["mean_absolute_error"],
            m["rank_correlation"],
            *(r["regret"] for r in m["regret"]),
            _samples(record, name),
        )
        for name, m in record["methods"].items()
    ]
    emit_table(["method", "mean |error|", "ranks", *(f"regret@{k}" for k in ks), "least effective samples"], rows)
    for note in record["notes"]:
        click.echo(f"\nnote: {note}")


def _samples(record: Mapping[str, Any], method: str) -> float | None:
    """The fewest effective samples of a method over all policies."""
    found = [p["estimates"][method]["effective_samples"] for p in record["policies"]]
    return min(found) if None not in found else None
