"""Statistics over seeds: interquartile means, seeded bootstrap intervals, and Student's for few runs.

Runs are the unit of resampling (Agarwal et al. 2021): with one run there is no interval, and none is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from smeoffline.sme.arrays import Doubles

RESAMPLES = 2000
CONFIDENCE = 0.95
DEFAULT_SEED = 0

Statistic = Callable[..., Any]


@dataclass(frozen=True)
class Estimate:
    """A statistic of n runs.

    Attributes:
        value: Of the runs as they are.
        low: Lower end of its 95% interval; None where runs do not tell it, as a single one.
        high: Upper end; None likewise.
        n: Runs.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def interquartile_mean(values: Doubles, axis: int = -1) -> Any:
    """Mean of the middle half: robust to outlying runs, and uses more than the median.

    A quarter of the runs, rounded down, is cut off at each end (scipy's 25% trimmed mean): below four runs, none.
    """
    return stats.trim_mean(values, 0.25, axis=axis)


def mean_of_strata(strata: Sequence[Doubles]) -> Estimate:
    """The mean of the means of strata, with Student's 95% interval (degrees of freedom by Welch and Satterthwaite).

    For few runs in each stratum, where a percentile bootstrap is too narrow: with 3, by a fifth and more.

    Args:
        strata: Arrays of finite numbers, at least one in each.

    Returns:
        n counts all runs. No interval where a stratum has a single run: its variation is not known.
    """
    value, n = float(np.mean([stratum.mean() for stratum in strata])), sum(map(len, strata))
    if min(map(len, strata)) < 2:
        return Estimate(value, None, None, n)
    shares = np.array([stratum.var(ddof=1) / len(stratum) for stratum in strata]) / len(strata) ** 2
    variance = shares.sum()
    if variance == 0:
        return Estimate(value, value, value, n)
    freedom = variance**2 / np.sum(shares**2 / [len(stratum) - 1 for stratum in strata])
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom) * np.sqrt(variance))
    return Estimate(value, value - half, value + half, n)


def bootstrap_interval(
    samples: Sequence[Doubles], statistic: Statistic, *, seed: int = DEFAULT_SEED
) -> tuple[Any, Any]:
    """The ends of a statistic's 95% percentile bootstrap interval.

    Args:
        samples: Arrays (..., n) of finite numbers, n >= 2 runs along the last axis. Each is resampled by itself, all
            rows of one together.
        statistic: Takes the samples and `axis`.
        seed: Draws the resamples: the same seed gives the same interval.

    Returns:
        Low and high, each of the statistic's shape.
    """
    interval = stats.bootstrap(
        tuple(samples),
        statistic,
        axis=-1,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return interval.low, interval.high
