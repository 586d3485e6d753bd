"""An audit as one page that stands alone: no script, nothing loaded, readable on a phone, light or dark."""

from __future__ import annotations

import html
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from smeoffline.bench.audit.figures import Plate, plates
from smeoffline.data.audit.inspection import Inspection
from smeoffline.data.reference import ROWS

LISTED = 200  # findings on the page
LONGEST = 200  # characters of a text from a dataset
LARGEST = sys.float_info.max  # whole numbers may be beyond it
MEASURES = {
    "trajectory_quality": "trajectory quality: 0 is the return of random actions, 1 the optimum's",
    "headroom": "headroom: what the best imitation leaves to learn",
    "mean_score": "mean score of the data's actions",
    "state_action": "state-action coverage: cells visited, over those of as many uniform pairs",
    "zero_reward_share": "share of rewards that are 0",
    "duplicates": "episodes equal to an earlier one",
    "rolled_out_again": "episodes rolled out again and compared byte for byte",
}
CSS = """
:root { color-scheme: light dark; --ink: #222222; --gray: #767676; --pale: #dddddd; --page: #ffffff;
  --good: #00664b; --bad: #a33c00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --gray: #a0a0a0; --pale: #444444; --page: #171717;
  --good: #3fc79f; --bad: #ff9c5a; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1rem; max-width: 64rem; background: var(--page); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } td, th { padding: .25rem .6rem .25rem 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--pale); font-weight: normal; }
td + td, li { overflow-wrap: anywhere; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.plates { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1.5rem; }
figure { margin: 0; } figcaption { font-size: .875rem; } figure h3 { font-size: 1rem; margin: 0; }
svg { width: 100%; height: auto; display: block; }
.good { color: var(--good); } .bad { color: var(--bad); }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(found: Inspection) -> str:
    """The page of an audit, the same for the same audit. All text from the dataset is escaped."""
    told = found.description
    scores = told.get("scores")
    known = _numbers(scores) if isinstance(scores, Mapping) else {}
    title = html.escape(_short(found.dataset_id))
    parts = [
        f"<h1>{title}</h1>",
        _verdict(found),
        _section("Measures", _table(_measures(told))),
        _section("Reference rows", _table([(*ROWS[key], known[key]) for key in ROWS if key in known])),
        _figures(plates(found.portrait, known)),
        _section("The dataset", _table(_fields(told))),
    ]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Audit of {title}</title>\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{CSS}</style>\n</head>\n'
        f"<body>\n{chr(10).join(part for part in parts if part)}\n</body>\n</html>\n"
    )


def _verdict(found: Inspection) -> str:
    """What is wrong, and what could not be checked."""
    lines = []
    if found.ok:
        lines.append('<p class="good">No fault was found in what could be checked.</p>')
    else:
        count = len(found.findings)
        listed = _list(str(finding) for finding in found.findings[:LISTED])
        more = f"<p>And {count - LISTED} more.</p>" if count > LISTED else ""
        lines.append(f'<p class="bad">{count} fault{"s" if count != 1 else ""} found:</p>{listed}{more}')
    if found.unchecked:
        lines.append(f"<p>Not checked:</p>{_list(found.unchecked)}")
    return "\n".join(lines)


def _measures(told: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """The numbers of an audit, with what they mean."""
    all_of_them: dict[str, Any] = dict(told)
    for key in ("quality", "coverage"):
        part = told.get(key)
        all_of_them.update(part if isinstance(part, Mapping) else {})
    numbers = _numbers(all_of_them)
    return [(text, numbers[key]) for key, text in MEASURES.items() if key in numbers]


def _fields(told: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """What the metadata and the data say of themselves."""
    taken = {"smeoffline", "schema", "path", *MEASURES}  # a page may be passed on: no folders of this machine
    return [
        (key.replace("_", " "), value)
        for key, value in told.items()
        if key not in taken and not isinstance(value, (Mapping, list))
    ]


def _figures(made: Iterable[Plate]) -> str:
    """All figures in as many columns as there is room for."""
    shown = [
        f"<figure><h3>{html.escape(plate.title)}</h3>\n{plate.svg}<figcaption>{html.escape(plate.words)}"
        "</figcaption></figure>"
        for plate in made
    ]
    return _section("Figures", f'<div class="plates">\n{chr(10).join(shown)}\n</div>' if shown else "")


def _section(title: str, content: str) -> str:
    """A heading and what is below it; nothing where that is nothing."""
    return f"<h2>{title}</h2>\n{content}" if content else ""


def _table(rows: Iterable[tuple[Any, ...]]) -> str:
    """Rows of texts and numbers; numbers to the right."""
    lines = []
    for row in rows:
        cells = [
            f'<td class="number">{_number(cell)}</td>'
            if isinstance(cell, (int, float)) and not isinstance(cell, bool)
            else f"<td>{html.escape(_short(str(cell)))}</td>"
            for cell in row
        ]
        lines.append(f"<tr>{''.join(cells)}</tr>")
    return f"<table>\n{chr(10).join(lines)}\n</table>" if lines else ""


def _list(texts: Iterable[str]) -> str:
    """A list of texts."""
    return f"<ul>{''.join(f'<li>{html.escape(_short(text))}</li>' for text in texts)}</ul>"


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    """Those that are finite numbers, by their keys."""
    return {
        key: value
        for key, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST
    }


def _number(value: float) -> str:
    """`1,000`, `0.9375`."""
    return f"{value:,}"[:LONGEST] if isinstance(value, int) else f"{value:,.4f}"


def _short(text: str) -> str:
    """A text from a dataset, of a length that leaves the page readable."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
