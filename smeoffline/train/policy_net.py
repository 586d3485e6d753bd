"""A trained algorithm's greedy policy as one torch module, fit to be exported.

d3rlpy's networks speak [-1, 1]; `Bounded` scales to the action space and cuts what lies beyond (a VAE's
decoder is not squashed). Three algorithms sample inside `predict`. Their noise is drawn once here and kept
as a constant, the same for every observation, so that the policy is a function.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from smeoffline.data.action_box import ActionBox
from smeoffline.train.algorithms import Algorithm

LATENT_BOUND = 0.5  # where d3rlpy cuts the latents it decodes


class Bounded(nn.Module):
    """Scale (B, A) actions from [-1, 1] to the action space, and cut what lies outside.

    Attributes:
        noise: How the frozen noise was drawn, as JSON values; None where the policy has none.
    """

    low: Tensor
    width: Tensor

    def __init__(self, inner: nn.Module, box: ActionBox, noise: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.inner = inner
        self.noise = noise
        self.unit = box == ActionBox.unit(len(box.low))
        self.register_buffer("low", torch.tensor(box.low, dtype=torch.float32))
        self.register_buffer("width", torch.tensor(box.high, dtype=torch.float32) - self.low)

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        unit: Tensor = (self.inner(observations).clamp(-1.0, 1.0) + 1.0) / 2.0
        return unit if self.unit else self.width * unit + self.low


class Mean(nn.Module):
    """The policy network's squashed mean."""

    def __init__(self, policy: nn.Module) -> None:
        super().__init__()
        self.policy = policy

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        mean: Tensor = self.policy(observations).squashed_mu
        return mean


class Latent(nn.Module):
    """PLAS [arXiv 2011.07213]: the policy acts in a VAE's latent space, twice the squashed range."""

    def __init__(self, policy: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.policy = policy
        self.decoder = decoder

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        actions: Tensor = self.decoder(observations, 2.0 * self.policy(observations).squashed_mu)
        return actions


class _Sampling(nn.Module):
    """What the sampling policies share: n candidates for each observation."""

    noise: Tensor

    def __init__(self, noise: Tensor) -> None:
        super().__init__()
        self.register_buffer("noise", noise)
        self.n = len(noise)

    def spread(self, rows: Tensor) -> Tensor:
        """(B, D) to (B n, D): each row n times."""
        return rows.unsqueeze(1).expand(-1, self.n, -1).reshape(-1, rows.shape[1])

    def frozen(self, observations: Tensor) -> Tensor:
        """The noise for each observation: (B, n, width)."""
        return self.noise.unsqueeze(0).expand(observations.shape[0], -1, -1)

    def pick(self, actions: Tensor, index: Tensor) -> Tensor:
        """Candidates (B, n, A) by index (B,): (B, A)."""
        chosen = index.reshape(-1, 1, 1).expand(-1, 1, actions.shape[2])
        return actions.gather(1, chosen).squeeze(1)


class BestOfLatents(_Sampling):
    """BCQ [arXiv 1812.02900]: of n decoded latents, perturbed, the first critic's favorite."""

    def __init__(self, policy: nn.Module, decoder: nn.Module, critic: nn.Module, noise: Tensor) -> None:
        super().__init__(noise.clamp(-LATENT_BOUND, LATENT_BOUND))
        self.policy, self.decoder, self.critic = policy, decoder, critic

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        rows = self.spread(observations)
        latents = self.frozen(observations).reshape(-1, self.noise.shape[1])
        actions = self.policy(rows, self.decoder(rows, latents)).squashed_mu
        values = self.critic(rows, actions).q_value.reshape(-1, self.n)
        return self.pick(actions.reshape(-1, self.n, actions.shape[1]), values.argmax(dim=1))


class BestOfActions(_Sampling):
    """BEAR [arXiv 1906.00949]: of n sampled actions, the first critic's favorite."""

    def __init__(self, policy: nn.Module, critic: nn.Module, noise: Tensor) -> None:
        super().__init__(noise)
        self.policy, self.critic = policy, critic

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        output = self.policy(observations)
        spread = self.frozen(observations) * output.logstd.exp().unsqueeze(1)
        actions = torch.tanh(output.mu.unsqueeze(1) + spread)
        values = self.critic(self.spread(observations), actions.reshape(-1, actions.shape[2])).q_value
        return self.pick(actions, values.reshape(-1, self.n).argmax(dim=1))


class Resampled(_Sampling):
    """CRR [arXiv 2006.15134]: of n sampled actions, one drawn by softmax(value)."""

    level: Tensor

    def __init__(self, policy: nn.Module, critics: nn.ModuleList, noise: Tensor, level: Tensor) -> None:
        super().__init__(noise)
        self.policy, self.critics = policy, critics
        self.register_buffer("level", level)

    def forward(self, observations: Tensor) -> Tensor:
        """(B, D) to (B, A)."""
        output = self.policy(observations)
        spread = self.frozen(observations) * output.logstd.exp().unsqueeze(1)
        actions = (output.squashed_mu.unsqueeze(1) + spread).clamp(-1.0, 1.0)
        rows, flat = self.spread(observations), actions.reshape(-1, actions.shape[2])
        values = torch.stack([critic(rows, flat).q_value for critic in self.critics]).mean(dim=0)
        below = torch.softmax(values.reshape(-1, self.n), dim=1).cumsum(dim=1) < self.level
        return self.pick(actions, below.long().sum(dim=1).clamp(max=self.n - 1))


def policy_net(algorithm: Algorithm, modules: Any, box: ActionBox, samples: int, seed: int) -> Bounded:
    """The greedy policy of a trained algorithm.

    Args:
        algorithm: Says how it acts.
        modules: d3rlpy's networks of it; shared, not copied.
        box: The action space.
        samples: How many candidates the sampling policies compare.
        seed: Draws their noise.

    Returns:
        A module from observations (B, D) to actions (B, A).
    """
    generator = torch.Generator().manual_seed(seed)
    policy = getattr(modules, algorithm.policy)
    action_dim = len(box.low)
    inner: nn.Module
    if algorithm.acting == "mean":
        inner = Mean(policy)
    elif algorithm.acting == "latent":
        inner = Latent(policy, modules.vae_decoder)
    elif algorithm.acting == "best_of_latents":
        latents = torch.randn(samples, 2 * action_dim, generator=generator)
        inner = BestOfLatents(policy, modules.vae_decoder, modules.q_funcs[0], latents)
    else:
        noise = torch.randn(samples, action_dim, generator=generator)
        if algorithm.acting == "best_of_actions":
            inner = BestOfActions(policy, modules.q_funcs[0], noise)
        else:
            inner = Resampled(policy, modules.q_funcs, noise, torch.rand(1, generator=generator))
    record = None
    if isinstance(inner, _Sampling):
        record = {
            "seed": seed,
            "shape": list(inner.noise.shape),
            "drawn_by": "torch.Generator().manual_seed(seed)",
        }
    return Bounded(inner, box, record)
