"""`sme-offline inspect`: audit a dataset and describe it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from smeoffline_cli import options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import cell, emit_fields, emit_json
from smeoffline_cli.references import emit_references

if TYPE_CHECKING:
    from smeoffline.data.audit.inspection import Finding, Inspection

HIDDEN = ("smeoffline", "schema")  # told in other words, or of no use to a reader


@click.command("inspect")
@options.dataset_argument
@click.option("--html", type=paths.NewFile(), metavar="FILE", help="Also write the audit as one page, with figures.")
@options.json_option
def command(dataset: str, html: str | None, as_json: bool) -> None:
    """Audit a dataset and describe it.

    DATASET is an id, or the folder of a dataset. Every reward, transition and optimal action is recomputed
    from the task that the dataset names, every action and its density from the seeds; on the platform that
    wrote it, a sample of episodes is rolled out again and compared byte for byte. A fault is told by episode
    and step, and makes the exit code 1.
    """
    with interruption.at_once():  # an audit writes nothing
        from smeoffline.data.audit.inspection import inspect

        found = inspect(dataset)
    if html is not None:
        _write_page(Path(html), found)
    if as_json:
        findings = [dataclasses.asdict(finding) for finding in found.findings]
        verdict = {"ok": found.ok, "dataset_id": found.dataset_id, "findings": findings}
        verdict |= {"unchecked": found.unchecked} | ({} if html is None else {"html": html})
        emit_json({**verdict, **found.description, **verdict})  # no key in a file may change the verdict
    else:
        _show(found.dataset_id, found.description)
        for finding in found.findings:
            click.echo(line(finding))
        for reason in found.unchecked:
            click.echo(f"not checked: {reason}")
        if found.ok:
            click.echo(_verdict(found))
        if html is not None:
            click.echo(f"page: {html}")
    if not found.ok:
        count = len(found.findings)
        raise click.ClickException(f"{found.dataset_id}: {count} fault{'s' if count != 1 else ''} found")


def line(finding: Finding) -> str:
    """A fault in words: `episode 7, step 13: reward: expected 0.93, got 1.93`."""
    where = [
        f"{name} {index}" for name, index in (("episode", finding.episode), ("step", finding.step)) if index is not None
    ]
    place = f"{', '.join(where)}: " if where else ""
    return f"{place}{finding.check}: expected {finding.expected}, got {finding.got}"


def _write_page(path: Path, found: Inspection) -> None:
    """Write the audit's page, whole or not at all."""
    from smeoffline.bench.audit.page import page  # matplotlib: only where it draws
    from smeoffline.train.files import write_atomically

    write_atomically(path, page(found).encode())


def _show(dataset_id: str, description: Mapping[str, Any]) -> None:
    """Print what the dataset is and what it can teach, as far as its metadata make sense."""
    from smeoffline.data.behavior import can_explore  # loaded by now; help does without

    scores, recipe = description.get("scores"), description.get("recipe")
    behaviors = recipe.get("behavior") if isinstance(recipe, Mapping) else None
    listed = [b for b in behaviors if isinstance(b, Mapping)] if isinstance(behaviors, list) else []
    fields = dict(description)
    counts = fields.get("behavior_episodes")
    if isinstance(counts, list):
        fields["behavior_episodes"] = _mixed(counts, listed)
    scalars = {k: v for k, v in fields.items() if not isinstance(v, (Mapping, list)) and k not in HIDDEN}
    for name, key in (("quality", "trajectory_quality"), ("coverage", "state_action")):
        part = description.get(name)
        if isinstance(part, Mapping):
            scalars[key.replace("state_action", "state-action coverage")] = part[key]
    emit_fields(dataset_id, {name.replace("_", " "): value for name, value in scalars.items()})
    click.echo()
    if isinstance(scores, Mapping) and isinstance(scores.get("headroom"), float):
        explores = can_explore(listed)
        emit_references(scores, explores=explores)
        click.echo()


def _mixed(counts: list[Any], behaviors: Sequence[Mapping[str, Any]]) -> str:
    """A mixture's episodes beside the shares they were drawn by: `4 (share 0.9000) + 1 (share 0.1000)`."""
    parts = [f"{cell(n)} (share {cell(b.get('share'))})" for n, b in zip(counts, behaviors, strict=False)]
    return " + ".join(parts)


def _verdict(found: Inspection) -> str:
    """What the audit of a dataset without faults has shown."""
    if found.description["smeoffline"]:
        seeds = " and the seeds" if not any(reason.startswith("actions") for reason in found.unchecked) else ""
        again = found.description.get("rolled_out_again")
        equal = f", {again} episodes rolled out again are equal" if again else ""
        return f"ok: every step follows from the task{seeds}{equal}, and the content hash is right"
    return "ok: well-formed, but not made by smeoffline, so its optimum is not known"
