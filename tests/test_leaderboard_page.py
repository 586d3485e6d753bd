"""The leaderboard's page and its numbers: ranks, references, and text of strangers that stays text."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from boards import INFORMED, UNINFORMED, blend, submission, tiny
from command import ROOT, invoke, python

from smeoffline.bench.leaderboard.drawings import LONGEST, drawings, short_names
from smeoffline.bench.leaderboard.entry import Entry
from smeoffline.bench.leaderboard.lines import VERIFIED, HeldOut, Line, add_line, read_lines
from smeoffline.bench.leaderboard.page import build, markdown, safe
from smeoffline.bench.leaderboard.page import html as page_html
from smeoffline.bench.leaderboard.scoring import score_entry
from smeoffline.bench.leaderboard.standings import standings
from smeoffline.errors import BenchmarkError
from smeoffline.score.statistics import Estimate, interquartile_mean

EVIL = "<script>alert(1)</script>"
LINK = "https://example.org/a_(b)?c=1&d=%22*_#e"
COMMITTED = sorted(path.parent for path in (ROOT / "reports").glob("*/leaderboard.md"))


def line(name, algorithm, share, **changes):
    """A scored entry that closes a share of the gap, and gains nothing on the controls."""
    fields = {key: changes.pop(key) for key in list(changes) if key in {"authors", "link", "steps"}}
    actions = blend(share, control=-0.1, deep=0.0, seed=sum(map(ord, name)))
    made = score_entry(Entry(submission(name=name, algorithm=algorithm, **fields), actions, "0" * 64), tiny())
    return dataclasses.replace(made, **changes)


@pytest.fixture(scope="module")
def lines() -> list[Line]:
    """Five entries, of which one is flagged, one partial and one verified."""
    evil = line(
        f"{EVIL} [x](javascript:alert(2)) | a", "<b>", 0.3, authors=("<img src=x onerror=alert(3)>",), link=LINK
    )
    listed = [
        line("Middle", "iql", 0.3),
        line("BC", "bc", 0.0),
        line("Best", "td3plusbc", 0.6, steps=5000),
        line("Cheat", "cheat", 0.8, flags=("control: closes 0.80 of the gap",)),
        line("Part", "cql", 0.5, partial=True),
        evil,
    ]
    held = HeldOut("a" * 16, listed[2].scores, Estimate(0.0123, -0.01, 0.03, 2))
    verified = dataclasses.replace(listed[2], tier=VERIFIED, held_out=held, entry_sha256=None)
    return [*listed, verified]


@pytest.fixture(scope="module")
def page(lines) -> str:
    """The page of these entries."""
    return page_html("tiny", standings(lines))


def test_ranked_is_by_the_interquartile_mean_of_the_gap_closed(lines):
    """Order and value are those of scipy's trimmed mean over the runs on datasets that can teach."""
    self_reported, verified = standings(lines)
    entries = [row for row in self_reported.rows if row.rank is not None]
    assert entries[0].name == "Best"
    assert entries[-1].name == "BC"
    assert [row.rank for row in entries] == [1, 2, 3, 4]
    for row in entries:
        closed = [score.gap_closed for score in row.line.scores[INFORMED]]
        assert row.closed.value == pytest.approx(interquartile_mean(np.array(closed)), abs=1e-6)
        assert row.closed.low <= row.closed.value <= row.closed.high
    assert len(self_reported.datasets) == 1
    assert [(row.rank, row.name) for row in verified.rows if row.line] == [(1, "Best")]


def test_controls_do_not_count(lines):
    """Whatever an entry does on the controls, its rank and value stay."""
    changed = []
    for each in lines:
        worse = tuple(dataclasses.replace(s, gap_closed=-5.0, score_wd=0.0) for s in each.scores[UNINFORMED])
        changed.append(dataclasses.replace(each, scores={**each.scores, UNINFORMED: worse}))
    numbers = [
        [(row.rank, row.name, row.closed, row.score, row.wins) for row in standing.rows]
        for listed in (lines, changed)
        for standing in standings(listed)
    ]
    assert numbers[:2] == numbers[2:]


def test_flagged_and_partial_entries_have_no_rank(lines):
    """A flagged entry stands in its place without a number, a partial one apart."""
    standing = standings(lines)[0]
    rows = {row.name: row for row in standing.rows}
    assert rows["Cheat"].rank is None
    assert next(row.name for row in standing.rows if row.line) == "Cheat"
    assert [row.name for row in standing.others] == ["Part"]


def test_reference_rows_stand_in_their_places(lines):
    """Optimal has 1, imitation 0; what is above a reference closes more of the gap than it."""
    rows = standings(lines)[0].rows
    values = {row.name: row.closed.value for row in rows}
    assert values["optimal"] == 1
    assert values["imitation"] == 0
    assert values["random"] < values["behavior"] < 0
    assert [row.closed.value for row in rows] == sorted(values.values(), reverse=True)
    assert rows[0].name == "optimal"


def test_bc_is_what_others_are_compared_with(lines):
    """The probability of beating BC is 1 for who closes more on every run; it is the entry of that name."""
    rows = {row.name: row for row in standings(lines)[0].rows}
    assert rows["Best"].wins.value == 1
    assert rows["BC"].wins is None
    without = standings([each for each in lines if each.submission.name != "BC"])[0]
    assert all(row.wins is None for row in without.rows)


def test_verified_entries_are_compared_with_a_verified_bc(lines):
    """The algorithm of a verified entry is its function's name: what is called BC is the baseline of its tier."""
    best = lines[-1]
    cloning = dataclasses.replace(
        lines[1],
        tier=VERIFIED,
        submission=dataclasses.replace(lines[1].submission, algorithm="mine:train"),
        held_out=best.held_out,
        entry_sha256=None,
    )
    assert {row.name: row.wins and row.wins.value for row in standings([best, cloning])[0].rows if row.line} == {
        "Best": 1,
        "BC": None,
    }


def test_figures_and_pages_tell_what_is_not_ranked_by(lines):
    """In the figure a control stands below the ranked datasets and is called one; without any, the page says why."""
    standing = standings(lines)[0]
    (figure,) = [each.svg for each in drawings(standing) if each.title == "Dataset by dataset"]
    labels = [text for text in re.findall(r">([^<>\n]+)</text>", figure) if "C = " in text]
    assert [label.startswith("control: ") for label in labels] == [False, True]
    whole = dataclasses.replace(lines[0], kinds=dict.fromkeys(lines[0].kinds, "no headroom"))
    for text in (markdown("tiny", standings([whole])), page_html("tiny", standings([whole]))):
        assert "here is no dataset that rewards can teach on, with a headroom of 0.05 or more." in text
        assert "artial entries, on some" not in text


def test_one_entry_is_a_ranking_too(lines):
    """With a single entry there is a table and no figure; with partial ones alone there is no ranking."""
    alone = standings(lines[:1])
    assert [row.rank for row in alone[0].rows if row.line] == [1]
    assert "<svg" not in page_html("tiny", alone)
    part = standings([each for each in lines if each.partial])
    assert part[0].rows == ()
    assert "No entry is ranked yet" in page_html("tiny", part)
    assert "No entry is ranked yet" in markdown("tiny", part)


def test_entries_of_two_suites_are_not_ranked_together(lines):
    """Results of two suites, or none at all, are refused."""
    other = dataclasses.replace(lines[0], submission=dataclasses.replace(lines[0].submission, suite="other"))
    with pytest.raises(BenchmarkError, match="'other' and 'tiny'"):
        standings([*lines, other])
    with pytest.raises(BenchmarkError, match="got none"):
        standings([])


def test_entries_that_answer_other_probes_are_not_ranked(lines):
    """After a suite has changed, older entries are listed apart."""
    old = dataclasses.replace(lines[0].submission, probes_sha256="0" * 64)
    found = standings([dataclasses.replace(lines[0], submission=old), *lines[1:3]])
    assert [row.name for row in found[0].others] == ["Middle"]


def test_the_newest_probes_are_those_of_the_newest_line(lines, tmp_path):
    """An entry that is scored again answers the newest probes, wherever it first stood."""
    path = tmp_path / "results.jsonl"
    for each in lines[:2]:
        old = dataclasses.replace(each.submission, probes_sha256="0" * 64)
        add_line(path, dataclasses.replace(each, submission=old))
    add_line(path, lines[0])
    found = standings(read_lines(path))
    assert [row.name for row in found[0].rows if row.line] == ["Middle"]
    assert [row.name for row in found[0].others] == ["BC"]


def test_a_dataset_that_an_entry_lacks_is_not_ranked_by(lines):
    """Whatever a results file says, a dataset is ranked by only where every entry has it."""
    scores = {name: seeds for name, seeds in lines[0].scores.items() if name != INFORMED}
    (found,) = standings([dataclasses.replace(lines[0], scores=scores), lines[1]])
    assert found.datasets == ()


# The page


def test_only_terms_that_the_page_has_are_explained(lines):
    """The held-out gap is explained where there are verified entries, flags where there are any; no BC is told."""
    middle, bc, best, *_, verified = lines
    lead, flagged, missing = "- public − held-out: ", "- flagged: ", "There is no self-reported entry named BC yet."
    plain = markdown("tiny", standings([middle, bc]))
    assert [text in plain for text in (lead, flagged, missing)] == [False, False, False]
    assert missing in markdown("tiny", standings([middle, best]))
    assert flagged in markdown("tiny", standings([bc, lines[3]]))
    both = markdown("tiny", standings([bc, verified]))
    assert lead in both
    assert "There is no verified entry named BC yet." in both
    shown = page_html("tiny", standings([middle, best]))
    assert missing in shown
    assert "<dt>flagged</dt>" not in shown
    assert "<dt>public" not in shown


class Reader(html.parser.HTMLParser):
    """Collects elements with their attributes, and the text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep it."""
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        """Keep it."""
        self.text.append(data)


def parsed(text):
    """The page as a browser's parser sees it."""
    reader = Reader()
    reader.feed(text)
    return reader


def test_text_of_a_stranger_is_text_in_the_page(page):
    """Script tags and images in names, authors and algorithms are shown, and are no elements."""
    reader = parsed(page)
    assert [tag for tag, _ in reader.elements].count("script") == 1
    assert not [tag for tag, _ in reader.elements if tag in ("img", "b", "iframe", "object", "embed", "link", "base")]
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    assert "<img src=x onerror=alert(3)>" in "".join(reader.text)


def test_every_link_is_of_the_page_or_to_the_web(page):
    """No javascript: and no data: link; an entry's own is followed without telling where from."""
    links = [attributes for tag, attributes in parsed(page).elements if tag == "a"]
    outside = [link for link in links if not str(link["href"]).startswith("#")]
    assert {link["href"] for link in outside} == {LINK}
    assert all("noopener" in str(link["rel"]) and "noreferrer" in str(link["rel"]) for link in outside)


def test_the_page_loads_nothing(page):
    """No element or style fetches anything, and the policy in the page forbids what might."""
    for tag, attributes in parsed(page).elements:
        for name in ("src", "srcset", "data", "action", "poster", "background"):
            assert name not in attributes, (tag, name)
        if tag not in ("a",) and "href" in attributes:
            assert str(attributes["href"]).startswith("#")
        if "xlink:href" in attributes:
            assert str(attributes["xlink:href"]).startswith("#")
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)
    assert "default-src &#39;none&#39;" in page or "default-src 'none'" in page


def test_ids_are_unique_and_references_lead_somewhere(page):
    """Figures share a page: no id twice, and every reference to one is answered."""
    reader = parsed(page)
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    wanted = set(re.findall(r"url\(#([^)]+)\)", page))
    for _, attributes in reader.elements:
        for name in ("href", "xlink:href"):
            if str(attributes.get(name, "")).startswith("#"):
                wanted.add(str(attributes[name])[1:])
        wanted |= set(str(attributes.get("aria-labelledby", "")).split())
    assert wanted - {""} <= set(ids)


def test_tables_are_made_for_screen_readers(page):
    """Every heading cell has a scope, every sortable one a button, and one column tells that it is sorted."""
    reader = parsed(page)
    headings = [attributes for tag, attributes in reader.elements if tag == "th"]
    assert headings
    assert all(attributes.get("scope") in ("col", "row") for attributes in headings)
    assert [attributes.get("aria-sort") for attributes in headings].count("ascending") == 2  # one for each tier
    assert ("html", {"lang": "en"}) in reader.elements
    figures = [attributes for tag, attributes in reader.elements if tag == "svg"]
    assert len(figures) == 2
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in figures)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ElementTree.fromstring(svg)  # noqa: S314 - it is our own


def test_markdown_keeps_text_of_strangers_as_text(lines):
    """No name makes a link, a tag, a cell or an entity; an entry's link is in angle brackets."""
    text = markdown("tiny", standings(lines))
    assert EVIL not in text
    assert "[x](javascript" not in text
    assert f"](<{LINK}>)" in text
    rows = [row for row in text.splitlines() if row.startswith("|")]
    bars = {len(re.findall(r"(?<!\\)\|", row)) for row in rows}
    assert bars == {9, 10, 5}  # columns of the rankings, and of what is not ranked
    assert safe("a & <b> [c](d) `e` | f\ng") == r"a &amp; \<b\> \[c\](d) \`e\` \| f g"


@pytest.mark.parametrize(
    "names",
    [["a" * 40, "a" * 41, "a" * 60], ["x"], ["n…", "n…" + "y" * 30], ["a" * 14 + "… 3", *("a" * n for n in (40, 41))]],
)
def test_names_in_figures_are_short_and_different(names):
    """However long names are, those in a figure fit and can be told apart."""
    short = short_names(names)
    assert len(set(short.values())) == len(names)
    assert all(len(name) <= LONGEST + 3 for name in short.values())


def test_the_same_results_give_the_same_bytes(lines, tmp_path):
    """The page and the Markdown depend on the results alone, wherever and whenever they are built."""
    path = tmp_path / "results.jsonl"
    for each in lines:
        add_line(path, each)
    one, other = build(path, out=tmp_path / "a"), build(tmp_path, out=tmp_path / "b")
    assert [file.name for file in one.files] == ["leaderboard.html", "leaderboard.md"]
    for first, second in zip(one.files, other.files, strict=True):
        assert first.read_bytes() == second.read_bytes()
    json.dumps(one.to_dict(), allow_nan=False)


def test_build_needs_no_torch(lines, tmp_path):
    """A page is made where nothing is trained or scored, by the command alone."""
    add_line(tmp_path / "results.jsonl", lines[0])
    code = (
        "import sys\nfrom smeoffline_cli import main\n"
        f"main.program.main(['leaderboard', 'build', {str(tmp_path)!r}], standalone_mode=False)"
    )
    shown = python(
        f"import atexit, sys\natexit.register(lambda: print('torch' in sys.modules, 'minari' in sys.modules))\n{code}"
    )
    assert shown.splitlines()[-1] == "False False"
    assert (tmp_path / "leaderboard.html").exists()


def test_build_tells_what_is_wrong_with_results(lines, tmp_path, monkeypatch):
    """No file, an empty one, another one and a damaged line are each one line of error, and no page is written."""
    monkeypatch.chdir(tmp_path)
    gone = invoke("leaderboard", "build")
    assert (gone.exit_code, len(gone.stderr.splitlines())) == (2, 1)
    assert "leaderboard score" in gone.stderr
    (tmp_path / "results.jsonl").write_text("")
    assert "expected results with an entry, got none" in invoke("leaderboard", "build").stderr
    (tmp_path / "results.jsonl").write_text('{"schema": 1}\n')
    other = invoke("leaderboard", "build")
    assert (other.exit_code, len(other.stderr.splitlines())) == (1, 1)
    assert "expected results of the leaderboard, got something else" in other.stderr
    (tmp_path / "results.jsonl").unlink()
    add_line(tmp_path / "results.jsonl", lines[0])
    with (tmp_path / "results.jsonl").open("a") as file:
        file.write('{"schema": 1}\n')
    damaged = invoke("leaderboard", "build")
    assert (damaged.exit_code, len(damaged.stderr.splitlines())) == (1, 1)
    assert "line 2: " in damaged.stderr
    assert "remove that line" in damaged.stderr
    assert not (tmp_path / "leaderboard.html").exists()


def test_build_prints_the_ranking(lines, tmp_path):
    """The command prints the table as text, or one JSON object."""
    for each in lines:
        add_line(tmp_path / "results.jsonl", each)
    shown = invoke("leaderboard", "build", tmp_path)
    assert shown.exit_code == 0
    assert re.search(r"^1 +Best ", shown.stdout, re.MULTILINE)
    told = json.loads(invoke("leaderboard", "build", tmp_path, "--json").stdout)
    assert told["standings"][0]["entries"][0]["name"] == "optimal"
    assert told["standings"][1]["tier"] == "verified"


@pytest.mark.parametrize("folder", COMMITTED, ids=lambda path: path.name)
def test_a_committed_leaderboard_is_what_its_results_give(folder, tmp_path):
    """The pages under `reports/` are what `leaderboard build` makes of the results beside them, byte for byte."""
    made = build(folder, out=tmp_path / "made")
    assert made.files
    for path in made.files:
        assert (folder / path.name).read_bytes() == path.read_bytes(), path.name
