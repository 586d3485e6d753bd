"""`sme-offline evaluate`: exact scores of trained policies against the known optimum."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.critics import draw_critics, emit_critics, emit_critics_beside
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_fields, emit_json, emit_table
from smeoffline_cli.progress import Report, progress_bar
from smeoffline_cli.references import emit_references

# Key in the evaluation -> what it is, in the order they are shown.
SCORES = {
    "score_wd": "on uniform states, within the training distribution",
    "score_data": "on states that the behavior visits",
    "score_rollout": "along its own episodes",
    "score_ood": "outside the cube: a diagnostic, not a ranking",
}
GAINS = {
    "improvement": "score_wd over the behavior",
    "normalized_improvement": "as a share of what the behavior leaves",
    "rl_gain": "score_wd over the best faithful imitation",
    "gap_closed": "rl_gain as a share of the headroom",
}
BESIDE_ROWS = {
    "optimal_score": "optimal",
    "clone_shrunk_score": "shrunk",
    "imitation_score": "imitation",
    "behavior_score": "behavior",
    "random_score": "random",
}
BESIDE = ("score_wd", "rl_gain", "improvement", "score_ood")
TARGET = paths.Existing("either", "name a run's folder or an ONNX file")
# How the library's messages about an option begin.
FLAGS = {
    "evaluate: probes": "--probes",
    "evaluate: seed": "--seed",
    "evaluate: critics": "--values: critics",
    "evaluate: a policy alone": "--dataset: a policy alone",
}


@click.command("evaluate")
@click.argument(
    "targets", type=TARGET, metavar="RUN|POLICY.onnx...", nargs=-1, required=True, shell_complete=complete.runs
)
@click.option(
    "--dataset",
    metavar="DATASET",
    help="Whose task and behavior to measure by (a run knows its own).",
    shell_complete=complete.datasets,
)
@click.option(
    "--probes", type=int, default=10_000, show_default=True, help="Uniform and out-of-distribution probe states, each."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws probes and episodes.")
@click.option("--values", is_flag=True, help="Compare a run's critics with Q*, and with Q of its policy.")
@click.option(
    "--figure", type=paths.NewFile(Path, (".svg",)), metavar="FILE.svg", help="With --values: draw them there."
)
@options.json_option
@click.pass_context
def command(
    ctx: click.Context,
    targets: tuple[str, ...],
    dataset: str | None,
    probes: int,
    seed: int,
    values: bool,
    figure: Path | None,
    as_json: bool,
) -> None:
    """Score a trained policy against the known optimum.

    Takes runs (a run's folder, or one with a single run in it, as a benchmark makes for each cell), or policies in
    ONNX files.
    Scores are 1 - mean |action - optimal action|. Evaluated twice, a policy has the same numbers. Several are shown
    in one table for each dataset, its reference rows among them.

    A run's evaluation on its own dataset is also written to evaluation.json in its folder, but not over one that
    says more: with more probes, as many by another seed, or values by other probes that this one lacks. It is then
    only shown, and a warning says so. The same again without --values keeps the values.

    With --values the critics of a run of a value-based algorithm are compared with Q*, which is exact, and with
    Q of its own policy, which is measured by rollouts: 15 seconds for the default task, two minutes with 32 state
    channels and complexity 50, on a free core.
    """
    if figure is not None and not values:
        raise click.UsageError("--figure shows critics: give --values too", ctx)
    with interruption.at_once():  # nothing is written yet
        from smeoffline.score.runs import evaluate, short_names
        from smeoffline.train.run_folder import find_run

    evaluations = []
    with options.refusals(ctx, FLAGS), progress_bar("evaluating", "policies", lines=True) as progress:
        for i, (target, name) in enumerate(zip(targets, short_names(targets), strict=True)):
            tell = functools.partial(_tell, progress, i, len(targets), name)
            evaluations.append(evaluate(target, dataset=dataset, n_probes=probes, seed=seed, values=values, tell=tell))
        progress(len(targets), len(targets))
    if figure is not None:
        runs = short_names([str(find_run(Path(target))) for target in targets])
        draw_critics(figure, dict(zip(runs, [e.values for e in evaluations], strict=True)))
    records = [e.to_dict() for e in evaluations]
    if len(records) > 1:
        _emit_several(targets, records, dataset, as_json=as_json)
    elif as_json:
        emit_json(records[0])
    else:
        _show(records[0])
        if values:
            click.echo()
            emit_critics(records[0]["values"])


def _tell(progress: Report, done: int, total: int, name: str, what: str) -> None:
    """Show what is done, and for which of several policies."""
    progress(done, total, f"{what}, {name}" if total > 1 else what)


def _show(record: Mapping[str, Any]) -> None:
    """Print everything about one policy."""
    emit_table(["score", "", ""], [(name, record[name], meaning) for name, meaning in SCORES.items()])
    click.echo()
    # Fresh noise makes perfect cloning differ from what acts; without it they are the same.
    explores = record["behavior_score"] != record["imitation_score"]
    emit_references({**record, "approximate": record["references_approximate"]}, explores=explores)
    click.echo()
    emit_table(["gain", "", ""], [(name, record[name], meaning) for name, meaning in GAINS.items()])
    click.echo()
    regrets = {
        "action regret": record["action_regret"],
        "reward regret": record["reward_regret"],
        "mean return": record["return_rollout"],
    }
    emit_fields("regret", regrets)


def _emit_several(
    targets: Sequence[str], records: Sequence[Mapping[str, Any]], dataset: str | None, *, as_json: bool
) -> None:
    """Print several policies, a table for each dataset that they were measured by."""
    from smeoffline.score.runs import short_names

    if as_json:
        emit_json({"evaluations": dict(zip(targets, records, strict=True))})
        return
    groups: dict[tuple[Any, ...], list[tuple[str, Mapping[str, Any]]]] = {}
    for target, name, record in zip(targets, short_names(targets), records, strict=True):
        measure = (_dataset_id(target, dataset), *(record[key] for key in BESIDE_ROWS))
        groups.setdefault(measure, []).append((name, record))
    for i, ((dataset_id, *_), evaluated) in enumerate(groups.items()):
        if i > 0:
            click.echo()
        if len(groups) > 1:
            click.echo(dataset_id)
        _emit_beside(evaluated)


def _emit_beside(evaluated: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
    """Print policies that one dataset measures, best first, with its reference rows."""
    first = evaluated[0][1]
    rows = [(name, *(record[key] for key in BESIDE)) for name, record in evaluated]
    rows += [_reference(first, key, name) for key, name in BESIDE_ROWS.items()]
    emit_table(["", *BESIDE], sorted(rows, key=lambda row: -row[1]))
    if "values" in first:
        click.echo()
        emit_critics_beside({name: record["values"] for name, record in evaluated})


def _dataset_id(target: str, dataset: str | None) -> str:
    """What a policy was measured by: what `--dataset` names, or else its run's own."""
    from smeoffline.train.record import read_run
    from smeoffline.train.run_folder import find_run

    return dataset if dataset is not None else read_run(find_run(Path(target))).dataset_id


def _reference(record: Mapping[str, Any], key: str, name: str) -> tuple[Any, ...]:
    """A reference row under the same columns."""
    score = record[key]
    gain = None if record["rl_gain"] is None else score - record["imitation_score"]
    return (f"({name})", score, gain, score - record["behavior_score"], None)
