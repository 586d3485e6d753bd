"""The batched model: transition, optimal policy, score, reward and shaping potential of one task.

Parity: the same (N_s, N_a, C, seed) is the same task as in `sme-rl` 0.1.0, which draws its weights
from torch's CPU generator; a local generator with the same seed gives the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from smeoffline.sme import network
from smeoffline.sme.arrays import Bools, Floats, as_rows
from smeoffline.sme.blocks import map_rows, single_threaded
from smeoffline.sme.task import Task

REWARD_OFFSET = np.float32(0.75)  # scores below this earn nothing
REWARD_SLOPE = np.float32(4.0)


def triangle(x: Floats) -> Floats:
    """tri(x) = 1 - |1 - 2 (x mod 1)|: period 1, in [0, 1], slope +-2.

    The published code writes it `acos(cos(2 pi x)) / pi`: the same function, less exact near 0 and 1.
    """
    wrapped: Floats = np.float32(1) - np.abs(np.float32(1) - np.float32(2) * (x - np.floor(x)))
    return wrapped


def score(actions: Floats, optimal: Floats) -> Floats:
    """The paper's r~: 1 - mean_j |a_j - a*_j|, in [0, 1] for actions in [0, 1].

    Args:
        actions: (B, N_a).
        optimal: (B, N_a).

    Returns:
        (B,) float32.
    """
    # not np.mean, which takes a slower path over so short an axis
    distance = np.abs(actions - optimal)
    result: Floats = np.float32(1) - distance.sum(axis=-1, dtype=np.float32) / np.float32(distance.shape[-1])
    return result


def step_reward(scores: Floats, min_reward: float = 0.0) -> Floats:
    """r = max(0, 4 (score - 0.75)), and 0 unless r > min_reward (paper, reward definition).

    Args:
        scores: Any shape, in [0, 1].
        min_reward: The task's threshold, in [0, 1).

    Returns:
        The same shape, float32, in [0, 1].
    """
    raw = np.maximum(REWARD_SLOPE * (scores - REWARD_OFFSET), np.float32(0))
    return np.where(raw > np.float32(min_reward), raw, np.float32(0))


@dataclass(frozen=True, eq=False)
class Draws:
    """All that is random in a task.

    Attributes:
        initial_state: (N_s,) in [0, 1).
        weights: W, (N_a, N_s), rows >= 0 that sum to 1.
        bias: b, (N_s,) in [0, 1).
        layers: The optimal policy's matrices, (out, in), first to last.
        signs: (N_s,) of +-1.
    """

    initial_state: Floats
    weights: Floats
    bias: Floats
    layers: list[torch.Tensor]
    signs: Floats

    @classmethod
    def published(cls, task: Task) -> Draws:
        """From the task's seed, in the published order; signs, which are ours, come last."""
        generator = torch.Generator().manual_seed(task.seed)
        initial_state: Floats = torch.rand((1, task.state_dim), generator=generator)[0].numpy()
        weights = torch.rand((task.action_dim, task.state_dim), generator=generator)
        weights /= weights.sum(dim=1, keepdim=True)
        bias: Floats = torch.rand(task.state_dim, generator=generator).numpy()
        shapes = network.layer_shapes(task.state_dim, task.action_dim, task.complexity)
        layers = network.draw_layers(shapes, generator)
        coin = torch.rand(task.state_dim, generator=generator).numpy() < 0.5
        return cls(initial_state, weights.numpy(), bias, layers, _signs(coin))

    @classmethod
    def of_stream(cls, task: Task, stream: np.random.Generator) -> Draws:
        """From a numpy stream, in the same order and of the same distributions; the task's seed is not used."""
        initial_state = stream.random(task.state_dim, dtype=np.float32)
        weights = stream.random((task.action_dim, task.state_dim), dtype=np.float32)
        weights /= weights.sum(axis=1, keepdims=True)
        bias = stream.random(task.state_dim, dtype=np.float32)
        shapes = network.layer_shapes(task.state_dim, task.action_dim, task.complexity)
        layers = network.layers_of_stream(shapes, stream)
        return cls(initial_state, weights, bias, layers, _signs(stream.random(task.state_dim) < 0.5))


def _signs(coin: Bools) -> Floats:
    """-1 where a coin (N_s,) shows heads, else 1."""
    return np.where(coin, np.float32(-1), np.float32(1))


class Sme:
    """One built task. All methods are batched, numpy float32 in and out.

    Args:
        task: The spec.
        stream: Draws the task instead of its seed: one of 2^32 seeds can be found by trying all, a stream of
            128 secret bits cannot. None for the published task of that seed.

    Attributes:
        task: The spec this was drawn from.
        network: The optimal policy's layers.
        initial_state: (N_s,) the published package's fixed initial state (unused by resets).
        weights: W, (N_a, N_s), rows >= 0 that sum to 1.
        bias: b, (N_s,) in [0, 1).
        signs: (N_s,) of +-1, the shaping potential's.
    """

    def __init__(self, task: Task, stream: np.random.Generator | None = None) -> None:
        self.task = task
        # One thread: the QR behind the orthogonal draws may otherwise differ in its last bits.
        drawn = single_threaded(lambda: Draws.published(task) if stream is None else Draws.of_stream(task, stream))
        self.initial_state = drawn.initial_state
        self.weights = drawn.weights
        self.bias = drawn.bias
        self.signs = drawn.signs
        self.network = network.UniformNetwork(drawn.layers)

    def optimal_action(self, states: Floats) -> Floats:
        """a* = Phi(z*(s)).

        Args:
            states: (B, N_s) raw states; the cube [0, 1]^N_s, or beyond it, where the answer is the
                network's own extrapolation.

        Returns:
            (B, N_a) float32 in [0, 1].

        Raises:
            ValueError: Another shape.
        """
        rows = as_rows("states", states, self.task.state_dim)
        return map_rows(lambda x: network.phi(self.network.preactivation(x)), rows)

    def preactivation(self, states: Floats) -> Floats:
        """z*(s), (B, N_s) -> (B, N_a): the optimal action before its last Phi."""
        rows = as_rows("states", states, self.task.state_dim)
        return map_rows(self.network.preactivation, rows)

    def transition(self, states: Floats, actions: Floats) -> Floats:
        """s' = tri(s + b + a W).

        Args:
            states: (B, N_s).
            actions: (B, N_a).

        Returns:
            (B, N_s) float32 in [0, 1].

        Raises:
            ValueError: Another shape, or as many states as actions are not given.
        """
        states = as_rows("states", states, self.task.state_dim)
        actions = as_rows("actions", actions, self.task.action_dim)
        if len(states) != len(actions):
            raise ValueError(f"transition: expected one action a state, got {len(states)} and {len(actions)}")
        return self.step_states(states, actions)

    def step_states(self, states: Floats, actions: Floats) -> Floats:
        """`transition` without its checks, for loops that step it."""
        # As a sum over N_a in fixed order: a row's bits don't depend on the batch (a matrix product's do).
        shift = self.bias + actions[:, :1] * self.weights[0]
        for j in range(1, len(self.weights)):
            shift += actions[:, j : j + 1] * self.weights[j]
        return triangle(states + shift)

    def score(self, actions: Floats, optimal: Floats) -> Floats:
        """1 - mean_j |a_j - a*_j|: (B, N_a), (B, N_a) -> (B,) float32.

        Raises:
            ValueError: Another shape, or as many actions as optimal actions are not given.
        """
        actions = as_rows("actions", actions, self.task.action_dim)
        optimal = as_rows("optimal", optimal, self.task.action_dim)
        if len(actions) != len(optimal):
            raise ValueError(f"score: expected one optimum an action, got {len(actions)} and {len(optimal)}")
        return score(actions, optimal)

    def reward(self, scores: Floats) -> Floats:
        """Step reward in [0, 1] of scores (B,), before accrual, termination and shaping."""
        return step_reward(np.asarray(scores, dtype=np.float32), self.task.min_reward)

    def potential(self, states: Floats) -> Floats:
        """Psi(s) = sum_j sign_j cos(pi s_j): (B, N_s) -> (B,) float32, in [-N_s, N_s]."""
        rows = as_rows("states", states, self.task.state_dim)
        result: Floats = (np.cos(np.float32(np.pi) * rows) * self.signs).sum(axis=1, dtype=np.float32)
        return result
