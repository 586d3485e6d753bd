"""Behavior cloning with the sizes that d3rlpy's has, in torch alone, so that it can be verified.

sme-offline leaderboard verify examples.cloning:train --name BC --salt-file salt --trust
"""

import torch
from torch import nn

from smeoffline.train.transitions import Transitions


def train(data: Transitions, *, seed: int, steps: int) -> nn.Module:
    """Regress actions on observations: batches of 100, two hidden layers of 256, Adam with 0.001."""
    draw = torch.Generator().manual_seed(seed)  # torch's own is seeded too: it draws the first weights
    observations, actions = torch.from_numpy(data.observations), torch.from_numpy(data.actions)
    hidden = [nn.Linear(observations.shape[1], 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU()]
    policy = nn.Sequential(*hidden, nn.Linear(256, actions.shape[1]), nn.Sigmoid())
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(steps):
        batch = torch.randint(len(actions), (100,), generator=draw)
        loss = nn.functional.mse_loss(policy(observations[batch]), actions[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy
