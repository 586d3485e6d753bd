"""Statistics over seeds: interquartile means and seeded bootstrap intervals.

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
