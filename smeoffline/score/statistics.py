"""Statistics over seeds: means, interquartile means and seeded bootstrap intervals.

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
        low: Lower end of the interval; None for a single run.
        high: Upper end; None for a single run.
        n: Runs.
    """

    value: float
    low: float | None
    high: float | None
    n: int


def interquartile_mean(values: Doubles, axis: int = -1) -> Any:
    """Mean of the middle half (scipy's 25% trimmed mean): robust to outlying runs, and uses more than the median."""
    return stats.trim_mean(values, 0.25, axis=axis)


def estimate(
    values: Sequence[float],
    *,
    statistic: Statistic = np.mean,
    seed: int = DEFAULT_SEED,
    confidence: float = CONFIDENCE,
    resamples: int = RESAMPLES,
) -> Estimate:
    """A statistic of runs with its percentile bootstrap interval.

    Args:
        values: (n,) one finite number per run.
        statistic: Takes an array and `axis`.
        seed: Draws the resamples: the same seed gives the same interval.
        confidence: Of the interval, in (0, 1).
        resamples: How many.

    Raises:
        ValueError: No runs, another shape, or a number that is not finite.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1 or len(array) == 0:
        raise ValueError(f"estimate: expected (n,) numbers, one per run, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError("estimate: expected finite numbers, got NaN or infinity; a failed run has no score")
    value = float(statistic(array, axis=-1))
    if len(array) == 1:
        return Estimate(value, None, None, 1)
    if np.all(array == array[0]):
        return Estimate(value, value, value, len(array))
    interval = stats.bootstrap(
        (array,),
        statistic,
        n_resamples=resamples,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
        rng=np.random.default_rng(seed),
    ).confidence_interval
    return Estimate(value, float(interval.low), float(interval.high), len(array))
