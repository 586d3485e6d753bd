"""Intervals over seeds: seeded, labelled, and none where there is one run."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.score.statistics import estimate, interquartile_mean

runs = st.lists(st.floats(-1, 1), min_size=2, max_size=12)


@given(runs, st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_interval(values, seed):
    """A bootstrap draws from its seed and from nothing else."""
    np.random.default_rng().random()
    assert estimate(values, seed=seed, resamples=50) == estimate(values, seed=seed, resamples=50)


def test_another_seed_gives_another_interval():
    """The seed is not ignored."""
    values = [0.1, 0.5, 0.2, 0.9, 0.4]
    assert estimate(values, seed=0) != estimate(values, seed=1)


@given(runs)
def test_the_interval_lies_within_the_runs(values):
    """A percentile bootstrap of the mean can't leave the range of the data, and holds low <= high."""
    found = estimate(values, resamples=50)
    assert min(values) - 1e-12 <= found.low <= found.high <= max(values) + 1e-12
    assert found.n == len(values)


def test_a_single_run_has_no_interval():
    """One run says nothing about its spread."""
    found = estimate([0.7])
    assert (found.value, found.low, found.high, found.n) == (0.7, None, None, 1)


def test_the_interval_covers_the_mean_as_often_as_it_says():
    """Over 200 samples of 20 normal runs, the 95% interval covers the true mean about 95 times in 100."""
    stream = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        found = estimate(stream.normal(0.3, 1.0, 20), resamples=400)
        covered += found.low <= 0.3 <= found.high
    assert 0.88 <= covered / 200 <= 0.98


def test_the_interquartile_mean_ignores_the_outer_quarters():
    """With eight runs, the lowest and highest two don't count."""
    assert interquartile_mean(np.array([-99.0, -9, 1, 2, 3, 4, 50, 500])) == pytest.approx(2.5)


@pytest.mark.parametrize("values", [[], [[0.1, 0.2]], [0.1, np.nan], [np.inf]], ids=["none", "2-d", "nan", "inf"])
def test_what_is_no_list_of_scores_is_refused(values):
    """An empty list, a table, and numbers that are not finite are refused, never averaged."""
    with pytest.raises(ValueError, match="estimate"):
        estimate(values)
