"""The end of a report: what failed, where the numbers come from, and how to get them again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from smeoffline.bench.report.labels import plain, spell
from smeoffline.bench.report.numbers import count
from smeoffline.bench.report.study import Study
from smeoffline.bench.report.tables import escaped, table
from smeoffline.data.shipped import shipped_folder, shipped_names


def failures(study: Study) -> Iterator[str]:
    """Failed cells with their reasons."""
    if not study.failures:
        return
    yield "## Failed cells"
    rows = [(f.dataset.label, f.algorithm, str(f.seed), f.reason) for f in study.failures]
    escaped_rows = [tuple(map(escaped, row)) for row in rows]
    yield table(("dataset", "algorithm", "seed", "reason"), escaped_rows, right=("seed",))
    yield "Calling `sme-offline benchmark` again retries them."


def origin(study: Study) -> Iterator[str]:
    """Seeds, settings, versions, platforms and commands."""
    yield "## How it was run"
    facts = list(_facts(study))
    if facts:
        yield "\n".join(f"- {fact}" for fact in facts)
    for title, counts in (("package", study.versions), ("platform", study.platforms)):
        if counts:
            rows = [(escaped(key), _values(values, len(study.runs))) for key, values in counts.items()]
            yield table((title, "value"), rows)
    yield "To run it again, and to make this page again:"
    yield "\n".join(["```sh", *_commands(study), "```"])


def _facts(study: Study) -> Iterator[str]:
    if study.runs:
        yield f"Seeds: {_range(study.seeds)}. Suite seed i draws dataset i and trains run i."
    for label, variant in study.algorithms.items():
        if variant.settings:
            settings = ", ".join(f"{name} = {plain(value)}" for name, value in sorted(variant.settings.items()))
            yield f"{escaped(label)}: {escaped(settings)}; all else by default."
    seconds = sum(sorted(run.seconds for run in study.runs))
    if seconds:
        yield f"Time of all finished runs added up: {_duration(seconds)}."


def _commands(study: Study) -> Iterator[str]:
    """The commands that gave the results; DIR is any folder. Of a suite they know the name, not where its file lies."""
    counted = study.seeds and study.seeds == tuple(range(len(study.seeds)))
    seeds = f" --seeds {len(study.seeds)}" if counted else ""
    steps = f" --steps {study.steps[0]}" if len(study.steps) == 1 else ""
    shipped = shipped_names(shipped_folder() / "suites")
    for name in study.suites:
        own = name not in shipped
        file = shlex.quote(" ".join(name.split()) + (".toml" if own else ""))
        remark = "  # the suite's own file" if own else ""
        yield f"sme-offline benchmark {file} --out DIR{seeds}{steps}{remark}"
    yield "sme-offline report DIR"


def _range(numbers: Sequence[int]) -> str:
    """`0 to 9`, or `0, 2 and 5`."""
    whole = list(range(numbers[0], numbers[-1] + 1)) == list(numbers)
    return f"{numbers[0]} to {numbers[-1]}" if whole and len(numbers) > 2 else spell(map(str, numbers))


def _values(values: Mapping[str, int], total: int) -> str:
    """The value, or each with its number of runs where they differ or not all runs tell."""
    if len(values) == 1 and sum(values.values()) == total:
        return escaped(next(iter(values)))
    return "; ".join(f"{escaped(value)} ({count(n, 'run')})" for value, n in values.items())


def _duration(seconds: float) -> str:
    """`1.5 h`, `12 min`, `40 s`."""
    if seconds >= 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
