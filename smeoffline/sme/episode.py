"""What a step pays and when an episode ends: one implementation for the environments and the rollout.

Two quirks of the published package are kept and documented: the accrued-reward channel lags one step
(so for k > 1 the observation is not Markov), and what is accrued is lost when an episode is killed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smeoffline.sme.arrays import Bools, Floats, Ints
from smeoffline.sme.model import Sme
from smeoffline.sme.task import Task


@dataclass(frozen=True)
class Progress:
    """Where each of n episodes stands.

    Attributes:
        step: (n,) int64, steps taken.
        accrued: (n,) float32, reward accrued and not yet paid.
    """

    step: Ints
    accrued: Floats

    @classmethod
    def start(cls, n: int) -> Progress:
        """n episodes before their first step."""
        return cls(np.zeros(n, np.int64), np.zeros(n, np.float32))


@dataclass(frozen=True)
class Outcome:
    """What one step of n episodes gave.

    Attributes:
        rewards: (n,) float32, what the step paid.
        terminations: (n,) bool.
        truncations: (n,) bool.
        channels: (n, 2) float32 in [0, 1]: t/T and the lagged accrued reward over k, of the next observation.
        progress: Where the episodes stand now.
    """

    rewards: Floats
    terminations: Bools
    truncations: Bools
    channels: Floats
    progress: Progress


def advance(task: Task, progress: Progress, earned: Floats) -> Outcome:
    """Accrue, pay, terminate and truncate by k, D and T; shaping left out.

    Args:
        task: Has k, D and T.
        progress: Of n episodes.
        earned: (n,) step rewards in [0, 1].
    """
    step = progress.step + 1
    channels = np.empty((len(step), 2), np.float32)
    channels[:, 0] = step / task.episode_length
    channels[:, 1] = progress.accrued / np.float32(task.reward_every)
    accrued = progress.accrued + earned
    truncations = step >= task.episode_length
    pays = truncations | (step % task.reward_every == 0)
    return Outcome(
        rewards=np.where(pays, accrued, np.float32(0)),
        terminations=earned < np.float32(task.kill_threshold),
        truncations=truncations,
        channels=channels,
        progress=Progress(step, np.where(pays, np.float32(0), accrued)),
    )


def shaping_reward(sme: Sme, states: Floats, next_states: Floats, terminations: Bools) -> Floats:
    """L (g Psi(s') - Psi(s)), with Psi(terminal) = 0; paid at once whatever k is.

    A truncated episode's last state is not terminal: it keeps its potential, since learners bootstrap
    there. Potential-based (Ng, Harada and Russell 1999), so the optimum and every regret stay exact.

    Args:
        sme: The built task (its `shaping` and `discount`).
        states: (n, N_s).
        next_states: (n, N_s).
        terminations: (n,) bool.

    Returns:
        (n,) float32.
    """
    task = sme.task
    after = np.where(terminations, np.float32(0), sme.potential(next_states))
    difference = np.float32(task.discount) * after - sme.potential(states)
    result: Floats = np.float32(task.shaping) * difference
    return result


def observe(states: Floats, channels: Floats) -> Floats:
    """Observations (n, N_s + 2): the state, then the two bookkeeping channels."""
    return np.concatenate([states, channels], axis=1)
