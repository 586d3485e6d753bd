"""Entries of the leaderboard: what is accepted comes back as it was, and every fault is named."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import zipfile

import numpy as np
import pytest
from boards import EXPLORED, INFORMED, SUITE, blend, submission, tiny
from command import invoke
from hypothesis import example, given, settings
from hypothesis import strategies as st

from smeoffline.bench.leaderboard import archive
from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.entry import (
    EntryError,
    Submission,
    parse,
    read_entry,
    schema,
    schema_faults,
    write_entry,
)
from smeoffline.bench.leaderboard.lines import add_line, parse_line, read_lines
from smeoffline.bench.leaderboard.scoring import score_actions, score_entry
from smeoffline.bench.suite import Suite
from smeoffline.errors import BenchmarkError, VersionError
from smeoffline.score.evaluate import evaluate_policy

KEY = f"{INFORMED}--s0"
lines = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs"]), min_size=1, max_size=60
)


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """The file of an entry without a fault."""
    path = tmp_path_factory.mktemp("entries") / "good.npz"
    write_entry(path, submission(), blend(0.5), tiny())
    return path


def members(path):
    """The arrays of a file, as anyone reads them."""
    with np.load(path, allow_pickle=False) as found:
        return dict(found)


def faults_of(path):
    """What is found wrong with a file."""
    with pytest.raises(EntryError) as caught:
        read_entry(path, tiny())
    assert "\n" not in str(caught.value)
    return caught.value.faults


def test_an_entry_comes_back_as_it_was_written(good):
    """What is read is what was written: fields and actions."""
    entry = read_entry(good, tiny())
    assert entry.submission == submission()
    assert entry.actions.keys() == blend(0.5).keys()
    for key, actions in blend(0.5).items():
        np.testing.assert_array_equal(entry.actions[key], actions)


def test_the_same_entry_gives_the_same_bytes(good, tmp_path):
    """No time and nothing else of the moment is in the file."""
    write_entry(tmp_path / "again.npz", submission(), blend(0.5), tiny())
    assert (tmp_path / "again.npz").read_bytes() == good.read_bytes()


def test_numpy_alone_writes_an_entry(tmp_path):
    """A file that `np.savez` makes is accepted, compressed or not: nobody needs this package to submit."""
    text = json.dumps(submission().to_dict())
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "theirs.npz", entry=text, **blend(0.5))
        assert read_entry(tmp_path / "theirs.npz", tiny()).submission == submission()


def test_scores_are_those_of_evaluate():
    """A policy has the same scores on the leaderboard as in `evaluate`: they share probes and references."""
    board = tiny()
    place = board.places[0]
    actions = {p.key: np.full_like(a, 0.25) for p, a in zip(board.places, blend().values(), strict=True)}
    found = evaluate_policy(lambda rows: np.full((len(rows), 2), 0.25, np.float32), place.recipe)
    score = score_actions(board, actions)[place.dataset][0]
    for name in (
        "score_wd",
        "behavior_score",
        "imitation_score",
        "headroom",
        "random_score",
        "improvement",
        "gap_closed",
    ):
        assert getattr(score, name) == pytest.approx(getattr(found, name), abs=1e-12), name
    assert score.score_ood == pytest.approx(found.score_ood, abs=0.02)  # 2,000 of the 10,000 probes there


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_a_blend_with_the_optimum_closes_its_share_of_the_gap(share, tmp_path):
    """The score is taken from the actions: share x of the optimum closes x of the gap."""
    write_entry(tmp_path / "e.npz", submission(), blend(share, noise=0), tiny())
    line = score_entry(read_entry(tmp_path / "e.npz", tiny()), tiny())
    assert [s.gap_closed for s in line.scores[INFORMED]] == pytest.approx([share, share], abs=0.04)


def change(name, value):
    """An entry whose array or text is another one."""

    def edit(arrays):
        arrays[name] = value(arrays) if callable(value) else value

    return edit


def text(**fields):
    """An entry whose JSON has other fields; those that are None are left out."""

    def edit(arrays):
        told = {**submission().to_dict(), **fields}
        arrays["entry"] = np.array(json.dumps({k: v for k, v in told.items() if v is not None or k == "link"}))

    return edit


def with_value(value):
    """Actions with one other value."""

    def edit(arrays):
        arrays[KEY] = arrays[KEY].copy()
        arrays[KEY][7, 1] = value

    return edit


FAULTS = {
    "a NaN": (with_value(np.nan), "expected finite actions, got nan at probe 7, channel 1"),
    "an infinity": (with_value(-np.inf), "expected finite actions, got -inf at probe 7, channel 1"),
    "above the range": (with_value(1.5), "expected actions in [0, 1]"),
    "below the range": (with_value(-0.5), "expected actions in [0, 1]"),
    "fewer rows": (change(KEY, lambda a: a[KEY][:-1]), "expected shape (12000, 2), got (11999, 2)"),
    "another width": (change(KEY, lambda a: a[KEY][:, :1]), "expected shape (12000, 2), got (12000, 1)"),
    "flat": (change(KEY, lambda a: a[KEY].ravel()), "expected shape (12000, 2), got (24000,)"),
    "transposed": (change(KEY, lambda a: a[KEY].T), "expected shape (12000, 2), got (2, 12000)"),
    "doubles": (
        change(KEY, lambda a: a[KEY].astype(float)),
        f"{KEY!r}: expected float32, got float64; use .astype(numpy.float32)",
    ),
    "halves": (change(KEY, lambda a: a[KEY].astype(np.float16)), "expected float32, got float16"),
    "integers": (change(KEY, lambda a: a[KEY].astype(np.int32)), "expected float32, got int32"),
    "missing": (lambda a: a.pop(KEY), f"{KEY!r}: is missing"),
    "unknown": (change("../../etc/passwd", np.zeros(1)), "expected arrays of known names, got '../../etc/passwd'"),
    "no text": (lambda a: a.pop("entry"), "expected an array 'entry' that holds text, got none"),
    "text of numbers": (change("entry", np.zeros(3)), "expected shape ()"),
    "a number for text": (change("entry", np.array(3.0)), "expected text, got float64"),
    "no JSON": (change("entry", np.array("{")), "expected JSON with finite numbers"),
    "JSON with NaN": (change("entry", np.array('{"steps": NaN}')), "expected JSON with finite numbers"),
    "JSON too deep": (change("entry", np.array("[" * 60_000)), "expected JSON with finite numbers"),
    "a list": (change("entry", np.array("[]")), "is not of type 'object'"),
    "too long": (change("entry", np.array("x" * 70_000)), "expected a text of at most 65,536 characters"),
    "another hash": (text(probes_sha256="0" * 64), "it answers other probes"),
    "another suite": (text(suite="table1"), "expected suite 'tiny', got 'table1'"),
    "its own score": (text(score=0.99), "'score' was unexpected"),
    "no name": (text(name=None), "'name' is a required property"),
    "an empty name": (text(name=""), "name"),
    "a name of two lines": (text(name="a\nb"), "name"),
    "a name backwards": (text(name="a\u202eb"), "name"),
    "a name too long": (text(name="x" * 61), "is too long"),
    "half a character": (text(name="\ud800"), "name"),
    "a script for a link": (text(link="javascript:alert(1)"), "link"),
    "a link with a script": (text(link='https://x.org/"><script>'), "link"),
    "a link and a line": (text(link="https://x.org\n"), "link"),
    "nested settings": (text(hyperparameters={"a": {"b": 1}}), "hyperparameters.a"),
    "negative steps": (text(steps=-1), "steps"),
    "steps that are true": (text(steps=True), "steps"),
    "another version": (text(schema=2), "schema"),
    "other seeds": (text(seeds=[0, 1, 2]), "expected seeds [0, 1], those of the arrays, got [0, 1, 2]"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_each_fault_is_named(name, good, tmp_path):
    """An entry with one fault is refused, and the fault is told."""
    edit, told = FAULTS[name]
    arrays = members(good)
    edit(arrays)
    np.savez(tmp_path / "bad.npz", **arrays)
    assert any(told in fault for fault in faults_of(tmp_path / "bad.npz"))


def test_all_faults_are_told_at_once(good, tmp_path):
    """Who repairs an entry sees every fault of it, not the first alone."""
    arrays = members(good)
    for name in ("a NaN", "unknown", "another hash"):
        FAULTS[name][0](arrays)
    arrays.pop(f"{EXPLORED}--s1")
    np.savez(tmp_path / "bad.npz", **arrays)
    told = " ".join(faults_of(tmp_path / "bad.npz"))
    assert all(FAULTS[name][1] in told for name in ("a NaN", "unknown", "another hash"))
    assert f"'{EXPLORED}--s1': is missing" in told


def test_an_array_with_a_fault_is_not_missing(good, tmp_path):
    """An entry in float64 gets one fault an array, its type; what is not in the file, and that alone, is missing."""
    arrays = {name: a if name == "entry" else a.astype(float) for name, a in members(good).items()}
    del arrays[f"{EXPLORED}--s1"]
    np.savez(tmp_path / "bad.npz", **arrays)
    told = faults_of(tmp_path / "bad.npz")
    assert sum("expected float32, got float64" in fault for fault in told) == 5
    assert [fault for fault in told if "is missing" in fault] == [f"'{EXPLORED}--s1': is missing"]


def test_a_hash_in_a_fault_is_told_by_its_beginning(good, tmp_path):
    """Two hashes of 64 digits would fill the screen: twelve of each tell them apart."""
    arrays = members(good)
    FAULTS["another hash"][0](arrays)
    np.savez(tmp_path / "bad.npz", **arrays)
    (told,) = faults_of(tmp_path / "bad.npz")
    assert f"expected probes_sha256 {tiny().probes_sha256[:12]}..., got 000000000000...;" in told
    assert tiny().probes_sha256 not in told


def forge(path, name, header, data):
    """A member with a header of our own, in a file of otherwise sound members."""
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file, file.open(f"{name}.npy", "w") as member:
        member.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data)


@pytest.mark.parametrize(
    ("header", "data", "told"),
    [
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 2)}", b"", "expected shape"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (12000, 2)}", b"1234", "got fewer"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (12000, 2)}", bytes(96_004), "got more"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (12000, 2)}", bytes(10**7), "got more"),
        (b"{'descr': '|O', 'fortran_order': False, 'shape': (12000, 2)}", b"", "expected float32, got object"),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 2)}", b"", "expected shape"),
        (b"__import__('os').system('true')", b"", "is damaged"),
        (b"{" * 5000, b"", "is damaged"),
        (b"-" * 9000 + b"1", b"", "is damaged"),
        (b"{'descr': '\\q', 'fortran_order': False, 'shape': (12000, 2)}", b"", "expected float32, got "),
        (b"{'descr': '<f4', 'fortran_order': False, 'shape': (12000L, 2)}", bytes(96_000), "is damaged"),
        (b"{'descr': 'm8[D/0]', 'fortran_order': False, 'shape': (12000, 2)}", b"", "expected float32, got 'm8[D/0]'"),
        (b"{'descr': (), 'fortran_order': False, 'shape': (12000, 2)}", b"", "expected float32, got '()'"),
        (b"['descr', 'fortran_order', 'shape']", b"", "is damaged"),
    ],
    ids=[
        "a huge shape",
        "too few bytes",
        "a few too many",
        "a bomb",
        "a pickle",
        "negative",
        "code",
        "nonsense",
        "deep",
        "an escape",
        "Python 2",
        "a type that ends the process",
        "a type of nothing",
        "no table",
    ],
)
def test_a_forged_header_is_refused_before_memory_is_taken(header, data, told, good, tmp_path):
    """Shape and type are compared before anything is read of the array, and no more is read than is expected."""
    arrays = members(good)
    arrays.pop(KEY)
    np.savez(tmp_path / "bad.npz", **arrays)
    forge(tmp_path / "bad.npz", KEY, header, data)
    assert any(told in fault for fault in faults_of(tmp_path / "bad.npz"))


def test_a_pickle_is_never_loaded(tmp_path):
    """An array of objects is refused by its type; what it would run does not run."""
    page = io.BytesIO()
    np.lib.format.write_array(page, np.array([print], object), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "bad.npz", "w") as file:
        file.writestr("entry.npy", page.getvalue())
    assert any("expected shape ()" in fault or "expected text" in fault for fault in faults_of(tmp_path / "bad.npz"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_compression_that_is_not_numpys_is_refused(method, good, tmp_path):
    """Damage within others raises errors of their own, so they are not tried."""
    arrays = members(good)
    arrays.pop(KEY)
    np.savez(tmp_path / "bad.npz", **arrays)
    with zipfile.ZipFile(tmp_path / "bad.npz", "a", method) as file:
        file.writestr(f"{KEY}.npy", bytes(100))
    assert any("got another compression" in fault for fault in faults_of(tmp_path / "bad.npz"))


def test_an_array_that_is_there_twice_is_refused(good, tmp_path):
    """Which of two arrays of one name counts is not for the file to say."""
    path = tmp_path / "bad.npz"
    path.write_bytes(good.read_bytes())
    with zipfile.ZipFile(path, "a") as file, pytest.warns(UserWarning, match="Duplicate"):
        file.writestr(f"{KEY}.npy", b"")
    assert any("once" in fault for fault in faults_of(path))


def test_a_file_that_is_too_large_is_not_opened(good, tmp_path):
    """Its size is compared before its content is looked at."""
    path = tmp_path / "big.npz"
    path.write_bytes(good.read_bytes() + bytes(3_000_000))
    assert "expected a file of at most" in faults_of(path)[0]
    assert "see --suite" in faults_of(path)[0]  # an entry of a larger suite ends here


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x80\x04K\x01.", b"{}" * 1000])
def test_what_is_no_archive_is_told(content, tmp_path):
    """An empty file, a cut one, a pickle and JSON are no entries."""
    (tmp_path / "bad.npz").write_bytes(content)
    assert faults_of(tmp_path / "bad.npz") == ("expected an .npz file as numpy.savez writes it, got something else",)


@settings(max_examples=int(os.environ.get("SMEOFFLINE_FUZZ", "50")))
@given(data=st.data())
def test_a_damaged_entry_never_ends_in_a_traceback(good, data):
    """Any bytes changed, cut off or repeated: it is read as an entry, or refused as one."""
    content = bytearray(good.read_bytes())
    # the directory at the end and the headers are where a file can lie about itself
    tail = len(content) - 1
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.one_of(st.integers(0, 400), st.integers(tail - 900, tail), st.integers(0, tail)))
        content[at] = data.draw(st.integers(0, 255))
    cut = data.draw(st.one_of(st.just(len(content)), st.integers(0, len(content))))
    path = good.with_name("damaged.npz")
    path.write_bytes(bytes(content[:cut]))
    with contextlib.suppress(EntryError):
        found = read_entry(path, tiny())
        assert all(np.isfinite(actions).all() for actions in found.actions.values())


@given(
    name=lines,
    authors=st.lists(lines, max_size=3),
    settings=st.dictionaries(
        lines, st.none() | st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | lines
    ),
    steps=st.integers(0, 10**9),
)
@example(name="<script>", authors=["&amp;"], settings={"λ": 1e-300}, steps=0)
def test_what_the_schema_admits_survives_json(name, authors, settings, steps):
    """Fields without a fault are the same after being written as JSON and read."""
    told = submission(name=name, authors=tuple(authors), hyperparameters=settings, steps=steps)
    assert schema_faults(told.to_dict()) == []
    fields, faults = parse(json.dumps(told.to_dict()))
    assert faults == []
    assert Submission.from_dict(fields) == told


def test_the_schema_is_one_and_describes_all_fields():
    """The shipped schema is valid, and knows exactly the fields that an entry has."""
    from jsonschema import Draft202012Validator

    Draft202012Validator.check_schema(schema())
    assert set(schema()["properties"]) == set(submission().to_dict())


def test_a_partial_entry_is_accepted_and_marked(tmp_path):
    """With `partial`, some datasets and seeds are enough; they are scored, and the line says so."""
    arrays = {KEY: blend(0.5)[KEY]}
    write_entry(tmp_path / "part.npz", submission(partial=True, seeds=(0,)), arrays, tiny())
    line = score_entry(read_entry(tmp_path / "part.npz", tiny()), tiny())
    assert line.partial
    assert {dataset: [s.seed for s in seeds] for dataset, seeds in line.scores.items()} == {INFORMED: [0]}
    with pytest.raises(EntryError, match="is missing"):
        write_entry(tmp_path / "whole.npz", submission(seeds=(0,)), arrays, tiny())
    assert not (tmp_path / "whole.npz").exists()


def test_other_probes_have_another_hash():
    """The hash changes with everything that the right answer depends on."""
    seen = {tiny().probes_sha256}
    for old, new in (("nu = 0.5", "nu = 0.4"), ("seeds = 2", "seeds = 1"), ("complexity = 10", "complexity = 9")):
        seen.add(Board(Suite.from_toml(SUITE.replace(old, new), name="tiny")).probes_sha256)
    seen.add(Board(Suite.from_toml(SUITE, name="other")).probes_sha256)
    assert len(seen) == 5
    assert Board(Suite.from_toml(SUITE.replace("steps = 7", "steps = 8"), name="tiny")).probes_sha256 in seen


def test_an_entry_of_v1_is_below_15_megabytes_and_its_probes_are_pinned():
    """The leaderboard's own suite is small enough to send, and whoever changes its probes has to mean it."""
    board = Board.load("v1")
    size = sum(4 * np.prod(shape) for shape in board.shapes.values())
    assert len(board.datasets) == 14
    assert size < 15e6
    assert board.probes_sha256 == "c0e1f2862d293dfe1d3f00246b569df415c5d52323b6fdadc83649aa1533bebe"


# Results


def test_a_line_of_results_comes_back_as_it_was(good, tmp_path):
    """Scores, flags and what the entry says about itself survive the file; a newer line replaces an older one."""
    line = score_entry(read_entry(good, tiny()), tiny())
    path = tmp_path / "results.jsonl"
    add_line(path, line)
    add_line(path, line)
    assert read_lines(path) == [line]
    assert len(path.read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"tier": "self-reported"', '"tier": "verified by me"', "tier"),
        ('"schema": 1, "suite"', '"schema": 2, "suite"', "upgrade"),
        ('"name": "Mine", "flagged"', '"name": "Yours", "flagged"', "expected one name"),
        ('"headroom": 0.', '"headroom": NaN, "x": 0.', "but scores"),
        ('"link": null', '"link": "javascript:alert(1)"', "link"),
        ('"partial": false', '"partial": 0', "partial"),
        ("{", "[", "expected a JSON object"),
    ],
)
def test_a_line_that_was_edited_beyond_sense_is_refused(old, new, told, good):
    """Whoever edits results by hand is told what no longer makes sense."""
    text_of = json.dumps(score_entry(read_entry(good, tiny()), tiny()).to_dict())
    assert old in text_of
    with pytest.raises((BenchmarkError, VersionError), match=told):
        parse_line(text_of.replace(old, new, 1))


def test_a_results_file_has_one_suite(good, tmp_path):
    """A line of another suite is not added, and both suites are named."""
    line = score_entry(read_entry(good, tiny()), tiny())
    other = dataclasses.replace(line, submission=submission(suite="other"))
    path = tmp_path / "results.jsonl"
    add_line(path, other)
    before = path.read_bytes()
    with pytest.raises(BenchmarkError, match=r"expected entries of suite 'tiny', got 'other'; .*--results"):
        add_line(path, line)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ('{"schema": 1, "suite": "v1", "cell": "a--bc--s0"}\n' * 2, "got a benchmark's: `report` reads them"),
        (SUITE, "expected results of the leaderboard, got something else"),
        ("[1]\n7\n", "expected results of the leaderboard, got something else"),
        ('{"schema": 1}', "expected results of the leaderboard, got something else"),
        (b"PK\x03\x04\xff", "expected results of the leaderboard, got something else"),
    ],
    ids=["a benchmark's results", "a suite", "JSON of another kind", "an object of another kind", "an entry"],
)
def test_a_file_that_is_no_leaderboards_is_told_as_such(content, told, tmp_path):
    """Where no line is an entry, the file is another one: what it is gets told, and no line is to be removed."""
    path = tmp_path / "results.jsonl"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(BenchmarkError) as caught:
        read_lines(path)
    assert told in str(caught.value)
    assert "remove" not in str(caught.value)


def test_a_broken_line_is_to_be_removed_from_between_good_ones(good, tmp_path):
    """A line is told with its fault, and to be removed only where others are entries, before it or after it."""
    whole = score_entry(read_entry(good, tiny()), tiny()).to_dict()
    broken = {name: value for name, value in whole.items() if name != "tier"}
    fault = "expected an entry with its scores, but 'tier' is a required property"
    path = tmp_path / "results.jsonl"
    for told, records in (
        (f"jsonl': {fault}; it has no other entry", [broken]),
        (f"jsonl', line 1: {fault}; remove that line", [broken, whole]),
        (f"jsonl', line 2: {fault}; remove that line", [whole, broken, broken]),
    ):
        path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
        with pytest.raises(BenchmarkError, match=re.escape(told)) as caught:
            read_lines(path)
        assert ("remove" in str(caught.value)) == (len(records) > 1)


# The command


@pytest.fixture
def suite_file(tmp_path, monkeypatch):
    """The board's suite as a file in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.toml").write_text(SUITE)
    return "tiny.toml"


def test_score_adds_a_line_with_what_was_computed(suite_file, good, tmp_path):
    """The line has the name, tier, flags and scores of each dataset; the same are printed as JSON."""
    done = invoke("leaderboard", "score", good, "--suite", suite_file, "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    (line,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    assert (line["name"], line["tier"], set(line["scores"])) == ("Mine", "self-reported", set(tiny().datasets))
    assert line["flagged"] == bool(line["flags"])
    assert json.loads(done.stdout) == {"ok": True, **line, "results": "results.jsonl"}
    shown = invoke("leaderboard", "score", good, "--suite", suite_file)
    assert "gap closed" in shown.stdout
    assert "Mine" in shown.stdout


def test_a_faulty_entry_adds_nothing(suite_file, good, tmp_path):
    """Every fault is on stdout, once; how many on stderr, the exit code is 1, and no results file appears."""
    arrays = members(good)
    FAULTS["a NaN"][0](arrays)
    arrays.pop("entry")
    np.savez("bad.npz", **arrays)
    done = invoke("leaderboard", "score", "bad.npz", "--suite", suite_file)
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr == "error: entry bad.npz: 2 faults found, so it is not scored\n"
    assert not (tmp_path / "results.jsonl").exists()
    told = json.loads(invoke("leaderboard", "score", "bad.npz", "--suite", suite_file, "--json").stdout)
    assert (told["ok"], len(told["faults"])) == (False, 2)
    gone = invoke("leaderboard", "score", "nowhere.npz", "--suite", suite_file)
    assert gone.exit_code == 2
    assert gone.stderr.startswith("error: FILE 'nowhere.npz': there is no such file")


def test_a_fault_cannot_steer_a_terminal(suite_file, good):
    """Control characters that a file has for a shape are shown as ?."""
    arrays = members(good)
    arrays.pop(KEY)
    np.savez("bad.npz", **arrays)
    forge("bad.npz", KEY, b"{'descr': '<f4', 'fortran_order': False, 'shape': '\\x1b[31m'}", b"")
    done = invoke("leaderboard", "score", "bad.npz", "--suite", suite_file)
    assert done.stdout == f"{KEY!r}: expected shape (12000, 2), got ?[31m\n"


def test_score_refuses_results_of_another_suite(suite_file, good, tmp_path):
    """An entry of one suite adds nothing to the results of another: one line names both, with what to do."""
    assert invoke("leaderboard", "score", good, "--suite", suite_file).exit_code == 0
    before = (tmp_path / "results.jsonl").read_bytes()
    (tmp_path / "other.toml").write_text(SUITE)
    other = Board.load("other.toml")
    told = submission(suite="other", probes_sha256=other.probes_sha256)
    write_entry(tmp_path / "other.npz", told, blend(0.5), other)
    done = invoke("leaderboard", "score", "other.npz", "--suite", "other.toml")
    assert (done.exit_code, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert "expected entries of suite 'other', got 'tiny'; name another file by --results" in done.stderr
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_a_wrong_suite_is_told_before_the_results(suite_file, good, tmp_path):
    """An entry of the results' suite, scored as one of another, is told to name its suite, not another results file."""
    assert invoke("leaderboard", "score", good, "--suite", suite_file).exit_code == 0
    before = (tmp_path / "results.jsonl").read_bytes()
    done = invoke("leaderboard", "score", good)
    assert done.exit_code == 1
    assert done.stdout == "expected suite 'v1', got 'tiny'; name the entry's suite by --suite\n"
    assert "--results" not in done.stderr
    assert (tmp_path / "results.jsonl").read_bytes() == before


def test_probes_never_replace_a_file_unasked(suite_file, tmp_path):
    """A file that is there stays as it is, unless --overwrite is typed."""
    out = tmp_path / "probes.npz"
    out.write_text("precious")
    done = invoke("leaderboard", "probes", suite_file, "-o", "probes.npz")
    told = "error: probes.npz: exists; choose another name, or pass --overwrite to replace it\n"
    assert (done.exit_code, done.stderr) == (1, told)
    assert out.read_text() == "precious"
    assert invoke("leaderboard", "probes", suite_file, "-o", "probes.npz", "--overwrite").exit_code == 0
    assert members(out).keys() == {"probes", *tiny().datasets}


def test_probes_are_what_an_entry_answers(suite_file, tmp_path):
    """The file has each dataset's observations, and says seeds and hash; numpy alone reads it."""
    done = invoke("leaderboard", "probes", suite_file, "-o", "probes.npz", "--json")
    assert done.exit_code == 0
    found = members(tmp_path / "probes.npz")
    about = json.loads(str(found.pop("probes")))
    assert about["probes_sha256"] == json.loads(done.stdout)["probes_sha256"] == tiny().probes_sha256
    assert about["seeds"] == [0, 1]
    assert found.keys() == tiny().datasets.keys() == about["datasets"].keys()
    assert about["dataset_ids"] == {place.key: place.recipe.dataset_id for place in tiny().places}
    for name, observations in found.items():
        np.testing.assert_array_equal(observations, tiny().observations[name])
        inside, outside = np.split(observations[:, :3], [about["within"]])
        assert ((inside >= 0) & (inside < 1)).all()
        assert not ((outside >= 0) & (outside <= 1)).all(axis=1).any()


def test_an_archive_without_room_is_no_archive(tmp_path):
    """A file whose directory is longer than the file is refused as damaged."""
    with zipfile.ZipFile(tmp_path / "many.npz", "w") as file:
        for i in range(archive.MAX_FAULTS + 10):
            file.writestr(f"{i}.npy", b"")
    told = faults_of(tmp_path / "many.npz")
    assert len(told) <= archive.MAX_FAULTS
    assert "expected an array 'entry' that holds text, got none" in told
