"""A dataset read by stock Minari and batched by torch's DataLoader; no module of smeoffline reads it.

    sme-offline generate --nu 0.3 --sigma 0.3
    python examples/minari_dataloader.py sme/s8a4-c1-bias-nu0p3-probit0p3-v0

Mind the ends of episodes: one has T actions and T + 1 observations, of which the last is where it ended.

    t              0    1   ...  T-1   T
    observations   o0   o1       oT-1  oT     a transition is (o_t, a_t, r_t, o_{t+1}, terminated_t)
    actions        a0   a1       aT-1

The score is 1 - mean |action - optimal action| of what the behavior did: 1 is optimal.
"""

import argparse

import minari
import numpy as np
import torch
from torch.utils.data import DataLoader, TensorDataset


def transitions(dataset: minari.MinariDataset) -> TensorDataset:
    """Observations, actions, rewards, next observations, terminations and optimal actions, a row a step."""
    columns = []
    for episode in dataset.iterate_episodes():
        optimal = episode.infos["optimal_action"]  # to measure with; an algorithm that reads it is cheating
        now, then = episode.observations[:-1], episode.observations[1:]
        columns.append((now, episode.actions, episode.rewards, then, episode.terminations, optimal[:-1]))
    stacked = (np.concatenate(column) for column in zip(*columns, strict=True))
    return TensorDataset(*(torch.from_numpy(column) for column in stacked))


def main(dataset_id: str) -> float:
    """Go through a dataset once, in random batches; returns the score of its actions."""
    data = transitions(minari.load_dataset(dataset_id))
    loader = DataLoader(data, batch_size=256, shuffle=True, generator=torch.Generator().manual_seed(0))
    error = reward = 0.0
    for _, actions, rewards, _, _, optimal in loader:
        error += float((actions - optimal).abs().mean(dim=1).sum())
        reward += float(rewards.sum())
    score = 1 - error / len(data)
    print(f"{len(data):,} transitions: score {score:.3f} of 1, mean reward {reward / len(data):.3f}")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("dataset")
    main(parser.parse_args().dataset)
