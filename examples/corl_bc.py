"""Behavior cloning in one file, in the manner of CORL: a config, a buffer, a trainer, a loop that evaluates.

    sme-offline generate --nu 0.3 --sigma 0.3
    python examples/corl_bc.py sme/s8a4-c1-bias-nu0p3-probit0p3-v0

What differs from CORL is the evaluation: exact scores on fixed states instead of returns of sampled episodes,
beside the best that any cloning can do (imitation), known before training.
"""

import argparse
import itertools
from dataclasses import dataclass

import minari
import numpy as np
import torch
from torch import nn

import smeoffline as so


@dataclass
class TrainConfig:
    """What a run depends on."""

    dataset: str
    steps: int = 5_000
    batch_size: int = 256
    learning_rate: float = 1e-3
    hidden: int = 256
    evaluate_every: int = 1_000
    seed: int = 0


class ReplayBuffer:
    """All transitions, drawn from at random."""

    def __init__(self, dataset: minari.MinariDataset, generator: torch.Generator) -> None:
        episodes = list(dataset.iterate_episodes())
        # One observation more than actions in each episode: the last has no action.
        self.observations = torch.from_numpy(np.concatenate([e.observations[:-1] for e in episodes]))
        self.actions = torch.from_numpy(np.concatenate([e.actions for e in episodes]))
        self.generator = generator

    def sample(self, batch_size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Observations and actions of a batch."""
        rows = torch.randint(len(self.actions), (batch_size,), generator=self.generator)
        return self.observations[rows], self.actions[rows]


class BC:
    """An actor, and its least-squares update."""

    def __init__(self, buffer: ReplayBuffer, config: TrainConfig) -> None:
        widths = buffer.observations.shape[1], config.hidden, config.hidden, buffer.actions.shape[1]
        layers = [nn.Linear(*pair) for pair in itertools.pairwise(widths)]
        self.actor = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2], nn.Sigmoid())
        for layer in layers:  # drawn by our own generator: nothing global is seeded
            nn.init.kaiming_uniform_(layer.weight, a=5**0.5, generator=buffer.generator)
            nn.init.zeros_(layer.bias)
        self.optimizer = torch.optim.Adam(self.actor.parameters(), lr=config.learning_rate)

    def train(self, observations: torch.Tensor, actions: torch.Tensor) -> float:
        """One step; returns the loss."""
        loss = nn.functional.mse_loss(self.actor(observations), actions)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def act(self, observations: np.ndarray) -> np.ndarray:
        """Observations (B, D) to actions (B, A) in [0, 1]."""
        return self.actor(torch.from_numpy(observations)).numpy()


def main(config: TrainConfig) -> so.Evaluation:
    """Train and evaluate; returns the last evaluation."""
    generator = torch.Generator().manual_seed(config.seed)
    buffer = ReplayBuffer(minari.load_dataset(config.dataset), generator)
    trainer = BC(buffer, config)
    for step in range(1, config.steps + 1):
        loss = trainer.train(*buffer.sample(config.batch_size))
        if step % config.evaluate_every == 0 or step == config.steps:
            found = so.evaluate(trainer.act, dataset=config.dataset)
            print(
                f"step {step:,}: loss {loss:.4f}, score {found.score_wd:.3f} of 1 "
                f"(behavior {found.behavior_score:.3f}, imitation {found.imitation_score:.3f})"
            )
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    parser.add_argument("--steps", type=int, default=TrainConfig.steps)
    parser.add_argument("--seed", type=int, default=TrainConfig.seed)
    main(TrainConfig(**vars(parser.parse_args())))
