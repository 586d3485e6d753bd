"""Importance sampling: what a policy would have earned, from what another one did (Precup, Sutton & Singh 2000).

A step's ratio is pi(a | s) / mu(a | s), and a step's weight the product of all ratios of its episode up to it.
The variance of weights grows exponentially with the horizon; the effective sample size tells what is left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from smeoffline.score.true_values import Measured
from smeoffline.sme.arrays import Doubles


@dataclass(frozen=True, eq=False)
class Weighted:
    """E episodes padded to H steps: an episode that ended earlier earns 0 from there on and keeps its weight.

    Attributes:
        log_weights: (E, H) log of each step's weight.
        rewards: (E, H).
        discount: In [0, 1].
    """

    log_weights: Doubles
    rewards: Doubles
    discount: float

    @classmethod
    def of(cls, log_target: Doubles, log_behavior: Doubles, rewards: Doubles, discount: float) -> Weighted:
        """From the log-densities of each action under both policies, (E, H), 0 where an episode has ended."""
        return cls(np.cumsum(log_target - log_behavior, axis=1), rewards, discount)

    @property
    def paid(self) -> Doubles:
        """(E, H) discounted rewards."""
        return self.rewards * self.discount ** np.arange(self.rewards.shape[1])

    def per_decision(self) -> Measured | None:
        """PDIS: the mean of `sum_t g^t w_t r_t`. Unbiased; None where weights are too large for a float."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = Measured.of((np.exp(self.log_weights) * self.paid).sum(axis=1))
        error = found.standard_error
        return found if math.isfinite(found.value) and (error is None or math.isfinite(error)) else None

    def weighted(self) -> Measured:
        """WIS: returns weighted by their episodes' last weights. Biased, and never beyond what was seen."""
        share = _shares(self.log_weights[:, -1:])[:, 0]
        returns = self.paid.sum(axis=1)
        value = float((share * returns).sum())
        return Measured(value, _standard_error(share * (returns - value)))

    def weighted_per_decision(self) -> Measured:
        """Weighted PDIS: at each step the mean reward, weighted by that step's weights (Thomas 2015, CWPDIS)."""
        shares = _shares(self.log_weights)
        by_step = (shares * self.paid).sum(axis=0)
        return Measured(float(by_step.sum()), _standard_error((shares * (self.paid - by_step)).sum(axis=1)))

    def effective_samples(self) -> float:
        """(sum w)^2 / sum w^2 of the last weights: E where policies agree, 1 where one episode has all weight."""
        share = _shares(self.log_weights[:, -1:])
        return float(1 / (share**2).sum())


def _shares(log_weights: Doubles) -> Doubles:
    """Each step's weights divided by their sum over the episodes, (E, H); none overflows."""
    weights = np.exp(log_weights - log_weights.max(axis=0))
    return np.asarray(weights / weights.sum(axis=0))


def _standard_error(influences: Doubles) -> float | None:
    """Of a weighted mean from its influences (E,): too small where few episodes have all weight, None for one alone."""
    return float(np.sqrt((influences**2).sum())) if len(influences) > 1 else None
