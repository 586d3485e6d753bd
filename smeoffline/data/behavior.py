"""A behavior is a base policy (systematic error of size nu) plus exploration (fresh noise of size sigma)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from scipy import special

from smeoffline.data.exploration import EXPLORATIONS, Exploration, NoExploration, UniformAction, check_sigma, phi
from smeoffline.errors import SpecError, nearest
from smeoffline.sme.arrays import Floats
from smeoffline.sme.blocks import map_rows
from smeoffline.sme.model import Sme
from smeoffline.sme.network import UniformNetwork
from smeoffline.sme.task import known_keys, real_number

BASES = ("bias", "weights", "optimal", "random")
WITHOUT_NU = ("optimal", "random")
MAX_NOISE = 1000.0


@dataclass(frozen=True)
class Behavior:
    """What acts while a dataset is collected (design section 2).

    Attributes:
        base: `bias`, Phi(z*(s) + nu xi) with one offset xi ~ N(0, 1) per dataset and channel;
            `weights`, all weights + nu rms(layer) N(0, 1), drawn once; `optimal`, a*; `random`, uniform.
        nu: Size of the base's systematic error, >= 0; 0 for `optimal` and `random`.
        explore: `none`, `probit`, `gaussian`, `uniform` or `ou`; None is `probit` if sigma > 0, else `none`.
        sigma: Size of the exploration, >= 0; at 0 every kind is `none` and is stored as such.

    Raises:
        SpecError: An unknown name (with the nearest), a size that is negative, not finite or without effect.
    """

    base: str = "bias"
    nu: float = 0.0
    explore: str | None = None
    sigma: float = 0.0

    def __post_init__(self) -> None:
        """Validate and normalize, so that behaviors that act alike compare equal."""
        if self.base not in BASES:
            raise SpecError(
                f"behavior: base must be one of {', '.join(BASES)}, got {self.base!r}{nearest(str(self.base), BASES)}"
            )
        for name in ("nu", "sigma"):
            value = real_number("behavior", name, getattr(self, name), 0.0, MAX_NOISE)
            object.__setattr__(self, name, value + 0.0)
        if self.base in WITHOUT_NU and self.nu > 0:
            raise SpecError(f"behavior: nu has no effect with base {self.base!r}, got {self.nu:g}; leave it out")
        if self.base == "random" and (self.sigma > 0 or self.explore not in (None, "none")):
            raise SpecError("behavior: base 'random' takes no explore or sigma; leave them out")
        explore = self.explore if self.explore is not None else ("probit" if self.sigma > 0 else "none")
        if explore not in tuple(EXPLORATIONS):  # a tuple, as a list read from a file can't be hashed
            raise SpecError(
                f"behavior: explore must be one of {', '.join(EXPLORATIONS)}, got {explore!r}"
                f"{nearest(str(explore), EXPLORATIONS)}"
            )
        check_sigma(explore, self.sigma)
        object.__setattr__(self, "explore", explore if self.sigma > 0 else "none")

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; `Behavior.from_dict` is the inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Behavior:
        """A behavior from a mapping of its fields; those left out take their defaults.

        Raises:
            SpecError: An unknown key (with the nearest known one) or a bad value.
        """
        known_keys("behavior", fields, [f.name for f in dataclasses.fields(cls)])
        return cls(**fields)

    def exploration(self) -> Exploration:
        """Its exploration, with size."""
        if self.base == "random":
            return UniformAction(0.0)
        assert self.explore is not None  # normalized by __post_init__
        return EXPLORATIONS[self.explore](self.sigma)


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
        if behavior.base == "bias":
            xi = stream.standard_normal(sme.task.action_dim, dtype=np.float32)
            self._offset = np.float32(behavior.nu) * xi
        elif behavior.base == "weights":
            self._network = perturbed(sme.network, behavior.nu, stream)

    def intend(self, observations: Floats, z: Floats) -> tuple[Floats, Floats]:
        """See `Acting`."""
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
        """See `Acting`; the pre-activation of an action at the bounds is cut at +-5.2."""
        m = np.asarray(self._policy(observations), dtype=np.float32)
        return special.ndtri(np.clip(m, np.float32(1e-7), np.float32(1 - 1e-7))), m


def intend_at(actor: Acting, states: Floats, z: Floats) -> tuple[Floats, Floats]:
    """`intend` for any number of states (B, N_s), bookkeeping channels 0, in padded blocks."""
    width = z.shape[1]
    rows = np.concatenate([states, np.zeros((len(states), 2), np.float32), z], axis=1)

    def block(part: torch.Tensor) -> torch.Tensor:
        array = part.numpy()
        return torch.from_numpy(np.concatenate(actor.intend(array[:, :-width], array[:, -width:]), axis=1))

    both = map_rows(block, rows)
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
