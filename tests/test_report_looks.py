"""What things are called and how they look in a report: labels, colors, numbers, and text from outside."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re

import pytest
import synthetic_results as synthetic
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.bench.drawing.style import KNOWN, looks
from smeoffline.bench.drawing.tables import ABOVE, BELOW, GAIN_LIMIT, MIDDLE, shade, signed
from smeoffline.bench.report.figures import drawings
from smeoffline.bench.report.findings import findings
from smeoffline.bench.report.labels import NAMES, DatasetLabels, Variant, algorithm_labels
from smeoffline.bench.report.numbers import tidy
from smeoffline.bench.report.runs import study
from smeoffline.bench.report.tables import escaped, number
from smeoffline.train.algorithms import ALGORITHMS

variants = st.builds(
    Variant,
    algo=st.sampled_from(["bc", "iql", "my.module:train"]),
    variant=st.none() | st.sampled_from(["a", "b"]),
    settings=st.dictionaries(
        st.sampled_from(["gamma", "tau"]), st.sampled_from([0.1, 0.10000000000000002, 1, 1.5, True])
    ),
    steps=st.sampled_from([100, 1000]),
)


@given(st.lists(variants, min_size=1, max_size=6))
def test_labels_of_algorithms_are_equal_only_for_equal_ones(listed):
    """Two runs may share a label exactly if name, variant, settings and steps are equal."""
    labels = algorithm_labels(listed)
    for (one, first), (other, second) in itertools.combinations(zip(listed, labels, strict=True), 2):
        same = [json.dumps(dataclasses.asdict(variant), sort_keys=True) for variant in (one, other)]
        assert (first == second) == (same[0] == same[1])


specs = st.builds(
    lambda c, n, shaping, base, nu, explore, sigma, episodes: {
        "task": {"complexity": c, "state_dim": n, "action_dim": 4, "shaping": shaping},
        "behavior": [{"base": base, "nu": nu, "explore": explore, "sigma": sigma, "share": 1.0}],
        "episodes": episodes,
    },
    st.sampled_from([1, 10]),
    st.sampled_from([2, 8]),
    st.sampled_from([0.0, 0.5]),
    st.sampled_from(["bias", "weights"]),
    st.sampled_from([0.1, 0.30000000000000004, 0.3]),
    st.sampled_from(["probit", "ou"]),
    st.sampled_from([0.1, 0.3]),
    st.sampled_from([100, 1000]),
)


@given(st.lists(specs, min_size=1, max_size=6))
def test_labels_of_datasets_are_equal_only_for_equal_ones(listed):
    """Whatever differs between datasets is in their labels, and in the parts that axes are named by."""
    labels = DatasetLabels.of(listed)
    for one, other in itertools.combinations(listed, 2):
        assert (labels.dataset(one) == labels.dataset(other)) == (one == other)
        parts = [(labels.task(spec), labels.base(spec), labels.noise(spec)) for spec in (one, other)]
        assert (parts[0] == parts[1]) == (one == other)
        assert (labels.order(one) == labels.order(other)) == (one == other)


def test_a_mixture_is_a_dataset_of_its_own():
    """Several behaviors are told with their shares, and stay out of the figures by base error."""
    plain = synthetic.cell(nu=0.3)
    parts = [{**plain.behavior[0], "share": 0.5}, {**plain.behavior[0], "nu": 0.0, "share": 0.5}]
    mixed = dataclasses.replace(plain, behavior=parts, dataset_name="mixture", cell="mixture")
    made = findings(study([plain, mixed]))
    assert [row.dataset.label for row in made.datasets] == [
        "C = 1, ν = 0.3",
        "C = 1, mixture (50% ν = 0.3; 50% ν = 0)",
    ]
    assert [panel.groups for panel in made.improvement] == [("ν = 0.3",)]


def test_policies_and_shares_are_told_apart():
    """Datasets of two policies' files, and mixtures by shares that are nearly equal, have labels of their own."""
    policy = {"base": "policy", "nu": 0.0, "explore": "none", "sigma": 0.0, "policy": "policy.onnx"}
    task = {"complexity": 1, "state_dim": 2, "action_dim": 4}
    listed = [
        {"task": task, "episodes": 100, "behavior": behavior}
        for behavior in (
            [{**policy, "policy_sha256": "a" * 64, "share": 1.0}],
            [{**policy, "policy_sha256": "b" * 64, "share": 1.0}],
            [{**policy, "policy_sha256": "a" * 64, "share": share} for share in (0.332, 0.668)],
            [{**policy, "policy_sha256": "a" * 64, "share": share} for share in (0.334, 0.666)],
        )
    ]
    labels = DatasetLabels.of(listed)
    assert len({labels.dataset(spec) for spec in listed}) == 4
    assert [labels.base(spec) for spec in listed[:2]] == ["policy aaaaaa", "policy bbbbbb"]


def test_every_shipped_algorithm_has_a_name():
    """The names of papers cover the algorithms that ship, and no two are alike."""
    assert set(NAMES) == set(ALGORITHMS)
    assert len(set(NAMES.values())) == len(NAMES)


def test_an_algorithm_looks_the_same_in_every_report():
    """Known algorithms keep color and marker whatever else was run, and no two look alike."""
    everything = [(name, algo) for algo, name in NAMES.items()]
    full = looks([*everything, ("IQL greedy", "iql"), ("mine", "my:train")])
    assert len(set(full.values())) == len(full)
    for algo, look in KNOWN.items():
        assert looks([(NAMES[algo], algo)])[NAMES[algo]] == look == full[NAMES[algo]]


def test_the_color_scale_is_centered_at_zero():
    """Zero is the neutral color, equal gains and losses are equally far from it, and the ends saturate."""
    assert shade(0.0, GAIN_LIMIT) == MIDDLE
    assert shade(GAIN_LIMIT, GAIN_LIMIT) == shade(9.0, GAIN_LIMIT) == ABOVE
    assert shade(-GAIN_LIMIT, GAIN_LIMIT) == BELOW
    assert shade(0.001, GAIN_LIMIT)[2] > shade(0.001, GAIN_LIMIT)[0]
    assert shade(-0.001, GAIN_LIMIT)[0] > shade(-0.001, GAIN_LIMIT)[2]
    half = shade(GAIN_LIMIT / 2, GAIN_LIMIT)
    assert half == pytest.approx([(m + a) / 2 for m, a in zip(MIDDLE, ABOVE, strict=True)], abs=1e-4)


def test_an_algorithm_that_fails_altogether_is_told_and_does_not_flatten_the_others():
    """Far below the others it is an arrow with its value, and the axis still resolves the others."""
    cells = [synthetic.cell(a, nu=0.5, explore="probit", sigma=0.3) for a in ("bc", "iql", "td3")]
    cells[2] = synthetic.shifted(cells[2], -0.6)
    gap = {"rl_gain": -0.6, "gap_closed": -4.59}
    cells[2] = dataclasses.replace(cells[2], evaluation={**cells[2].evaluation, **gap})
    figures = drawings(findings(study(cells)))
    improvement, ranked = (re.findall(r">([^<>\n]+)</text>", figures[n][0].svg) for n in ("improvement", "ranking"))
    assert "← −4.59" in ranked
    assert f"{cells[2].evaluation['improvement']:.2f}".replace("-", "−") in improvement
    ticks = [float(t.replace("−", "-")) for t in improvement if re.fullmatch(r"−?\d\.\d+", t)]
    assert min(t for t in ticks if t != round(cells[2].evaluation["improvement"], 2)) > -0.3


@pytest.mark.parametrize(
    ("value", "cell", "text"),
    [(0.0512, "+.05", "+0.051"), (-0.2, "−.20", "−0.200"), (-0.0001, "0", "0.000"), (1.0, "+1.00", "+1.000")],
)
def test_signed_numbers_are_printed_without_a_negative_zero(value, cell, text):
    """Gains have their sign, and what rounds to zero has none."""
    assert signed(value) == cell
    assert number(value, 3, sign=True) == text
    assert str(tidy(-1e-9)) == "0.0"


@given(st.text())
def test_text_from_outside_breaks_no_table(text):
    """An escaped text has no line break and no bar or angle bracket that Markdown would take for its own."""
    shown = escaped(text)
    assert len(shown.splitlines()) <= 1
    bare = shown.replace("\\\\", "")
    assert all(bare[i - 1] == "\\" for i, sign in enumerate(bare) if sign in "|<`")
