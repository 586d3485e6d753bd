"""`sme-offline report`: tables and figures from the results of a benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from smeoffline_cli import options, paths
from smeoffline_cli.output import emit_fields, emit_json, emit_table

FOLDER = paths.Existing("folder", "name the one that holds results.jsonl")


@click.command("report")
@click.argument("folder", type=FOLDER, metavar="DIR")
@click.option("--out", type=paths.Folder(), metavar="DIR", help="Where to write.  [default: beside the results]")
@options.json_option
def command(folder: str, out: str | None, as_json: bool) -> None:
    """Make tables and figures from the results of a benchmark.

    DIR holds the results.jsonl that `sme-offline benchmark` writes; an unfinished one gives a report of what
    is there. Written are report.md, report.json and figures: the same results give the same bytes.
    """
    from smeoffline.bench.report.report import report  # scipy and matplotlib: not before the options are right

    made = report(folder, out=out)
    if as_json:
        emit_json(made.to_dict())
        return
    content = made.record
    _show(content)
    fields = {"done": content["done"], "failed": len(content["failed"]), "report": made.files[0]}
    emit_fields(", ".join(content["suites"]), {**fields, "files": len(made.files)})


def _show(content: Mapping[str, Any]) -> None:
    """Print Table 1 beside the paper's and the ranking, where the results have them."""
    if content["cells"]:
        cell_names = ("nu", "complexity", "row", "mean", "spread", "n", "paper_mean", "difference", "within")
        rows = [[f"{cell['nu']:g}", *(cell[n] for n in cell_names[1:])] for cell in content["cells"]]
        emit_table([name.replace("_", " ") for name in cell_names], rows)
        click.echo()
    if content["ranking"] is not None:
        names = ("algorithm", "value", "low", "high", "n")
        rows = [[row[name] for name in names] for row in content["ranking"]["iqm"]]
        emit_table(["algorithm", "gap closed", "low", "high", "runs"], rows)
        click.echo()
