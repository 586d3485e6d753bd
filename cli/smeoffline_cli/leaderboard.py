"""`sme-offline leaderboard`: entries are actions, scored against the optimum; nobody's numbers are believed."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import cell, emit_fields, emit_json, emit_table, one_line
from smeoffline_cli.progress import progress_bar

if TYPE_CHECKING:
    from smeoffline.bench.leaderboard.lines import Line

DEFAULT_SUITE = "v1"
RESULTS = "results.jsonl"
RUNS = paths.Existing("folder", "name a run's folder, or one with runs in it")
ENTRY = paths.Existing("file", "name an entry's file; `sme-offline leaderboard submit` writes one")
SALT = paths.Existing("file", "make one by `openssl rand -hex 16`, and keep it secret")
SCORED = paths.Existing("either", "`sme-offline leaderboard score` or `verify` makes it")
# How the library's messages about what an entry says of itself begin.
SAID = {
    "entry: name": "--name",
    "entry: authors": "--author",
    "entry: link": "--link",
    "entry: steps": "--steps",
}
OF_DATASET = ("score_wd", "improvement", "gap_closed", "score_ood")

suite_option = click.option(
    "--suite",
    type=paths.SUITE,
    default=DEFAULT_SUITE,
    show_default=True,
    metavar="SUITE",
    help="A file, or the name of a shipped suite.",
    shell_complete=complete.suites,
)
results_option = click.option(
    "--results",
    type=paths.NewFile(),
    default=RESULTS,
    show_default=True,
    metavar="FILE",
    help="The results file that gets a line.",
)
out_option = click.option("-o", "--out", required=True, type=paths.NewFile(), metavar="FILE", help="The file to write.")


@click.group("leaderboard")
def command() -> None:
    """Submit, score, verify and rank algorithms by their actions.

    An entry is an algorithm's actions at fixed states, for each dataset and seed of a suite. It is scored from
    these alone: no score that somebody reports is believed, and no code of a stranger runs, but in `verify`.
    """


@command.command("probes")
@click.argument("suite", type=paths.SUITE, shell_complete=complete.suites)
@out_option
@options.overwrite_option
@options.json_option
def probes(suite: str, out: str, overwrite: bool, as_json: bool) -> None:
    """Write the states at which an entry gives its actions.

    SUITE is a file, or the name of a shipped suite: v1. The file is a .npz with an array of observations for each
    dataset, and the hash that an entry repeats.
    """
    paths.check_new(out, overwrite=overwrite)
    from smeoffline.bench.leaderboard.board import Board

    board = Board.load(suite)
    board.write_probes(Path(out))
    told = {
        "datasets": len(board.datasets),
        "seeds": board.suite.seeds,
        "probes": len(next(iter(board.observations.values()))),
    }
    _emit(board.suite.name, {**told, "probes_sha256": board.probes_sha256, "path": out}, as_json)


@command.command("submit")
@click.argument("runs", type=RUNS, nargs=-1, required=True, metavar="RUN...", shell_complete=complete.runs)
@click.option("--name", required=True, help="What the leaderboard calls it.")
@click.option("--author", "authors", multiple=True, metavar="NAME", help="An author; may be repeated.")
@click.option("--link", metavar="URL", help="A paper or a repository.")
@click.option("--partial", is_flag=True, help="Datasets or seeds are missing: list it, don't rank it.")
@suite_option
@out_option
@options.overwrite_option
@options.json_option
@click.pass_context
def submit(
    ctx: click.Context,
    runs: tuple[str, ...],
    name: str,
    authors: tuple[str, ...],
    link: str | None,
    partial: bool,
    suite: str,
    out: str,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write an entry from finished runs.

    RUN is a run's folder, or a folder with runs in it, such as DIR/runs/*--iql-* of a benchmark.
    """
    paths.check_new(out, overwrite=overwrite)
    with interruption.at_once():
        from smeoffline.bench.leaderboard.board import Board
        from smeoffline.bench.leaderboard.submit import submit as write

        board = Board.load(suite)
    with options.refusals(ctx, SAID), progress_bar("acting", "runs") as progress:
        made = write(runs, out, board, name=name, authors=authors, link=link, partial=partial, progress=progress)
    fields = {"suite": made.suite, "algorithm": made.algorithm, "steps": made.steps, "seeds": len(made.seeds)}
    fields |= {"partial": made.partial, "path": out, "megabytes": round(Path(out).stat().st_size / 1e6, 1)}
    _emit(made.name, fields, as_json, title_key="name")
    if not as_json:
        chosen = "" if suite == DEFAULT_SUITE else f" --suite {shlex.quote(suite)}"
        click.echo(f"\nnext: sme-offline leaderboard score {shlex.quote(out)}{chosen}")


@command.command("score")
@click.argument("entry", type=ENTRY, metavar="FILE")
@suite_option
@results_option
@options.json_option
def score(entry: str, suite: str, results: str, as_json: bool) -> None:
    """Check an entry, score it from the optimum, and add its line.

    FILE is a .npz of actions, which `submit` writes, or anything that follows docs/leaderboard.md. Every fault is
    told, and makes the exit code 1; nothing is added then.
    """
    with interruption.at_once():
        from smeoffline.bench.leaderboard.board import Board
        from smeoffline.bench.leaderboard.entry import EntryError, read_entry
        from smeoffline.bench.leaderboard.lines import add_line, check_suite

        board = Board.load(suite)
        try:
            found = read_entry(Path(entry), board)
        except EntryError as error:
            _refuse(entry, error.faults, as_json)
        check_suite(Path(results), board.suite.name)  # after the entry: a wrong --suite is not the results' fault

        from smeoffline.bench.leaderboard.scoring import score_entry  # heavy: not before the entry is right

        line = score_entry(found, board)
    add_line(Path(results), line)
    _show(line, results, as_json)


@command.command("verify")
@click.argument("entrant", metavar="MODULE:FUNCTION")
@click.option(
    "--salt-file",
    required=True,
    type=SALT,
    metavar="FILE",
    help="The secret that the held-out tasks are drawn from.",
)
@click.option("--trust", is_flag=True, help="Run this code here, in a sandbox: isolation, not proof.")
@click.option("--name", metavar="NAME", help="What the leaderboard calls it.  [default: MODULE:FUNCTION]")
@click.option("--steps", type=click.IntRange(min=1), metavar="N", help="Training steps, instead of the suite's.")
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Seeds; with fewer than the suite's, unranked.")
@click.option(
    "--timeout", type=click.FloatRange(min=1, max=10**7), default=3600, show_default=True, help="Seconds a training."
)
@suite_option
@results_option
@options.json_option
@click.pass_context
def verify(
    ctx: click.Context,
    entrant: str,
    salt_file: str,
    trust: bool,
    name: str | None,
    steps: int | None,
    seeds: int | None,
    timeout: float,
    suite: str,
    results: str,
    as_json: bool,
) -> None:
    """Train an algorithm on tasks that nobody has seen, in a sandbox.

    MODULE:FUNCTION is train(data, *, seed, steps), as for `train --algo`, in a package or module of this folder. It
    runs in bubblewrap without network, environment or files, on the suite's datasets and on held-out ones; what it
    gets is arrays, and what comes back is arrays. The salt stays outside.
    """
    if not trust:
        raise click.UsageError(
            "this runs a stranger's code on this machine, in a sandbox that is isolation and not proof (a fault in the "
            "kernel or in bubblewrap is a way out); add --trust to do so",
            ctx,
        )
    with interruption.at_once():
        from smeoffline.bench.leaderboard.board import Board
        from smeoffline.bench.leaderboard.held_out import Salt
        from smeoffline.bench.leaderboard.lines import add_line, check_suite
        from smeoffline.bench.leaderboard.sandbox import Entrant
        from smeoffline.bench.suite import Suite

        whole = Suite.load(suite)
        with options.refusals(ctx, {"suite: seeds": "--seeds", "entrant": "MODULE:FUNCTION"}):
            board = Board(whole.with_size(seeds=seeds))
            found = Entrant.find(entrant)
        check_suite(Path(results), whole.name)  # refused now, not when all is trained
        Salt.read(salt_file)

        from smeoffline.bench.leaderboard.verify import verify as run  # heavy: not before all that is right
    click.echo(
        f"{entrant} runs in a sandbox, {2 * len(board.places)} trainings; this is isolation, not proof", err=True
    )
    with options.refusals(ctx, SAID), progress_bar("verifying", "trainings") as progress:
        line = run(
            found,
            salt_file,
            board,
            name=name if name is not None else entrant,
            steps=steps if steps is not None else whole.steps,
            partial=board.suite.seeds < whole.seeds,
            timeout=timeout,
            progress=progress,
        )
    add_line(Path(results), line)
    _show(line, results, as_json)


@command.command("build")
@click.argument("results", type=SCORED, default=RESULTS, metavar="[RESULTS]")
@click.option("--out", type=paths.Folder(), metavar="DIR", help="Where to write.  [default: beside the results]")
@options.json_option
def build(results: str, out: str | None, as_json: bool) -> None:
    """Make leaderboard.html and leaderboard.md from results.

    RESULTS is the file that `score` and `verify` add to, or the folder that holds it. The page loads nothing from
    anywhere; the same results give the same bytes.
    """
    from smeoffline.bench.leaderboard.page import build as write

    made = write(results, out=out)
    if as_json:
        emit_json(made.to_dict())
        return
    for standing in made.standings:
        rows = [
            (
                "-" if entry["rank"] is None else str(entry["rank"]),
                f"({entry['name']})" if entry["reference"] else entry["name"],
                *((entry["gap_closed"] or {}).get(key) for key in ("value", "low", "high")),
                entry["score"],
                "flagged" if entry["flagged"] else "partial" if entry["partial"] else "",
            )
            for entry in standing["entries"]
        ]
        number = len(standing["datasets"])
        click.echo(f"{standing['tier']}, ranked by {number} dataset{'' if number == 1 else 's'}")
        emit_table(["rank", "entry", "gap closed", "low", "high", "score", ""], rows)
        click.echo()
    emit_fields(made.suite, {path.suffix.removeprefix("."): path for path in made.files})


def _emit(title: str, fields: dict[str, Any], as_json: bool, title_key: str = "suite") -> None:
    """One result as JSON or as a table of its fields."""
    if as_json:
        emit_json({title_key: title, **fields})
    else:
        emit_fields(title, {name.replace("_", " "): value for name, value in fields.items()})


def _refuse(entry: str, faults: Sequence[str], as_json: bool) -> NoReturn:
    """Tell every fault of an entry, once.

    Raises:
        click.ClickException: Always.
    """
    if as_json:
        emit_json({"ok": False, "entry": entry, "faults": list(faults)})
    else:
        for fault in faults:
            click.echo(one_line(fault))
    count = f"{len(faults)} fault{'s' if len(faults) != 1 else ''}"
    raise click.ClickException(f"entry {entry}: {count} found, so it is not scored")


def _show(line: Line, results: str, as_json: bool) -> None:
    """A line that was just added."""
    record = line.to_dict()
    if as_json:
        emit_json({"ok": True, **record, "results": results})
        return
    from smeoffline.bench.leaderboard.standings import ranked_by

    rows = []
    for dataset, seeds in line.scores.items():
        listed = [dataclasses.asdict(score) for score in seeds]
        values = [[score[key] for score in listed if score[key] is not None] for key in OF_DATASET]
        means = [sum(column) / len(column) if column else None for column in values]
        rows.append((line.labels[dataset], line.kinds[dataset], len(seeds), *means))
    emit_table(["dataset", "kind", "seeds", "score", "improvement", "gap closed", "outside"], rows)
    click.echo()
    if line.held_out is not None and line.held_out.lead is not None:
        lead = line.held_out.lead
        ends = (
            f" ({cell(lead.low)} to {cell(lead.high)})" if lead.low is not None else ", without an interval: one seed"
        )
        click.echo(f"public - held-out gap closed: {cell(lead.value)}{ends}")
    for flag in line.flags:
        click.echo(f"flagged: {flag}")
    ranked = "ranked"
    if line.partial:
        ranked = "not ranked: partial"
    elif not ranked_by(line.kinds, [line.scores]):
        ranked = "not ranked: no dataset that rewards can teach on has a headroom of 0.05 or more"
    elif line.flags:
        ranked = "without a rank: flagged"
    emit_fields(line.submission.name, {"tier": line.tier, "ranking": ranked, "results": results})
