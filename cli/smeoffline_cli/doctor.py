"""`sme-offline doctor`: check the installation, and say what to fix."""

from __future__ import annotations

import click

from smeoffline_cli import options
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_json, emit_table


@click.command("doctor")
@options.json_option
def command(as_json: bool) -> None:
    """Check the installation, and say what to fix.

    Looks at versions against what smeoffline and its dependencies ask for, at Python, torch, cores, memory and
    disk, and at the folder of datasets with every dataset in it. Nothing is changed. What must be fixed makes
    the exit code 1; a note need not be.
    """
    with interruption.at_once():
        from smeoffline_cli.health import examine

        checks = list(examine())
    faults = [check for check in checks if check.status == "fix"]
    if as_json:
        records = [{"name": c.name, "status": c.status, "found": c.found, "fix": c.fix} for c in checks]
        emit_json({"ok": not faults, "checks": records})
    else:
        emit_table(["check", "", "found"], [(check.name, check.status, check.found) for check in checks])
        advised = [check for check in checks if check.fix is not None]
        if advised:
            click.echo()
            emit_table(["to do", "", "how"], [(check.name, check.status, check.fix) for check in advised])
    if faults:
        raise click.ClickException(f"{len(faults)} thing{'s' if len(faults) != 1 else ''} to fix")
