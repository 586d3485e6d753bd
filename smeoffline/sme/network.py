"""The optimal policy: C layers that keep uniform inputs nearly uniform (paper, section on the SME's policy).

A layer is `Phi(W (x - 1/2))`, Phi the standard normal CDF, W orthogonal times sqrt(12). With
`e = erf(.)` carried between layers, x - 1/2 = e/2, so the next pre-activation is `W e / 2`: no bias.
"""

from __future__ import annotations

import math
import threading

import numpy as np
import torch
from torch import Tensor

from smeoffline.sme.arrays import Doubles

SQRT_HALF = math.sqrt(0.5)
HIDDEN_WIDTH = 128

_scratch = threading.local()


def layer_shapes(state_dim: int, action_dim: int, complexity: int) -> list[tuple[int, int]]:
    """(rows, columns) of each layer's W, first to last; the last one alone has `action_dim` rows."""
    hidden = max(state_dim, action_dim, HIDDEN_WIDTH)
    widths = [state_dim] + [hidden] * (complexity - 1) + [action_dim]
    return [(widths[i + 1], widths[i]) for i in range(complexity)]


def draw_layers(shapes: list[tuple[int, int]], generator: torch.Generator) -> list[Tensor]:
    """Orthogonal matrices times sqrt(12), in the published package's order of draws."""
    return [torch.nn.init.orthogonal_(torch.empty(shape), generator=generator) * math.sqrt(12) for shape in shapes]


def layers_of_stream(shapes: list[tuple[int, int]], stream: np.random.Generator) -> list[Tensor]:
    """Orthogonal matrices times sqrt(12), uniformly distributed like those of `draw_layers`, from a numpy stream."""
    return [torch.from_numpy((_orthogonal(shape, stream) * math.sqrt(12)).astype(np.float32)) for shape in shapes]


def _orthogonal(shape: tuple[int, int], stream: np.random.Generator) -> Doubles:
    """A (rows, columns) matrix whose shorter side's vectors are orthonormal, uniform (Mezzadri 2007, section 5)."""
    rows, columns = shape
    normal = stream.standard_normal((max(shape), min(shape)))
    q, r = np.linalg.qr(normal)
    q *= np.where(np.diag(r) < 0, -1.0, 1.0)
    return np.ascontiguousarray(q if rows >= columns else q.T)


def phi(z: Tensor) -> Tensor:
    """Standard normal CDF, float32, as the published code computes it."""
    return torch.erf(z * SQRT_HALF).add_(1.0).mul_(0.5)


class UniformNetwork:
    """A stack of uniform layers that returns the last layer's pre-activation.

    Args:
        layers: The matrices W, (out, in) float32, first to last.
    """

    def __init__(self, layers: list[Tensor]) -> None:
        self.layers = layers
        # The scale between layers (1/2 of e, 1/sqrt 2 of erf's argument) is folded into the weights once.
        last = len(layers) - 1
        scales = [(1.0 if i == 0 else 0.5) * (1.0 if i == last else SQRT_HALF) for i in range(len(layers))]
        self._folded = [(w * s).T for w, s in zip(layers, scales, strict=True)]

    def preactivation(self, states: Tensor) -> Tensor:
        """z of the last layer for states (n, N_s) -> (n, N_a); Phi(z) is the action."""
        if len(self._folded) == 1:
            return torch.mm(states - 0.5, self._folded[0])
        here, there = _buffers(len(states), self._folded[0].shape[1])
        torch.mm(states - 0.5, self._folded[0], out=here)
        for weight in self._folded[1:-1]:
            torch.mm(here.erf_(), weight, out=there)
            here, there = there, here
        return torch.mm(here.erf_(), self._folded[-1])


def _buffers(rows: int, width: int) -> tuple[Tensor, Tensor]:
    """Two work arrays of this thread: allocating 128 KiB a layer would cost a page fault each."""
    kept: dict[tuple[int, int], tuple[Tensor, Tensor]] = _scratch.__dict__.setdefault("kept", {})
    key = (rows, width)
    if key not in kept:
        if len(kept) > 8:
            kept.clear()
        kept[key] = (torch.empty(key), torch.empty(key))
    return kept[key]
