"""Batches gathered by index from flat tensors, in the form of d3rlpy's mini-batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import TrainingError
from smeoffline.train.algorithms import Algorithm, Setting
from smeoffline.train.transitions import Transitions, next_actions, returns_to_go

DEVICE = "cpu:0"


class Batches:
    """A dataset as d3rlpy's networks want it: actions in [-1, 1], nothing fitted to the data.

    Args:
        data: All transitions; N of them are used.
        box: Their action space.
        algorithm: Says what else it needs of each.
        hyperparameters: All of the algorithm's.
        batch_class: d3rlpy's `TorchMiniBatch`.

    Attributes:
        observations: (N, D).
        actions: (N, A) in [-1, 1].

    Raises:
        TrainingError: None of the transitions can be used.
    """

    def __init__(
        self,
        data: Transitions,
        box: ActionBox,
        algorithm: Algorithm,
        hyperparameters: Mapping[str, Setting],
        batch_class: Callable[..., Any],
    ) -> None:
        usable = ~data.timeouts if algorithm.needs_next_actions else np.ones(len(data), np.bool_)
        if not usable.any():
            rows = "transitions whose next action is stored" if algorithm.needs_next_actions else "transitions"
            raise TrainingError(f"{algorithm.name}: expected {rows} in the dataset, got none")
        self._returns = self._next_actions = None
        if algorithm.needs_returns:  # of all rows first: each looks at those below it
            self._returns = _column(returns_to_go(data, cast(float, hyperparameters["gamma"]))[usable])
        if algorithm.needs_next_actions:
            self._next_actions = _column(box.to_unit_interval(next_actions(data)[usable]))
            data = data.select(usable)
        self.observations = _column(data.observations)
        self.actions = _column(box.to_unit_interval(data.actions))
        self._following = _column(data.next_observations)
        self._rewards, self._terminals = _column(data.rewards), _column(data.terminals)
        self._batch_class = batch_class

    def __len__(self) -> int:
        """N."""
        return len(self.observations)

    def gather(self, index: Tensor) -> Any:
        """The batch of rows (B,) int64."""
        rewards, actions = self._rewards[index], self.actions[index]
        return self._batch_class(
            observations=self.observations[index],
            actions=actions,
            rewards=rewards,
            next_observations=self._following[index],
            next_actions=torch.zeros_like(actions) if self._next_actions is None else self._next_actions[index],
            returns_to_go=torch.zeros_like(rewards) if self._returns is None else self._returns[index],
            terminals=self._terminals[index],
            intervals=torch.ones_like(rewards),
            device=DEVICE,
        )


def _column(values: Any) -> Tensor:
    """Values (N,) or (N, width) as (N, width) float32, copied only where torch can't use them as they are."""
    return torch.from_numpy(np.require(values, np.float32, ["C", "W"]).reshape(len(values), -1))
