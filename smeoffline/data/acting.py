"""A behavior bound to a task, ready to act: its systematic error is drawn here, once per dataset."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from scipy import special

from smeoffline.data.behavior import Behavior, file_sha256
from smeoffline.data.exploration import Exploration, NoExploration, phi
from smeoffline.errors import PolicyError
from smeoffline.sme.arrays import Floats
from smeoffline.sme.blocks import map_rows
from smeoffline.sme.model import Sme
from smeoffline.sme.network import UniformNetwork

Policy = Callable[[Floats], Floats]
"""Observations (B, N_s + 2) float32 to actions (B, N_a) float32 in [0, 1]."""


class Acting(Protocol):
    """What a rollout needs of whatever acts."""

    exploration: Exploration

    def intend(self, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
        """What it means to do, for one block of rows.

        Args:
            observations: (n, N_s + 2).
            z: (n, N_a) pre-activation of the optimal action there.

        Returns:
            u and m = Phi(u), both (n, N_a) float32.
        """


class Actor:
    """A behavior bound to a task: its systematic error is drawn, it can act.

    Args:
        behavior: The spec.
        sme: The built task.
        stream: Draws what is drawn once per dataset (the offsets xi, the weight errors).
    """

    def __init__(self, behavior: Behavior, sme: Sme, stream: np.random.Generator) -> None:
        self.behavior = behavior
        self.exploration = behavior.exploration()
        self._offset = np.zeros(sme.task.action_dim, np.float32)
        self._network: UniformNetwork | None = None
        self._policy: Policy | None = None
        if behavior.base == "bias":
            xi = stream.standard_normal(sme.task.action_dim, dtype=np.float32)
            self._offset = np.float32(behavior.nu) * xi
        elif behavior.base == "policy":
            self._policy = _policy_of(behavior, sme)
        elif behavior.base == "weights":
            self._network = perturbed(sme.network, behavior.nu, stream)

    def intend(self, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
        """See `Acting`."""
        if self._policy is not None:
            return intend_action(self._policy(observations))
        u = self._preactivation(observations, z)
        return u, phi(u)

    def _preactivation(self, observations: Floats, z: Floats) -> Floats:
        if self.behavior.base == "random":
            return np.zeros_like(z)
        if self._network is None:
            return z + self._offset
        states = np.ascontiguousarray(observations[:, :-2])
        return self._network.preactivation(torch.from_numpy(states)).numpy()


class PolicyActor:
    """A policy bound to act by itself, without exploration.

    Args:
        policy: Observations to actions.
    """

    def __init__(self, policy: Policy) -> None:
        self.exploration: Exploration = NoExploration(0.0)
        self._policy = policy

    def intend(self, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
        """See `Acting`."""
        return intend_action(self._policy(observations))


def intend_action(m: Floats) -> tuple[Floats, Floats]:
    """u = Phi^-1(m), cut at +-5.2 where m is at a bound, and m: (n, N_a) float32 both."""
    m = np.asarray(m, dtype=np.float32)
    return special.ndtri(np.clip(m, np.float32(1e-7), np.float32(1 - 1e-7))), m


def _policy_of(behavior: Behavior, sme: Sme) -> Policy:
    """Load the file of base `policy`, and see that it is the one that was meant.

    Raises:
        PolicyError: It can't be loaded, has other dimensions, or its hash is another.
    """
    from smeoffline.data.policy_file import load_policy  # onnxruntime: only where it is needed

    path = Path(str(behavior.policy))  # never None: Behavior settled it
    found = file_sha256(path)
    if found != behavior.policy_sha256:
        raise PolicyError(
            f"policy {path}: expected the file of hash {behavior.policy_sha256}, got {found}; "
            "it changed since the behavior was described"
        )
    task = sme.task
    return load_policy(path, observation_dim=task.state_dim + 2, action_dim=task.action_dim)


def intend_at(actor: Acting, states: Floats, z: Floats) -> tuple[Floats, Floats]:
    """`intend` for any number of states (B, N_s), bookkeeping channels 0, in padded blocks."""
    return intend_rows(actor, np.concatenate([states, np.zeros((len(states), 2), np.float32)], axis=1), z)


def intend_rows(actor: Acting, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
    """`intend` for any number of observations (B, N_s + 2), in padded blocks."""
    width = z.shape[1]

    def block(part: torch.Tensor) -> torch.Tensor:
        array = part.numpy()
        return torch.from_numpy(np.concatenate(actor.intend(array[:, :-width], array[:, -width:]), axis=1))

    both = map_rows(block, np.concatenate([observations, z], axis=1))
    return both[:, :width], both[:, width:]


def perturbed(network: UniformNetwork, nu: float, stream: np.random.Generator) -> UniformNetwork:
    """The network with nu rms(layer) N(0, 1) added to every weight."""
    layers = []
    for layer in network.layers:
        # not torch's mean: the last bits of its sum depend on how many threads the caller's process uses
        rms = math.sqrt(np.square(layer.numpy(), dtype=np.float64).mean())
        error = torch.from_numpy(stream.standard_normal(tuple(layer.shape), dtype=np.float32))
        layers.append(layer + nu * rms * error)
    return UniformNetwork(layers)
