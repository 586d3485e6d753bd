"""Rank correlations that say nothing where nothing can be ranked."""

from __future__ import annotations

import numpy as np
from scipy import stats

from smeoffline.sme.arrays import Doubles


def rank_correlation(one: Doubles, other: Doubles) -> float | None:
    """Spearman's rank correlation of (n,) and (n,), ties sharing their mean rank; None where either is constant."""
    found = row_correlations(one[np.newaxis], other[np.newaxis])[0]
    return None if np.isnan(found) else float(found)


def mean_rank_correlation(ones: Doubles, others: Doubles) -> float | None:
    """Mean over rows of Spearman's rank correlation, (m, n) and (m, n).

    Rows in which either is constant are left out; None where no row is left.
    """
    found = row_correlations(ones, others)
    found = found[~np.isnan(found)]
    return float(found.mean()) if len(found) else None


def row_correlations(ones: Doubles, others: Doubles) -> Doubles:
    """Spearman's rank correlation of each row: (m, n), (m, n) -> (m,), NaN where a row is constant."""
    a, b = (stats.rankdata(x, axis=1) - (x.shape[1] + 1) / 2 for x in (ones, others))
    scale = np.sqrt((a**2).sum(axis=1) * (b**2).sum(axis=1))
    covariance = (a * b).sum(axis=1)
    found: Doubles = np.divide(covariance, scale, out=np.full(len(scale), np.nan), where=scale > 0)
    return found
