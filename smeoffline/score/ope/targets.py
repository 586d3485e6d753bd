"""What off-policy evaluation evaluates: policies with noise around them, so that their actions have a density."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy import special

from smeoffline.data.acting import Acting, Actor, Policy, PolicyActor
from smeoffline.data.behavior import Behavior
from smeoffline.data.exploration import Exploration, NoExploration, Probit
from smeoffline.data.policy_file import load_policy
from smeoffline.data.rollout import Rollout
from smeoffline.errors import PolicyError, SpecError, nearest
from smeoffline.score.evaluate import CHUNK, checked_policy
from smeoffline.score.runs import check_fits
from smeoffline.sme.arrays import Doubles, Floats
from smeoffline.sme.blocks import single_threaded
from smeoffline.sme.model import Sme
from smeoffline.train.run_folder import find_run, open_run

WORDS = ("behavior", "optimal")
LEAST = 3e-8  # a float32 action nearer to 0 or 1 was rounded to it


class Noisy:
    """A policy with probit noise around what it means to do.

    Args:
        base: Who means it.
        sigma: Size of the noise; 0 for none.
    """

    def __init__(self, base: Acting, sigma: float) -> None:
        self.exploration: Exploration = Probit(sigma) if sigma > 0 else NoExploration(0.0)
        self._base = base

    def intend(self, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
        """See `Acting`."""
        return self._base.intend(observations, z)

    def intended(self, sme: Sme, observations: Floats) -> Floats:
        """What it means to do before Phi, at any number of observations: (B, N_s + 2) -> (B, N_a)."""
        parts = []
        for start in range(0, len(observations), CHUNK):
            rows = observations[start : start + CHUNK]
            if isinstance(self._base, PolicyActor):  # needs no z, and may use the blocks' threads itself
                parts.append(self.intend(rows, np.zeros((0, 0), np.float32))[0])
                continue
            z = sme.preactivation(rows[:, :-2])
            parts.append(single_threaded(lambda rows=rows, z=z: self.intend(rows, z)[0]))  # type: ignore[misc]
        return np.concatenate(parts)


@dataclass(frozen=True)
class Target:
    """A policy to evaluate.

    Attributes:
        name: As it was given.
        actor: Acts, with its noise.
    """

    name: str
    actor: Noisy


def find_target(target: str | Path | Policy, rollout: Rollout, sigma: float) -> Target:
    """A run, a policy's file, a callable, or one of `WORDS`, with noise of size sigma.

    Raises:
        PolicyError: No policy there, or none for this task.
        TrainingError: A run without a finished policy.
        SpecError: `behavior` where several act, or none that means anything.
    """
    recipe, sme = rollout.recipe, rollout.sme
    if callable(target):
        name = getattr(target, "__name__", type(target).__name__)
        return Target(name, Noisy(PolicyActor(checked_policy(target, recipe.task.action_dim)), sigma))
    name, path = str(target), Path(target)
    if name == "optimal":
        return Target(name, Noisy(Actor(Behavior(base="optimal"), sme, np.random.default_rng(0)), sigma))
    if name == "behavior":
        if len(recipe.mix) > 1 or recipe.mix[0].behavior.base == "random":
            what = f"{len(recipe.mix)} of them" if len(recipe.mix) > 1 else "a random one"
            raise SpecError(f"ope: 'behavior' expects data of a single behavior that means something, got {what}")
        return Target(name, Noisy(rollout.actors[0], sigma))
    if not path.exists():
        raise PolicyError(
            f"policy {name}: expected a run, an ONNX file, or one of {', '.join(WORDS)}, got nothing there"
            f"{nearest(name, WORDS)}"
        )
    policy = open_run(find_run(path))[1] if path.is_dir() else load_policy(path)
    check_fits(policy, recipe)
    return Target(name, Noisy(PolicyActor(checked_policy(policy, recipe.task.action_dim)), sigma))


def log_density(actions: Floats, intended: Floats, sigma: float) -> Doubles:
    """Log-density of actions under `Phi(u + sigma eps)`, summed over channels.

    With x = Phi^-1(a): `phi((x - u) / sigma) / (sigma phi(x))` a channel. A float32 action of 0 or 1 counts as the
    nearest that is not.

    Args:
        actions: (B, N_a) in [0, 1].
        intended: (B, N_a) u.
        sigma: > 0.

    Returns:
        (B,).
    """
    x = special.ndtri(np.clip(actions.astype(np.float64), LEAST, 1 - LEAST))
    per_channel = 0.5 * (x**2 - ((x - intended) / sigma) ** 2) - math.log(sigma)
    return np.asarray(per_channel.sum(axis=-1))
