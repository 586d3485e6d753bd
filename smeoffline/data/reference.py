"""Reference rows: what needs no training to know.

On the within-distribution probes, in expectation over the behavior's noise: the score of the optimum, of
the behavior, of perfect least-squares and least-absolute cloning of it, of shrinking a clone's actions towards
1/2, and of random actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from smeoffline.data.acting import Acting, intend_at
from smeoffline.data.behavior import Behavior
from smeoffline.data.exploration import phi
from smeoffline.data.recipe import Component
from smeoffline.data.rollout import Rollout, rows_per_block
from smeoffline.sme import probes
from smeoffline.sme.arrays import Doubles, Floats

# Key in a record -> (row, what it means), best first.
ROWS = {
    "optimal_score": ("optimal", "the optimum, known in every state"),
    "clone_mean_score": ("clone mean", "perfect imitation by least squares"),
    "clone_median_score": ("clone median", "perfect imitation by least absolute error"),
    "clone_shrunk_score": ("clone shrunk", "imitation drawn towards 1/2 as far as helps: no reward needed"),
    "behavior_score": ("behavior", "what the dataset shows"),
    "random_score": ("random", "uniform actions"),
}
MIN_HEADROOM = 0.02  # below it, gains over imitation are not reported: they would be noise
BISECTIONS = 40  # halvings of [0, 1] for a mixture's median: 2^-40 is far below float32's resolution


@dataclass(frozen=True)
class References:
    """Scores on the same probes, in [0, 1].

    Attributes:
        behavior_score: What acts in the data, its exploration included.
        clone_mean_score: E[a | s]: perfect least-squares cloning.
        clone_median_score: Perfect least-absolute cloning, channel by channel.
        clone_shrunk_score: The better clone with its actions drawn towards 1/2 by the one factor in [0, 1] that is
            best here. Regularization and early stopping draw actions that way, too, so that gains over imitation up to
            this may owe nothing to the reward. At a factor of 0 it is the constant action 1/2.
        random_score: Uniform actions.
        approximate: Whether the clones ignore something: noise correlated in time (`ou`), or that mixed
            behaviors visit different states.
    """

    behavior_score: float
    clone_mean_score: float
    clone_median_score: float
    clone_shrunk_score: float
    random_score: float
    approximate: bool

    @property
    def imitation_score(self) -> float:
        """The best that cloning can do."""
        return max(self.clone_mean_score, self.clone_median_score)

    @property
    def headroom(self) -> float:
        """What is left for the reward to teach."""
        return 1.0 - self.imitation_score

    def to_dict(self) -> dict[str, Any]:
        """All rows by name, the optimum's among them."""
        rows = asdict(self)
        approximate = rows.pop("approximate")
        derived = {"imitation_score": self.imitation_score, "headroom": self.headroom, "optimal_score": 1.0}
        return {**rows, **derived, "approximate": approximate}


def references(rollout: Rollout, states: Floats | None = None) -> References:
    """The reference rows of a recipe.

    Args:
        rollout: The prepared recipe.
        states: (B, N_s) probes; None for the default ones (10,000, seed 0).
    """
    sme = rollout.sme
    if states is None:
        states = probes.within(sme.task.state_dim)
    z = sme.preactivation(states)
    optimal = phi(z).astype(np.float64)
    mixture = Mixture.at(rollout.actors, [c.share for c in rollout.recipe.mix], states, z)
    mean, median = mixture.mean(), mixture.median()
    return References(
        behavior_score=1.0 - float(mixture.expected_error(optimal).mean()),
        clone_mean_score=_score(mean, optimal),
        clone_median_score=_score(median, optimal),
        clone_shrunk_score=max(_score(shrunk(clone, optimal), optimal) for clone in (mean, median)),
        random_score=1.0 - float((optimal**2 - optimal + 0.5).mean()),  # E|U - c| = c^2 - c + 1/2
        approximate=len(rollout.actors) > 1 or any(a.exploration.approximate for a in rollout.actors),
    )


def _score(actions: Doubles, optimal: Doubles) -> float:
    return 1.0 - float(np.abs(actions - optimal).mean())


def shrunk(actions: Doubles, optimal: Doubles) -> Doubles:
    """Actions drawn towards 1/2 by the factor in [0, 1] that brings them closest to the optimal ones.

    The error mean |f x - y| of deviations x and y from 1/2 is convex in the factor f; its minimum is the median of
    y / x with weights |x|.

    Args:
        actions: (B, N_a) in [0, 1].
        optimal: (B, N_a) in [0, 1].

    Returns:
        (B, N_a); the actions themselves where shrinking does not help.
    """
    x, y = (actions - 0.5).ravel(), (optimal - 0.5).ravel()
    off = x != 0
    if not off.any():
        return actions
    ratios, weights = y[off] / x[off], np.abs(x[off])
    order = np.argsort(ratios)
    reached = np.cumsum(weights[order])
    factor = ratios[order][np.searchsorted(reached, 0.5 * reached[-1])]
    return 0.5 + min(max(float(factor), 0.0), 1.0) * (actions - 0.5)


@dataclass(frozen=True)
class Mixture:
    """The distribution of one channel's action at each probe, over behaviors and their noise.

    Attributes:
        parts: (share, actor, u, m) per behavior; u and m are (B, N_a) float64.
    """

    parts: tuple[tuple[float, Acting, Doubles, Doubles], ...]

    @classmethod
    def at(cls, actors: Sequence[Acting], shares: Sequence[float], states: Floats, z: Floats) -> Mixture:
        """The behaviors' actions at probes (B, N_s) whose optimal pre-activations are z (B, N_a)."""
        parts = []
        for actor, share in zip(actors, shares, strict=True):
            u, m = intend_at(actor, states, z)
            parts.append((share, actor, u.astype(np.float64), m.astype(np.float64)))
        return cls(tuple(parts))

    def expected_error(self, c: Doubles) -> Doubles:
        """E|A - c| = 2 I(c) + 1 - c - I(1), for c (B, N_a) in [0, 1]."""
        return 2 * self._integral(c) + 1.0 - c - self._integral(np.ones_like(c))

    def mean(self) -> Doubles:
        """E[A], (B, N_a)."""
        return np.asarray(sum(share * a.exploration.mean(u, m) for share, a, u, m in self.parts))

    def median(self) -> Doubles:
        """The median of each channel, (B, N_a): in closed form for one behavior, else by bisection."""
        if len(self.parts) == 1:
            _, actor, u, m = self.parts[0]
            return actor.exploration.median(u, m)
        low, high = np.zeros_like(self.parts[0][2]), np.ones_like(self.parts[0][2])
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            below = sum(share * a.exploration.cdf(u, m, middle) for share, a, u, m in self.parts) < 0.5
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return 0.5 * (low + high)

    def _integral(self, c: Doubles) -> Doubles:
        return np.asarray(sum(share * a.exploration.cdf_integral(u, m, c) for share, a, u, m in self.parts))


def reference_returns(rollout: Rollout) -> tuple[float, float]:
    """Mean undiscounted return of an episode of random and of optimal actions.

    Exact for the optimum without shaping (T) and, up to the sampling of 10,000 pairs, for random actions
    without a kill threshold: their states stay uniform, and shaping adds nothing in expectation. Elsewhere
    the mean of one block of seeded episodes.
    """
    task = rollout.recipe.task
    if task.kill_threshold > 0:
        worst = _mean_return(rollout, Behavior(base="random"))
    else:
        states = probes.within(task.state_dim)
        actions = probes.within(task.action_dim, seed=probes.DEFAULT_SEED + 1)
        sme = rollout.sme
        worst = task.episode_length * float(sme.reward(sme.score(actions, sme.optimal_action(states))).mean())
    best = float(task.episode_length) if not task.shaping else _mean_return(rollout, Behavior(base="optimal"))
    return worst, best


def _mean_return(rollout: Rollout, behavior: Behavior) -> float:
    """Mean return over one block of episodes."""
    episodes = rows_per_block(rollout.recipe.task)
    recipe = replace(rollout.recipe, mix=(Component(behavior),), episodes=episodes)
    (block,) = Rollout.prepare(recipe).blocks(workers=1)
    paid = np.arange(block.rewards.shape[1]) < block.lengths[:, np.newaxis]
    return float((block.rewards * paid).sum(axis=1, dtype=np.float64).mean())
