"""Exact values of the optimum.

For k = 1 the optimum earns 1 in every state, so its value depends on the time left alone, and the
advantage of an action is its step reward minus 1. Shaping subtracts L Psi(s) and changes no advantage.
What learners that bootstrap at truncation should find is `optimal_q`, at their own discount.
"""

from __future__ import annotations

import numpy as np

from smeoffline.errors import SpecError
from smeoffline.sme.arrays import Doubles, Floats, Ints, as_rows
from smeoffline.sme.model import Sme
from smeoffline.sme.task import Task


def optimal_value(sme: Sme, states: Floats, steps: Ints | None = None) -> Doubles:
    """V*(s), or V*(s, t).

    Args:
        sme: The built task; its `discount` is g.
        states: (B, N_s).
        steps: (B,) steps already taken, in [0, T], for the value of the rest of the episode,
            `(1 - g^(T-t)) / (1 - g)`; None where truncation is bootstrapped, `1 / (1 - g)`.

    Returns:
        (B,) float64.

    Raises:
        SpecError: k > 1, where the observation is not Markov; `steps` together with shaping, which keeps
            the optimum exact only where truncation is bootstrapped; or steps that are not in [0, T].
        ValueError: States or steps have another shape.
    """
    task = sme.task
    if task.reward_every != 1:
        raise SpecError(
            f"optimal_value: expected reward_every 1 (the observation is not Markov beyond), got {task.reward_every}"
        )
    states = as_rows("states", states, task.state_dim)
    if steps is None:
        value = np.full(len(states), 1 / (1 - task.discount))
        return value - task.shaping * sme.potential(states).astype(np.float64) if task.shaping else value
    if task.shaping:
        raise SpecError("optimal_value: with shaping give no steps: its values are exact only with bootstrapping")
    taken = np.asarray(steps)
    if taken.shape != (len(states),):
        raise ValueError(f"optimal_value: expected steps of shape ({len(states)},), got {taken.shape}")
    if taken.dtype.kind not in "iu" or np.any(taken < 0) or np.any(taken > task.episode_length):
        raise SpecError(f"optimal_value: steps must be whole numbers in [0, {task.episode_length}]")
    left = task.episode_length - taken.astype(np.int64)
    return np.asarray((1 - task.discount**left) / (1 - task.discount), dtype=np.float64)


def optimal_advantage(sme: Sme, states: Floats, actions: Floats) -> Doubles:
    """A*(s, a) = r(s, a) - 1, for k = 1 and no kill threshold: (B, N_s), (B, N_a) -> (B,) float64 in [-1, 0].

    Raises:
        SpecError: k > 1, or D > 0, where a killed episode loses all that was to come.
        ValueError: States or actions have another shape.
    """
    task = sme.task
    if task.reward_every != 1 or task.kill_threshold > 0:
        raise SpecError(
            "optimal_advantage: expected reward_every 1 and kill_threshold 0, "
            f"got {task.reward_every} and {task.kill_threshold:g}"
        )
    earned = sme.reward(sme.score(actions, sme.optimal_action(states)))
    return earned.astype(np.float64) - 1.0


def check_exact(task: Task, discount: float) -> None:
    """Refuse a task and a learner's discount for which Q* is not known.

    Raises:
        SpecError: k > 1, a discount of 1, or shaping at another discount than the task's.
    """
    if task.reward_every != 1:
        raise SpecError(
            f"optimal values: expected reward_every 1 (the observation is not Markov beyond), got {task.reward_every}; "
            "no critic can be compared on this dataset"
        )
    if not 0 <= discount < 1:
        raise SpecError(f"optimal values: expected a discount in [0, 1) (values are infinite at 1), got {discount:g}")
    if task.shaping and discount != task.discount:
        raise SpecError(
            f"optimal values: with shaping they are known only at the task's discount {task.discount:g}, "
            f"got a critic trained at {discount:g}"
        )


def optimal_q(sme: Sme, states: Floats, actions: Floats, discount: float) -> Doubles:
    """Q*(s, a) where truncation is bootstrapped: what a learner of this discount g should find.

    `r(s, a) + g / (1 - g)`, without the second term where r < D ends the episode; shaping subtracts L Psi(s).

    Args:
        sme: The built task.
        states: (B, N_s).
        actions: (B, N_a) in [0, 1].
        discount: The learner's g, in [0, 1).

    Returns:
        (B,) float64.

    Raises:
        SpecError: See `check_exact`.
        ValueError: States or actions have another shape.
    """
    task = sme.task
    check_exact(task, discount)
    earned = sme.reward(sme.score(actions, sme.optimal_action(states)))
    goes_on = earned >= np.float32(task.kill_threshold)
    value = earned.astype(np.float64) + goes_on * (discount / (1 - discount))
    return value - task.shaping * sme.potential(states).astype(np.float64) if task.shaping else value
