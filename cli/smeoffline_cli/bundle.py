"""`sme-offline bundle`: pack, verify, install and list datasets that travel as one file."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from smeoffline_cli import complete, options, paths
from smeoffline_cli.edge import interruption
from smeoffline_cli.output import emit_fields, emit_json, emit_table, emit_warning
from smeoffline_cli.progress import progress_bar

BUNDLE = paths.Existing("file", "name a bundle's file; `sme-offline bundle pack` makes one")


@click.group("bundle")
def command() -> None:
    """Pack, verify and install datasets as one file.

    A bundle is a zip file that anyone can make and host on any web server. It is checked before anything of it
    appears, and cannot run code, write elsewhere or fill the disk.
    """


@command.command("pack")
@click.argument("datasets", nargs=-1, metavar="[DATASET]...", shell_complete=complete.datasets)
@click.option("-o", "--out", required=True, type=paths.NewFile(Path), metavar="FILE", help="The new file.")
@click.option(
    "--suite",
    type=paths.SUITE,
    metavar="SUITE",
    shell_complete=complete.suites,
    help="Pack the datasets of a suite, generating those that are missing.",
)
@click.option("--seeds", type=click.IntRange(min=1), metavar="N", help="Seeds of the suite, instead of its own.")
@options.overwrite_option
@options.json_option
@click.pass_context
def pack(
    ctx: click.Context,
    datasets: tuple[str, ...],
    out: Path,
    suite: str | None,
    seeds: int | None,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write datasets to one file.

    DATASET is an id, or the folder of a dataset. The same datasets give the same bytes.
    """
    if not datasets and suite is None:
        raise click.UsageError("expected a DATASET or --suite, got neither", ctx)
    if seeds is not None and suite is None:
        raise click.UsageError("--seeds: goes with --suite; leave it out", ctx)
    paths.check_new(out, overwrite=overwrite)
    with interruption.at_once():
        from smeoffline.data.bundle.pack import ensure
        from smeoffline.data.bundle.pack import pack as write

        recipes = []
        if suite is not None:
            from smeoffline.bench.suite import Suite

            loaded = Suite.load(suite)
            with options.refusals(ctx, {"suite: seeds": "--seeds"}):
                cells = loaded.with_size(seeds=seeds).cells()
            recipes = list({cell.recipe.dataset_id: cell.recipe for cell in cells}.values())
    with progress_bar("generating", "transitions") as progress:
        names = [*datasets, *ensure(recipes, progress=progress)]
    with progress_bar("bundle", "bytes") as progress:
        made = write(names, out, overwrite=overwrite, progress=progress)
    if as_json:
        emit_json(made.to_dict())
        return
    emit_fields(str(made.file), {"datasets": _listed(made.datasets), "bytes": made.size, "sha256": made.sha256})
    click.echo(f"\nnext: host it, and tell: sme-offline bundle install URL --sha256 {made.sha256}")


@command.command("verify")
@click.argument("file", type=BUNDLE, metavar="FILE")
@click.option("--regenerate", is_flag=True, help="Make each dataset again from its recipe, and compare.")
@options.json_option
def verify(file: str, regenerate: bool, as_json: bool) -> None:
    """Check everything about a bundle, without installing it.

    Hashes, sizes, versions and the layout of every episode are checked, every number is read, and every step of
    a sample of episodes is recomputed from the known optimum. A fault makes the exit code 1.

    With --regenerate each dataset is made again from its recipe. On the platform that made it, it must be equal
    byte for byte; elsewhere initial states and noise must be equal, and each step within 1e-4.
    """
    with interruption.at_once():
        from smeoffline.data.bundle.verify import verify as check
    with progress_bar("bundle", "bytes") as progress:
        found = check(file, regenerate=regenerate, progress=progress)
    if as_json:
        emit_json(found.to_dict())
        return
    emit_fields(found.file, {"datasets": _listed(found.datasets), "bytes": found.size})
    more = "; each dataset was generated again and is equal" if found.regenerated else ""
    click.echo(f"\nok: all hashes are right, and {found.recomputed:,} steps follow from their tasks{more}")


@command.command("install")
@click.argument("sources", nargs=-1, required=True, metavar="FILE_OR_URL_OR_NAME...", shell_complete=complete.bundles)
@click.option("--sha256", metavar="HEX", help="Refuse a file of another hash.")
@click.option("--overwrite", is_flag=True, help="Replace datasets of the same ids.")
@options.json_option
@click.pass_context
def install(ctx: click.Context, sources: tuple[str, ...], sha256: str | None, overwrite: bool, as_json: bool) -> None:
    """Fetch a bundle, verify it, and install its datasets.

    Names are those of `sme-offline bundle list`. Several sources are mirrors of one bundle, tried in order.
    Nothing appears before it was verified, and what fails leaves nothing behind.
    """
    with interruption.at_once():
        from smeoffline.data.bundle.sources import find_sources

        with options.refusals(ctx, {"sha256": "--sha256"}):
            find_sources(sources, sha256)

        from smeoffline.data.bundle.install import install as fetch  # heavy: not before the sources are there
    with progress_bar("bundle", "bytes") as progress:
        made = fetch(sources, sha256=sha256, overwrite=overwrite, progress=progress)
    for failure in made.failures:
        emit_warning(failure)
    if as_json:
        emit_json(made.to_dict())
        return
    emit_table(["dataset", "path"], list(zip(made.datasets, made.paths, strict=True)))
    click.echo(f"\nok: {made.recomputed:,} steps follow from their tasks")
    click.echo(f"next: sme-offline inspect {shlex.quote(made.datasets[0])}")


@command.command("list")
@options.json_option
def list_(as_json: bool) -> None:
    """List named bundles and installed datasets."""
    from smeoffline.data.bundle.sources import registered
    from smeoffline.data.storage.folders import datasets_root, list_datasets

    bundles, datasets = registered(), list_datasets()
    if as_json:
        emit_json({"bundles": [_bundle(b) for b in bundles], "datasets": [_dataset(d) for d in datasets]})
        return
    rows = [(b.name, b.sha256, " ".join(b.shown)) for b in bundles]
    emit_table(["bundle", "sha256", "sources"], rows)
    click.echo()
    if not datasets:
        click.echo(f"no datasets in {datasets_root()}")
        return
    shown = [
        (d.id, d.episodes, d.steps, f"{d.size_mb:,.1f}", "yes" if d.provenance is not None else "no") for d in datasets
    ]
    emit_table(["dataset", "episodes", "transitions", "MB", "known optimum"], shown)


def _bundle(bundle: Any) -> dict[str, Any]:
    """A registered bundle as JSON values."""
    return {"name": bundle.name, "sha256": bundle.sha256, "sources": list(bundle.shown)}


def _dataset(dataset: Any) -> dict[str, Any]:
    """An installed dataset as JSON values."""
    return {
        "id": dataset.id, "path": dataset.path, "episodes": dataset.episodes, "transitions": dataset.steps,
        "size_mb": dataset.size_mb, "smeoffline": dataset.provenance is not None,
    }  # fmt: skip


def _listed(names: tuple[str, ...]) -> str:
    """A few ids, or how many."""
    return ", ".join(names) if len(names) <= 3 else f"{len(names)}, {names[0]} to {names[-1]}"
