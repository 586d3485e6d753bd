"""The leaderboard as one page that loads nothing from anywhere, and as Markdown.

Names, links and everything else of an entry are text of strangers: Jinja2 escapes all of it.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from smeoffline.bench.leaderboard.flags import NO_HEADROOM, NO_INFORMATION
from smeoffline.bench.leaderboard.lines import FILE, SELF_REPORTED, VERIFIED, read_lines
from smeoffline.bench.leaderboard.standings import BASELINE, Row, Standing, record, standings
from smeoffline.bench.report.numbers import Spread, count
from smeoffline.bench.report.ranking import RANKED_HEADROOM
from smeoffline.bench.report.tables import MISSING, escaped, interval, number, spread, table
from smeoffline.score.statistics import Estimate
from smeoffline.train.files import write_atomically

NAME = "leaderboard"
NOTES = {
    SELF_REPORTED: (
        "Actions were submitted and scored. Tasks and their optima are public, so a blend of a policy and the optimum "
        "cannot be excluded; flags catch clumsy ones."
    ),
    VERIFIED: (
        "The algorithm was trained here, in a process without network or files, on tasks drawn from a secret, and its "
        "actions were scored outside. That is isolation, not proof."
    ),
}
LEAD, WINS, FLAGGED = "public − held-out", "better than BC", "flagged"
USES = {NO_HEADROOM: "control: nothing left to learn", NO_INFORMATION: "control: no information", "informed": "shown"}
GLOSSARY = {
    "gap closed": (
        "The score's gain over perfect imitation as a share of the headroom: 0 is imitation, 1 the optimum. Ranked is "
        f"by its interquartile mean over all runs on datasets with a headroom of {RANKED_HEADROOM:g} or more; controls "
        "are left out. It cuts a quarter of the runs off at each end: an entry that fails on a few datasets keeps its "
        "rank, and its score, a plain mean, tells. Runs are resampled within each dataset for the 95% interval."
    ),
    "score, improvement": (
        "1 minus the mean absolute error of the action, at 10,000 states uniform in the cube; and the same over what "
        "the behavior in the data scores. Means over the ranked datasets."
    ),
    WINS: (
        "The probability that a run beats that of the entry BC, behavior cloning, on the same dataset and seed, with "
        "its 95% interval."
    ),
    "outside": "The score at states outside the training distribution: a diagnostic, not a ranking.",
    LEAD: (
        "How much more of the gap is closed on the public tasks than on the secret ones, with its 95% interval; "
        "what falls short of imitation counts as 0."
    ),
    FLAGGED: "The scores show what no honest entry should: see the reasons below the table.",
}


@dataclass(frozen=True)
class Column:
    """A column of the ranking: its key, heading, whether it holds numbers, and what it means."""

    key: str
    title: str
    numeric: bool
    help: str


COLUMNS = (
    Column("rank", "rank", True, "By gap closed; reference rows stand in their places."),
    Column("entry", "entry", False, "Name, link and authors."),
    Column("closed", "gap closed", True, "Interquartile mean; 0 is imitation, 1 the optimum."),
    Column("interval", "95% interval", True, "Of the gap closed."),
    Column("score", "score", True, "At uniform states; the optimum has 1."),
    Column("improvement", "improvement", True, "Over the behavior in the data."),
    Column("wins", WINS, True, "Probability of beating the entry BC, behavior cloning, on the same dataset and seed."),
    Column("outside", "outside", True, "Outside the training distribution: a diagnostic."),
    Column("lead", LEAD, True, "Gap closed on public tasks minus that on held-out ones."),
    Column("steps", "steps", True, "Gradient steps of each run."),
    Column("flags", "flags", False, "Whether the scores show what no honest entry should."),
)


@dataclass(frozen=True)
class Built:
    """What was written.

    Attributes:
        files: The page, then the Markdown.
        suite: The suite's name.
        standings: The ranking as JSON values.
    """

    files: tuple[Path, ...]
    suite: str
    standings: Sequence[Mapping[str, Any]]

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        return {"suite": self.suite, "standings": list(self.standings), "files": [str(path) for path in self.files]}


def build(results: str | Path, *, out: str | Path | None = None) -> Built:
    """Write `leaderboard.html` and `leaderboard.md` from results.

    The same results give the same bytes, with the same matplotlib.

    Args:
        results: The results file, or the folder that holds one.
        out: Where to write; None for beside the results.

    Raises:
        BenchmarkError: No results, a line that is none, or several suites.
        VersionError: Results of a newer version.
        OSError: The files can't be written.
    """
    source = Path(results) / FILE if Path(results).is_dir() else Path(results)
    lines = read_lines(source)
    found = standings(lines)
    suite = lines[0].submission.suite
    texts = {"html": html(suite, found), "md": markdown(suite, found)}
    folder = source.parent if out is None else Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    for ending, text in texts.items():
        write_atomically(folder / f"{NAME}.{ending}", text.encode())
    return Built(tuple(folder / f"{NAME}.{ending}" for ending in texts), suite, record(found))


def html(suite: str, found: Sequence[Standing]) -> str:
    """The page."""
    import jinja2

    from smeoffline.bench.leaderboard.drawings import drawings

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters.update(
        number=lambda value, digits=3, sign=False: number(value, digits, sign=sign),
        interval=_interval,
        spread=_spread,
        plain=lambda value: json.dumps(value, ensure_ascii=False),
    )
    script = _file("page.js")
    # The policy admits this one script by its hash: as it stands between the tags, line ends included.
    digest = hashlib.sha256(f"\n{script}\n".encode()).digest()
    return environment.from_string(_file("page.html.j2")).render(
        suite=suite,
        standings=found,
        figures={standing.tier: drawings(standing) for standing in found},
        notes=NOTES,
        uses=USES,
        glossary=glossary(found),
        not_ranked=not_ranked,
        columns=COLUMNS,
        count=count,
        css=_file("page.css"),
        script=script,
        script_hash=base64.b64encode(digest).decode(),
    )


def _file(name: str) -> str:
    return resources.files("smeoffline.bench.leaderboard").joinpath(name).read_text(encoding="utf-8").rstrip("\n")


def _interval(value: Estimate, digits: int = 3, sign: bool = True) -> str:
    """`+0.03 to +0.06`; a dash without one."""
    if value.low is None or value.high is None:
        return MISSING
    return f"{number(value.low, digits, sign=sign)} to {number(value.high, digits, sign=sign)}"


def _spread(value: Spread | None, sign: bool = False) -> str:
    """`+0.047 ± 0.003`; a dash for none."""
    if value is None:
        return MISSING
    return number(value.mean, 3, sign=sign) + (f" ± {number(value.spread, 3)}" if value.spread is not None else "")


def markdown(suite: str, found: Sequence[Standing]) -> str:
    """The same rankings as Markdown tables."""
    parts = [f"# Leaderboard: {safe(suite)}", "<!-- Generated by `sme-offline leaderboard build`. -->"]
    for standing in found:
        parts += [f"## {standing.tier.capitalize()}", NOTES[standing.tier]]
        if standing.rows:
            parts.append(f"{count(len(standing.datasets), 'dataset')}, {count(standing.seeds, 'seed')} each.")
            parts.append(_table(standing.rows, verified=standing.tier == VERIFIED))
        else:
            parts.append("No entry is ranked yet.")
        if standing.others:
            parts += [f"Not ranked: {not_ranked(standing)}", _others(standing.others)]
        told = [f"- {safe(row.name)}: {safe(f)}" for row in (*standing.rows, *standing.others) for f in _flags(row)]
        if told:
            parts += ["Why entries are flagged:", "\n".join(told)]
    parts.append("## How to read this")
    parts.append("\n".join(f"- {term}: {text}" for term, text in glossary(found).items()))
    return "\n\n".join(parts) + "\n"


def glossary(found: Sequence[Standing]) -> dict[str, str]:
    """What the terms on the page mean, without those that it has no use for."""
    told = dict(GLOSSARY)
    if not any(standing.tier == VERIFIED for standing in found):
        del told[LEAD]
    if not any(_flags(row) for standing in found for row in (*standing.rows, *standing.others)):
        del told[FLAGGED]
    without = [standing.tier for standing in found if standing.rows and not any(map(_is_baseline, standing.rows))]
    if without:
        told[WINS] += f" There is no {' or '.join(without)} entry named BC yet."
    return told


def not_ranked(standing: Standing) -> str:
    """Why a tier's other entries have no place among the ranked ones."""
    if standing.rows or all(row.line is not None and row.line.partial for row in standing.others):
        return "partial entries, on some of the datasets or seeds, and entries that answer other probes."
    return f"there is no dataset that rewards can teach on, with a headroom of {RANKED_HEADROOM:g} or more."


def _is_baseline(row: Row) -> bool:
    return row.line is not None and row.name == BASELINE


def safe(text: str) -> str:
    """A stranger's text as Markdown shows it: no markup, no entity."""
    return escaped(text).replace("&", "&amp;")


def _flags(row: Row) -> tuple[str, ...]:
    return row.line.flags if row.line is not None else ()


def _named(row: Row) -> str:
    """Its name, and the link under it; a reference in italics."""
    if row.line is None:
        return f"*{row.name}*"
    link = row.line.submission.link
    return safe(row.name) if link is None else f"[{safe(row.name)}](<{link}>)"


def _lead(row: Row) -> Estimate | None:
    """Its lead on the public tasks, if it was verified."""
    held = row.line.held_out if row.line is not None else None
    return None if held is None else held.lead


def _table(rows: Sequence[Row], *, verified: bool) -> str:
    cells = [
        (
            str(row.rank) if row.rank is not None else MISSING,
            _named(row),
            interval(row.closed, sign=True),
            number(row.score, 3),
            number(row.improvement, 3, sign=True),
            interval(row.wins, digits=2),
            number(row.outside, 3),
            *([interval(_lead(row), sign=True)] if verified else []),
            "flagged" if _flags(row) else MISSING,
        )
        for row in rows
    ]
    lead = [LEAD] if verified else []
    headers = ("rank", "entry", "gap closed (IQM)", "score", "improvement", WINS, "outside", *lead, "flags")
    return table(headers, cells, right=("rank", *headers[2:-1]))


def _others(rows: Sequence[Row]) -> str:
    """A line for each dataset of each entry that is not ranked."""
    cells = [(_named(row), safe(s.label), spread(s.score), spread(s.gap_closed)) for row in rows for s in row.datasets]
    headers = ("entry", "dataset", "score", "gap closed")
    return table(headers, cells, right=headers[2:])
