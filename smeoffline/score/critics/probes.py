"""States and actions at which critics are asked: in the data, near them, and beyond.

| probes | states | actions |
|---|---|---|
| data | that the behavior visits, in fresh episodes | what it did there |
| uniform | uniform in the cube, at the start of an episode | ten a state, from the intended one to a random one |
| policy | as uniform | the policy's own |
| ood | outside the cube | as uniform |
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from smeoffline.data.acting import Policy, intend_at
from smeoffline.data.rollout import Rollout
from smeoffline.data.streams import fresh_seeds
from smeoffline.score.evaluate import EPISODES, act_at, at_start
from smeoffline.score.streams import CRITIC_ACTIONS, CRITIC_STEPS, stream
from smeoffline.sme import probes
from smeoffline.sme.arrays import Floats

ACTIONS = 10  # of one state


@dataclass(frozen=True, eq=False)
class CriticProbes:
    """n observations and actions.

    Attributes:
        name: `data`, `uniform`, `policy` or `ood`.
        observations: (n, N_s + 2).
        actions: (n, N_a) in [0, 1].
        per_state: Actions of one state, next to each other.
        distances: (n,) how far each action is from the nearest that a behavior intends there, as the mean over
            channels of |difference|; None where nobody measures it.
    """

    name: str
    observations: Floats
    actions: Floats
    per_state: int = 1
    distances: Floats | None = None


def critic_probes(rollout: Rollout, policy: Policy, n: int, seed: int) -> tuple[CriticProbes, ...]:
    """The four kinds of probes, about n of each.

    Args:
        rollout: The dataset's recipe, prepared.
        policy: Whose actions `policy` has.
        n: Of each kind, >= 1; rounded down to tens (but not to 0) where a state has ten actions, and for `data` at
            most the steps of 100 episodes.
        seed: In [0, 2^32).
    """
    width, several = rollout.recipe.task.state_dim, max(1, n // ACTIONS)
    states = probes.within(width, n, seed)
    shell = probes.out_of_distribution(width, several, seed)
    return (
        _visited(rollout, n, seed),
        _towards_random(rollout, "uniform", states[:several], seed),
        CriticProbes("policy", at_start(states), act_at(policy, states)),
        _towards_random(rollout, "ood", shell.states, seed),
    )


def _visited(rollout: Rollout, n: int, seed: int) -> CriticProbes:
    """Steps of fresh episodes of the behavior."""
    observations, actions = [], []
    for block in rollout.blocks(workers=1, seeds=fresh_seeds(seed, EPISODES)):
        inside = np.arange(block.rewards.shape[1]) < block.lengths[:, np.newaxis]
        observations.append(block.observations[:, :-1][inside])
        actions.append(block.actions[inside])
    seen, done = np.concatenate(observations), np.concatenate(actions)
    chosen = np.sort(stream(seed, CRITIC_STEPS).permutation(len(seen))[:n])
    return CriticProbes("data", seen[chosen], done[chosen])


def _towards_random(rollout: Rollout, name: str, states: Floats, seed: int) -> CriticProbes:
    """Ten actions a state, `m + x (c - m)` with m what a behavior intends, c and x uniform."""
    draw = stream(seed, CRITIC_ACTIONS)
    z = rollout.sme.preactivation(states)
    intended = np.stack([intend_at(actor, states, z)[1] for actor in rollout.actors])
    shape = (len(states), ACTIONS, z.shape[1])
    centers = intended[draw.integers(0, len(intended), size=shape[:2]), np.arange(len(states))[:, np.newaxis]]
    actions = centers + draw.random((*shape[:2], 1), dtype=np.float32) * (draw.random(shape, np.float32) - centers)
    actions = np.clip(actions, 0, 1)
    distances = np.abs(actions - intended[:, :, np.newaxis]).mean(axis=-1).min(axis=0)
    observations = np.repeat(at_start(states), ACTIONS, axis=0)
    return CriticProbes(name, observations, actions.reshape(-1, shape[2]), ACTIONS, distances.reshape(-1))
