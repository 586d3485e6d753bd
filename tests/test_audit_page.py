"""What an audit measures, and the page it can be written as."""

from __future__ import annotations

import json
import re
import warnings
from html.parser import HTMLParser

import h5py
import numpy as np
import pytest
from command import invoke
from gymnasium.spaces import Box
from hypothesis import given
from hypothesis import strategies as st
from minari import create_dataset_from_buffers
from minari.data_collector import EpisodeBuffer
from stored import data_file
from test_audit import MIXED, edit_metadata, generate

import smeoffline as so
from smeoffline.bench.audit.page import page
from smeoffline.data.audit import coverage
from smeoffline.data.audit.coverage import Grid, expected_cells, joint_bins
from smeoffline.data.storage import store

VOID = {"meta", "use", "path"}  # what may stand without an end


class Reader(HTMLParser):
    """Collects what a browser would see, and whether every element that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.ids, self.open, self.text = [], [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        """An element begins."""
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        """An element without content."""
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        """The element that was opened last ends."""
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        """Text between elements."""
        self.text.append(data)


def foreign(copies=0):
    """A small dataset of somebody else's."""
    rng = np.random.default_rng(0)
    episodes = [
        EpisodeBuffer(
            observations=rng.normal(size=(6, 4)).astype(np.float32),
            actions=rng.normal(size=(5, 1)).astype(np.float32),
            rewards=[0.0, *rng.random(4).tolist()],
            terminations=[False] * 5,
            truncations=[False] * 4 + [True],
        )
        for _ in range(3)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spaces = {"observation_space": Box(-99, 99, (4,)), "action_space": Box(-9, 9, (1,))}
        create_dataset_from_buffers("other/set-v0", episodes + [episodes[0]] * copies, **spaces)
    return "other/set-v0"


PAGES = {
    "one behavior": generate,
    "mixture": lambda: generate(MIXED, reward_every=3, shaping=0.5),
    "killed": lambda: generate(kill_threshold=0.6),
    "one channel": lambda: generate(state_dim=1, action_dim=1),
    "many channels": lambda: generate(state_dim=40, action_dim=2),
    "foreign": foreign,
    "one episode": lambda: so.generate(so.Task(episode_length=7), episodes=1, dataset_id="sme/t-v0").path,
}


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_stands_alone(kind):
    """It is well-formed, loads nothing, shares no id between figures, and is the same for the same audit."""
    found = so.inspect(PAGES[kind]())
    text = page(found)
    assert text == page(found)
    read = Reader(text)
    assert read.open == []
    assert len(read.ids) == len(set(read.ids))
    assert {"script", "link", "img", "iframe", "object", "image", "foreignobject", "style"} & set(read.tags) == {
        "style"
    }
    for name, value in read.attributes:
        assert name not in ("src", "srcset", "action")
        assert not name.startswith("on")
        if name.endswith("href"):
            assert value.startswith("#")
            assert value[1:] in read.ids
    assert not re.search(r"url\((?!#)|@import", text)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(read.ids)
    assert "svg" in read.tags
    assert str(store.datasets_root()) not in text


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e30, -1e30])
def test_a_page_survives_numbers_that_no_learner_does(value):
    """Whatever stands in the data, the audit tells its place and the page is drawn."""
    names = ["observations", "actions", "rewards", "infos/log_density", "infos/optimal_action"]
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        for i, name in enumerate(names):
            file[f"episode_{i}/{name}"][2] = value
    found = so.inspect(folder)
    assert {(i, 2) for i in range(len(names))} <= {(f.episode, f.step) for f in found.findings}
    Reader(page(found))


def test_text_of_a_dataset_is_only_text():
    """Ids, descriptions and findings can't become elements of the page."""
    attack = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    folder = generate()
    edit_metadata(folder, lambda raw: raw.update(algorithm_name=attack, dataset_id=attack))
    edit_metadata(folder, lambda raw: raw["smeoffline"].update(sha256=attack, scores={attack: attack}))
    edit_metadata(folder, lambda raw: raw["smeoffline"].update({attack: attack, "platform": attack}))
    read = Reader(page(so.inspect(folder)))
    assert {"script", "img"} & set(read.tags) == set()
    assert any("<script>" in text for text in read.text)


def test_a_page_lists_the_findings():
    """Each fault is on the page with its episode and step."""
    folder = generate()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/rewards"][3] += 1
    found = so.inspect(folder)
    text = " ".join(Reader(page(found)).text)
    assert all(str(finding) in text for finding in found.findings)
    assert "2 faults found" in text


@pytest.mark.parametrize("kind", ["one behavior", "one channel", "foreign"])
def test_channels_are_counted_from_1_as_in_plots(kind):
    """The first channel of a figure is 1, none is 0, and the page says how a fault counts."""
    text = page(so.inspect(PAGES[kind]()))
    titles = re.findall(r"<h3>(.*?)</h3>", text)
    assert [title[-1] for title in titles if "optimal action" in title] == {
        "one behavior": ["1", "2"],
        "one channel": ["1"],
        "foreign": [],
    }[kind]
    assert {"state 1", "action 1"} <= set(re.findall(r"(?:state|action) \d+", text))
    assert not re.search(r"(state|action) 0\b", text)
    assert "state 1 is channel 0 of the arrays, and of a fault" in text


def test_the_command_writes_the_page_and_the_measures(tmp_path):
    """`--html` writes it, also of a dataset with faults; `--json` has the measures beside the contract's keys."""
    folder = generate()
    path = tmp_path / "audit.html"
    result = invoke("inspect", "sme/t-v0", "--html", path, "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["ok"], told["findings"], told["unchecked"]) == (0, True, [], [])
    assert set(told["coverage"]) == {"state_action", "cells", "expected_cells", "bins", "states", "actions"}
    assert told["quality"]["headroom"] == told["scores"]["headroom"]
    assert 0 <= told["zero_reward_share"] <= 1
    assert told["html"] == str(path)
    assert path.read_text().startswith("<!DOCTYPE html>")
    path.unlink()
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/rewards"][3] += 1
    result = invoke("inspect", "sme/t-v0", "--html", path)
    assert result.exit_code == 1
    assert path.exists()
    result = invoke("inspect", "sme/t-v0", "--html", tmp_path / "none" / "audit.html")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1


def test_a_foreign_dataset_is_measured_and_what_is_not_known_is_said():
    """Coverage, zero rewards and copies need no task; quality does, and is not told."""
    told = json.loads(invoke("inspect", foreign(copies=2), "--json").stdout)
    assert (told["ok"], told["duplicates"], told["zero_reward_share"]) == (True, 2, 0.2)
    assert "quality" not in told
    assert len(told["coverage"]["states"]) == 4
    assert told["unchecked"][0].startswith("rewards, transitions")


def test_quality_is_between_random_and_optimal():
    """The optimum has 1; random actions have about 0."""
    for base, quality in (("optimal", 1.0), ("random", 0.0)):
        generate(so.Behavior(base=base), episode_length=50)
        found = so.inspect("sme/t-v0").description["quality"]
        assert found["trajectory_quality"] == pytest.approx(quality, abs=0.03)
    assert found["mean_score"] == pytest.approx(0.66, abs=0.03)


@given(st.integers(1, 4), st.integers(1, 300), st.integers(0, 99))
def test_cells_are_counted_as_a_set_would(channels, pairs, seed):
    """Distinct cells and channels' counts are those of a plain count, in parts or at once."""
    values = np.random.default_rng(seed).random((pairs, channels), dtype=np.float32)
    grid = Grid(np.zeros(channels), np.ones(channels), 1, pairs)
    for part in np.array_split(values, 3):
        grid.add(part)
    found = grid.coverage()
    assert found.cells == len({tuple(row) for row in (values.astype(np.float64) * grid.bins).astype(int).tolist()})
    assert grid.histogram.sum() == channels * pairs
    assert len(found.states) == 1
    assert len(found.actions) == channels - 1


def test_uniform_pairs_have_full_coverage_in_any_dimension(monkeypatch):
    """About 1 where the data are uniform, however many cells; far less where they are on a line."""
    monkeypatch.setattr(coverage, "MERGE_CODES", 1000)
    for channels in (2, 12, 100, 3000):
        values = np.random.default_rng(0).random((2000, channels), dtype=np.float32)
        line = np.repeat(values[:, :1], channels, axis=1)
        full, poor = (_covered(v) for v in (values, line))
        assert full.state_action == pytest.approx(1, abs=0.02)
        assert poor.cells == poor.bins
        assert min(full.states + full.actions) > 0.9


def _covered(values):
    grid = Grid(np.zeros(values.shape[1]), np.ones(values.shape[1]), 1, len(values))
    for part in np.array_split(values, 5):
        grid.add(part)
    return grid.coverage()


def test_the_grid_is_as_fine_as_the_data_allow():
    """Ten pairs a cell, from two to ten bins; the expectation is exact."""
    assert [joint_bins(2, n) for n in (1, 100, 250, 10**6)] == [2, 3, 5, 10]
    assert joint_bins(12, 100_000) == 2
    assert expected_cells(2, 1, 2) == pytest.approx(1.5)
    assert expected_cells(2, 5000, 7) == 7


def test_numbers_that_are_not_finite_are_not_counted():
    """A NaN is a finding of its own and leaves the measures of all else."""
    grid = Grid(np.zeros(2), np.ones(2), 1, 3)
    grid.add(np.array([[0.5, np.nan], [np.inf, 0.1], [0.5, 0.1]], np.float32))
    assert grid.coverage().cells == 1
    assert Grid(np.zeros(2), np.ones(2), 1, 0).coverage() is None
