"""Fitted Q evaluation (Le, Voloshin & Yue 2019) by d3rlpy's implementation, on our gathered batches.

The policy is fixed, so what it means to do at every next observation is computed once, and only its noise is
fresh in each batch. The horizon is finite: the time is in the observation, and nothing follows an episode's end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smeoffline.data.action_box import ActionBox
from smeoffline.data.exploration import Exploration, phi
from smeoffline.errors import TrainingError
from smeoffline.sme.arrays import Floats
from smeoffline.train.algorithms import Algorithm
from smeoffline.train.batches import DEVICE, Batches
from smeoffline.train.fast_path import take_fast_path
from smeoffline.train.trainer import TorchStream, d3rlpy, one_thread
from smeoffline.train.transitions import Transitions

DEFAULT_STEPS = 10_000
# d3rlpy's defaults (1e-4, 100, 100) are too slow for a horizon of 100: each copy of the target carries values
# one step back.
LEARNING_RATE, BATCH_SIZE, TARGET_EVERY = 1e-3, 256, 50
REPORT_EVERY = 100
_FQE = Algorithm("fqe", "FQEConfig")

Q = Callable[[Floats, Floats], Floats]
"""Observations (B, D) and actions (B, A) in the box to values (B,)."""


class _Fixed:
    """The policy to d3rlpy: answers what was computed for the batch at hand."""

    impl: Any
    actions: Tensor

    def __init__(self) -> None:
        self.impl = self

    def predict_best_action(self, observations: Tensor) -> Tensor:
        """(B, A) in [-1, 1]."""
        del observations
        return self.actions


def fit_q(
    data: Transitions,
    intended: Floats,
    exploration: Exploration,
    *,
    discount: float,
    steps: int = DEFAULT_STEPS,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Q:
    """Fit Q^pi of a policy to transitions; with discount 0, the mean reward of an action.

    Args:
        data: N transitions; nothing follows a row that ends an episode, cut or not.
        intended: (N, A) what the policy means to do at the next observations, before Phi.
        exploration: Its noise around that.
        discount: In [0, 1].
        steps: Updates.
        seed: Draws weights, batches and the policy's noise.
        progress: Called every `REPORT_EVERY` updates with how many were made, and how many there will be.

    Returns:
        The fitted Q.

    Raises:
        TrainingError: It diverged.
    """
    box = ActionBox.unit(data.actions.shape[1])
    ended = replace(data, terminals=data.ends, timeouts=np.zeros_like(data.ends))
    batches = Batches(ended, box, _FQE, {}, d3rlpy().TorchMiniBatch)
    policy, stream = _Fixed(), TorchStream(seed)
    config = d3rlpy().ope.FQEConfig(
        gamma=discount, learning_rate=LEARNING_RATE, batch_size=BATCH_SIZE, target_update_interval=TARGET_EVERY
    )
    fqe = d3rlpy().ope.FQE(algo=policy, config=config, device=DEVICE)
    draw = np.random.default_rng(seed)
    middle = phi(intended)
    with stream.use():
        fqe.create_impl((data.observations.shape[1],), len(box.low))
        take_fast_path(fqe.impl)
        for step in range(steps):
            index = draw.integers(len(batches), size=BATCH_SIZE)
            noise = exploration.draw(draw, len(index), len(box.low))
            action = exploration.act(intended[index], middle[index], noise)
            policy.actions = torch.from_numpy(box.to_unit_interval(action))
            loss = fqe.impl.update(batches.gather(torch.from_numpy(index)), step)["loss"]
            if not np.isfinite(loss):
                raise TrainingError(f"fitted Q evaluation: diverged after step {step}; estimate by other methods")
            if progress is not None and (step + 1) % REPORT_EVERY == 0:
                progress(step + 1, steps)
    critics = fqe.impl.modules.q_funcs

    def q(observations: Floats, actions: Floats) -> Floats:
        x, a = torch.from_numpy(observations), torch.from_numpy(box.to_unit_interval(actions))
        with one_thread(), torch.no_grad():
            values: Floats = critics[0](x, a).q_value[:, 0].numpy()
        return values

    return q
