"""Results: lines that survive crashes, versions, and grouping by name (case 23)."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os

import numpy as np
import pytest
from command import python
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.bench.journal import append_line, open_journal
from smeoffline.bench.lines import SCHEMA, CellResult, CurvePoint, parse_line
from smeoffline.bench.results import FILE_NAME, Results, read_results
from smeoffline.errors import BenchmarkError, SpecError, VersionError
from smeoffline.sme.task import Task


def result(algo="bc", seed=0, *, score=0.9, steps=10, complexity=1, nu=0.1, status="done", **changes):
    """A cell's result; the score is what a done cell got."""
    done = status == "done"
    behavior = {"base": "bias", "nu": nu, "explore": "none", "sigma": 0.0, "share": 1.0}
    name = f"c{complexity}-nu{nu}"
    fields = {
        "suite": "mine",
        "cell": f"{name}--{algo}--n{steps}--s{seed}",
        "status": status,
        "reason": None if done else "told to fail",
        "dataset_id": f"sme/{name}-seed{seed}-v0",
        "dataset_name": name,
        "task": Task(complexity=complexity).to_dict(),
        "behavior": (behavior,),
        "dataset": {"episodes": 10, "seed": seed},
        "dataset_sha256": "ab" if done else None,
        "algo": algo,
        "variant": None,
        "settings": {},
        "seed": seed,
        "steps": steps,
        "evaluation": {"score_wd": score, "rl_gain": None, "ood_curve": []} if done else None,
        "curve": (CurvePoint(5, 0.5),) if done else (),
        "seconds": 1.5,
        "versions": {"smeoffline": "0"},
        "platform": {"machine": "x"},
    }
    return CellResult(**{**fields, **changes})


def plain(value):
    """A result as JSON gives it back: sequences are lists."""
    return json.loads(value.to_line())


texts = st.text(max_size=8)
made = st.builds(
    result,
    st.sampled_from(["bc", "my.module:train"]),
    st.integers(0, 9),
    score=st.floats(-1, 1),
    complexity=st.integers(1, 50),
    nu=st.floats(0, 1),
    status=st.sampled_from(["done", "failed"]),
    variant=st.none() | texts,
    settings=st.dictionaries(texts, st.integers() | st.floats(-9, 9) | texts, max_size=2),
    seconds=st.floats(0, 1e6),
)


@given(made)
def test_a_line_reads_back_as_what_it_was(one):
    """Any result is one line of JSON, and that line is the result."""
    line = one.to_line()
    assert "\n" not in line
    assert plain(parse_line(line)) == plain(one)
    assert parse_line(line).curve == one.curve


def test_a_result_that_json_has_no_word_for_is_never_written():
    """NaN makes a line that other programs can't read: it is refused."""
    with pytest.raises(ValueError, match="JSON"):
        result(score=float("nan")).to_line()


def test_the_newest_line_of_a_cell_counts(tmp_path):
    """A cell that failed and was done later is done, once, where it first stood."""
    with open_journal(tmp_path) as journal:
        for one in (result(seed=1, status="failed"), result(seed=0), result(seed=1, score=0.7)):
            journal.append(one)
    found = read_results(tmp_path)
    assert [cell.seed for cell in found.cells] == [1, 0]
    assert [cell.seed for cell in found.done] == [1, 0]
    assert found.cells[0].metric("score_wd") == 0.7
    assert found.failed == ()


@pytest.mark.parametrize("lines", [1, 2])
def test_a_last_line_cut_anywhere_loses_nothing_else_and_is_repaired(tmp_path, lines):
    """Wherever a crash cut the last line, the ones before are read, and the next one begins a line."""
    whole = [result(seed=i).to_line().encode() + b"\n" for i in range(lines)]
    path = tmp_path / FILE_NAME
    for cut in {*range(1, len(whole[-1]), 11), *range(len(whole[-1]) - 3, len(whole[-1]))}:
        path.write_bytes(b"".join(whole[:-1]) + whole[-1][:cut])
        all_but_its_end = cut == len(whole[-1]) - 1
        before = list(range(lines if all_but_its_end else lines - 1))
        assert [cell.seed for cell in read_results(path).cells] == before
        with open_journal(tmp_path) as journal:
            assert [cell.seed for cell in journal.results.cells] == before
            journal.append(result(seed=7))
        assert [cell.seed for cell in read_results(path).cells] == [*before, 7]
        assert path.read_bytes().count(b"\n") == len(before) + 1


def test_a_last_line_without_an_end_gets_one(tmp_path):
    """What an editor left without a line's end does not swallow the next line."""
    path = tmp_path / "lines"
    append_line(path, b"first")
    path.write_bytes(b"first")
    append_line(path, b"second")
    assert path.read_bytes() == b"first\nsecond\n"


def test_a_write_that_the_disk_cuts_leaves_the_file_as_it_was(tmp_path, monkeypatch):
    """When only a part of a line fits on the disk, an error tells, and no part stays."""
    with open_journal(tmp_path) as journal:
        journal.append(result(seed=0))
        before = journal.path.read_bytes()
        write = os.write
        with monkeypatch.context() as disk:
            disk.setattr("os.write", lambda fd, data: write(fd, data[:20]))
            with pytest.raises(OSError, match="No space left"):
                journal.append(result(seed=1))
        assert journal.path.read_bytes() == before


def test_a_damaged_line_in_the_middle_is_named(tmp_path):
    """A line that no crash explains is not skipped in silence."""
    good = result().to_line()
    (tmp_path / FILE_NAME).write_text(f"{good}\nrubbish\n{good}\n")
    with pytest.raises(BenchmarkError, match="line 2: expected a JSON object"):
        read_results(tmp_path)


@pytest.mark.parametrize("ended", [True, False], ids=["whole line", "last line without an end"])
def test_a_newer_schema_is_a_version_error_that_names_the_line(tmp_path, ended):
    """Case 24: a file of a newer version is told as such, also in its last line."""
    newer = {**plain(result()), "schema": SCHEMA + 1, "surprise": 1}
    del newer["task"]
    (tmp_path / FILE_NAME).write_text(result().to_line() + "\n" + json.dumps(newer) + ("\n" if ended else ""))
    with pytest.raises(VersionError, match=f"line 2: expected schema {SCHEMA} or older, got {SCHEMA + 1}; upgrade"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": None}, "expected a schema number"),
        ({"schema": True}, "expected a schema number"),
        ({"seed": "0"}, "expected seed to be a whole number"),
        ({"seed": True}, "expected seed to be a whole number"),
        ({"status": "ok"}, "expected status done or failed"),
        ({"status": "failed"}, "an evaluation exactly if done"),
        ({"evaluation": None}, "an evaluation exactly if done"),
        ({"curve": [3]}, "expected curve to be a list of"),
        ({"behavior": []}, "expected behavior to be objects"),
        ({"task": {}}, "expected task state_dim to be a number"),
    ],
)
def test_a_line_with_a_wrong_field_is_refused(change, message):
    """A field of the wrong kind is named, whatever was in it."""
    with pytest.raises(BenchmarkError, match=message):
        parse_line(json.dumps({**plain(result()), **change}))


def test_a_folder_without_results_says_what_to_do(tmp_path):
    """Reading where nothing was run names the file and the command."""
    with pytest.raises(BenchmarkError, match="run benchmark first"):
        read_results(tmp_path)


def grid():
    """Twelve runs whose score tells which they are."""
    return [
        result(algo, seed, complexity=c, nu=nu, score=c / 100 + nu / 10 + seed / 10_000 + (algo == "iql") / 2)
        for algo, seed, c, nu in itertools.product(("bc", "iql"), range(3), (1, 50), (0.1,))
    ]


@pytest.mark.parametrize("by", list(itertools.permutations(["complexity", "algo", "nu"])))
def test_groups_are_named_whatever_the_order_of_lines_or_labels(by):
    """Case 23: a group's runs are those of its labels, named by seed, in any order of lines and labels."""
    cells = grid()
    np.random.default_rng(0).shuffle(cells)
    groups = Results(tuple(cells)).groups("score_wd", by=by)
    assert len(groups) == 4
    for group in groups:
        expected = {
            cell.seed: cell.metric("score_wd")
            for cell in grid()
            if all(cell.label(name) == value for name, value in group.labels.items())
        }
        assert set(group.labels) == set(by)
        assert dict(group.values) == expected
        assert list(group.values) == [0, 1, 2]


def test_runs_that_differ_in_an_unnamed_label_are_never_pooled():
    """Leaving out a label that tells two runs of one seed apart is an error, not a narrower interval."""
    results = Results((result(steps=10), result(steps=20), result(steps=10, seed=1)))
    with pytest.raises(SpecError, match="two runs of seed 0 together; they differ in steps"):
        results.groups("score_wd", by=("algo",))
    assert len(results.groups("score_wd", by=("algo", "steps"))) == 2


def test_where_selects_by_name():
    """`where` keeps the cells with these labels, failed ones too."""
    cells = Results((*grid(), result(seed=9, status="failed")))
    assert len(cells.where(algo="bc", complexity=50).cells) == 3
    assert [cell.seed for cell in cells.where(seed=9).failed] == [9]


def test_a_null_is_left_out_and_not_counted():
    """rl_gain is null where there is no headroom: no number stands for it."""
    (group,) = Results((result(), result(seed=1))).groups("rl_gain", by=("algo",))
    assert dict(group.values) == {}


def test_a_misspelled_label_or_metric_is_answered_with_the_nearest():
    """Names are checked, so that a misspelling is no empty table."""
    results = Results((result(),))
    with pytest.raises(SpecError, match="got 'complexty'; did you mean 'complexity'"):
        results.groups("score_wd", by=("complexty",))
    with pytest.raises(SpecError, match="no metric 'score_dw'; did you mean 'score_wd'"):
        results.groups("score_dw", by=("algo",))


def test_a_mixture_has_no_single_nu():
    """Where behaviors are mixed, labels of one behavior are None instead of the first one's."""
    one = result()
    mixed = dataclasses.replace(one, behavior=(*one.behavior, {**one.behavior[0], "nu": 0.9}))
    assert (one.label("nu"), mixed.label("nu")) == (0.1, None)


def test_reading_results_needs_no_torch(tmp_path):
    """Results are read where nothing is trained."""
    (tmp_path / FILE_NAME).write_text(result().to_line() + "\n")
    code = (
        "import sys; from smeoffline.bench.results import read_results; "
        f"print(len(read_results({str(tmp_path)!r}).done), 'torch' in sys.modules, 'd3rlpy' in sys.modules)"
    )
    assert python(code).split() == ["1", "False", "False"]
