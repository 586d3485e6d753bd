"""Intervals over seeds are drawn from a seed, and hold what they say; the interquartile mean."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from smeoffline.score.statistics import Estimate, bootstrap_interval, interquartile_mean, mean_of_strata

runs = st.lists(st.floats(-1, 1), min_size=2, max_size=12).map(np.array)


@settings(max_examples=20)
@given(runs, st.integers(0, 2**32 - 1))
def test_the_same_seed_gives_the_same_interval(values, seed):
    """A bootstrap draws from its seed and from nothing else."""
    np.random.default_rng().random()
    assert bootstrap_interval([values], np.mean, seed=seed) == bootstrap_interval([values], np.mean, seed=seed)


def test_another_seed_gives_another_interval():
    """The seed is not ignored."""
    values = [np.array([0.1, 0.5, 0.2, 0.9, 0.4])]
    assert bootstrap_interval(values, np.mean, seed=0) != bootstrap_interval(values, np.mean, seed=1)


@settings(max_examples=20)
@given(runs)
def test_the_interval_lies_within_the_runs(values):
    """A percentile bootstrap of the mean can't leave the range of the data, and holds low <= high."""
    low, high = bootstrap_interval([values], np.mean)
    assert values.min() - 1e-12 <= low <= high <= values.max() + 1e-12


def test_the_interval_covers_the_mean_as_often_as_it_says():
    """Over 200 samples of 20 normal runs, the 95% interval covers the true mean about 95 times in 100."""
    lows, highs = bootstrap_interval([np.random.default_rng(0).normal(0.3, 1.0, (200, 20))], np.mean)
    assert 0.88 <= ((lows <= 0.3) & (highs >= 0.3)).mean() <= 0.98


def test_one_stratum_has_students_interval():
    """With a single stratum it is the t interval of a mean; one run has none, and equal runs one of no width."""
    values = np.array([0.1, 0.5, 0.2])
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    made = mean_of_strata([values])
    assert (made.value, made.low, made.high, made.n) == pytest.approx((values.mean(), *interval, 3))
    assert mean_of_strata([values, np.array([0.5])]) == Estimate((values.mean() + 0.5) / 2, None, None, 4)
    assert mean_of_strata([np.ones(2), np.zeros(2)]) == Estimate(0.5, 0.5, 0.5, 4)


def test_few_runs_in_each_stratum_are_covered_as_often_as_it_says():
    """Over 500 draws of 12 strata with 3 runs each, the 95% interval covers the mean about 95 times in 100."""
    rng = np.random.default_rng(0)
    spreads = rng.uniform(0.5, 2, (12, 1))
    made = [mean_of_strata(list(rng.normal(0, spreads, (12, 3)))) for _ in range(500)]
    assert 0.93 <= np.mean([each.low <= 0 <= each.high for each in made]) <= 0.98


def test_the_interquartile_mean_ignores_the_outer_quarters():
    """With eight runs, the lowest and highest two don't count; three runs have no outer quarter."""
    assert interquartile_mean(np.array([-99.0, -9, 1, 2, 3, 4, 50, 500])) == pytest.approx(2.5)
    assert interquartile_mean(np.array([0.0, 0, 3])) == pytest.approx(1)
