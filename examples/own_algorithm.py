"""Your own algorithm: cloning that weighs each action by how much more than the mean it earned.

sme-offline train sme/s8a4-c1-bias-nu0p3-probit0p3-v0 --algo examples.own_algorithm:train
"""

import torch
from torch import nn

from smeoffline.train.transitions import Transitions


def train(data: Transitions, *, seed: int, steps: int) -> nn.Module:
    """Make a policy of transitions; they also have next observations, terminals, timeouts and episodes."""
    draw = torch.Generator().manual_seed(seed)
    observations, actions, rewards = map(torch.from_numpy, (data.observations, data.actions, data.rewards))
    weights = torch.exp(5 * (rewards - rewards.mean())).unsqueeze(1)
    widths = observations.shape[1], 256, actions.shape[1]
    policy = nn.Sequential(nn.Linear(*widths[:2]), nn.ReLU(), nn.Linear(*widths[1:]), nn.Sigmoid())
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    for _ in range(steps):
        batch = torch.randint(len(rewards), (256,), generator=draw)
        loss = (weights[batch] * (policy(observations[batch]) - actions[batch]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return policy
