"""True values of policies, measured by rolling them out in the task itself.

The value of a policy from one state is chaotic: two rollouts from starts that differ by rounding part within
some twenty steps. So the value of a state is the mean over starts perturbed by 1e-4, with its standard error, and
no critic can agree with such a mean better than the mean agrees with itself: `noise_ceiling`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from smeoffline.data.acting import Acting, Policy
from smeoffline.data.recipe import Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.streams import fresh_seeds
from smeoffline.score.ranks import row_correlations
from smeoffline.score.streams import CEILING, PERTURBATIONS, stream
from smeoffline.sme.arrays import Doubles, Floats
from smeoffline.sme.model import Sme
from smeoffline.sme.values import check_exact

ROLLOUTS = 64  # of each state and action
PERTURBATION = 1e-4
REST = 0.01  # discount^steps at which a rollout is cut; what is left is taken from the mean reward
LAST = 0.5  # share of a rollout's steps that this mean is taken over
CEILING_DRAWS = 500


@dataclass(frozen=True, eq=False)
class PolicyQ:
    """Q^pi of n states and actions.

    Attributes:
        mean: (n,) over the rollouts.
        standard_error: (n,) of the mean.
        rollouts: Of each.
        steps: Of each rollout.
        tail: What was added, on average, for the steps that were not rolled out.
    """

    mean: Doubles
    standard_error: Doubles
    rollouts: int
    steps: int
    tail: float


@dataclass(frozen=True)
class Measured:
    """A mean and its standard error.

    Attributes:
        value: The mean.
        standard_error: Of the mean; None for a single sample, which tells nothing of its own.
    """

    value: float
    standard_error: float | None

    @classmethod
    def of(cls, samples: Doubles) -> Measured:
        """The mean of independent samples (n,), n >= 1."""
        n = len(samples)
        error = float(samples.std(ddof=1)) / math.sqrt(n) if n > 1 else None
        return cls(float(samples.mean()), error)


def rollout_steps(discount: float) -> int:
    """Steps after which discount^steps is at most `REST`: 459 at 0.99."""
    return max(1, math.ceil(math.log(REST) / math.log(discount))) if discount > 0 else 1


def policy_q(
    sme: Sme,
    policy: Policy,
    states: Floats,
    actions: Floats,
    *,
    discount: float,
    seed: int,
    rollouts: int = ROLLOUTS,
    progress: Callable[[int, int], None] | None = None,
) -> PolicyQ:
    """Q^pi(s, a) at the start of an episode, where truncation is bootstrapped: the episode never ends.

    The time channel t/T rises to 1 and stays there, as for the last observation of an episode. A rollout is
    cut when discount^steps is 1%; the mean reward of the second half of all rollouts stands for the rest.

    Args:
        sme: The built task, of k = 1.
        policy: Deterministic; observations (B, N_s + 2) to actions (B, N_a) in [0, 1].
        states: (n, N_s) in the cube.
        actions: (n, N_a), taken in the first step.
        discount: In [0, 1).
        seed: Draws the perturbations.
        rollouts: Of each state, from starts perturbed by 1e-4 (and kept in the cube), >= 2.
        progress: Called with steps done and in all.

    Raises:
        SpecError: See `check_exact`.
    """
    task = sme.task
    check_exact(task, discount)
    n, steps = len(states), rollout_steps(discount)
    draw = stream(seed, PERTURBATIONS)
    noise = np.float32(PERTURBATION) * draw.standard_normal((n * rollouts, task.state_dim), dtype=np.float32)
    state = np.clip(np.repeat(states, rollouts, axis=0) + noise, 0, 1).astype(np.float32)
    action = np.repeat(actions, rollouts, axis=0)
    shaped = task.shaping * sme.potential(state).astype(np.float64) if task.shaping else 0.0
    total, alive = np.zeros(len(state)), np.ones(len(state), np.bool_)
    late, weight = [], 1.0
    for step in range(1, steps + 1):
        earned = sme.reward(sme.score(action, sme.optimal_action(state)))
        total += weight * np.where(alive, earned, 0)
        if step > LAST * steps and alive.any():
            late.append(float(earned[alive].mean(dtype=np.float64)))
        alive &= earned >= np.float32(task.kill_threshold)
        weight *= discount
        if progress is not None:
            progress(step, steps)
        if step == steps or not alive.any():
            break
        state = sme.step_states(state, action)
        action = policy(_observed(state, min(1.0, step / task.episode_length)))
    rest = weight / (1 - discount) * float(np.mean(late)) * alive if late else np.zeros(len(state))
    samples = (total + rest - shaped).reshape(n, rollouts)
    error = samples.std(axis=1, ddof=1) / math.sqrt(rollouts)
    return PolicyQ(samples.mean(axis=1), error, rollouts, steps, float(np.mean(rest)))


def _observed(states: Floats, time: float) -> Floats:
    """Observations of states (B, N_s) at t/T = time; with k = 1 nothing is ever accrued."""
    channels = np.zeros((len(states), 2), np.float32)
    channels[:, 0] = time
    return np.concatenate([states, channels], axis=1)


def noise_ceiling(means: Doubles, standard_errors: Doubles, seed: int) -> float:
    """The rank correlation that an oracle would reach with noisy means (n,) of standard errors (n,).

    The true values are not known, but how far they scatter is: the means' variance less that of their noise. So
    the means are drawn together to that scatter and taken for the truth, noise is added again, and the rank
    correlations between the two are averaged. 0 where noise explains all scatter.
    """
    variance = float(means.var(ddof=1)) if len(means) > 1 else 0.0
    spread = variance - float((standard_errors**2).mean())
    if spread <= 0:
        return 0.0
    truth = means.mean() + math.sqrt(spread / variance) * (means - means.mean())
    draw = stream(seed, CEILING)
    noisy = truth + standard_errors * draw.standard_normal((CEILING_DRAWS, len(truth)))
    return float(row_correlations(np.broadcast_to(truth, noisy.shape), noisy).mean())


def true_return(
    recipe: Recipe, sme: Sme, actor: Acting, *, horizon: int, discount: float, episodes: int, seed: int
) -> Measured:
    """Mean discounted return of the first `horizon` steps of fresh episodes, with what acts.

    Args:
        recipe: Whose task it is.
        sme: Its built task.
        actor: What acts.
        horizon: In [1, T].
        discount: In [0, 1].
        episodes: How many, >= 1; the same seed gives every actor the same starts and noise.
        seed: In [0, 2^32).
    """
    weights = discount ** np.arange(horizon)
    returns = []
    # One worker: a stranger's policy need not be safe to call from two threads.
    for block in Rollout(recipe, sme, (actor,)).blocks(workers=1, seeds=fresh_seeds(seed, episodes)):
        steps = np.arange(horizon)
        rewards = np.where(steps < block.lengths[:, np.newaxis], block.rewards[:, :horizon], 0)
        returns.append((rewards * weights).sum(axis=1, dtype=np.float64))
    return Measured.of(np.concatenate(returns))
