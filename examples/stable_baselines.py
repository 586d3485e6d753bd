"""Learn a task online with stable-baselines3, and measure the policy against the known optimum.

    pip install stable-baselines3
    python examples/stable_baselines.py            # about a minute
    python examples/stable_baselines.py --steps 300

The score is 1 - mean |action - optimal action| on uniform states: 1 is optimal, random actions have about 0.67.
"""

import argparse

import gymnasium
import numpy as np
import torch
from stable_baselines3 import SAC

import smeoffline as so


def main(steps: int = 3_000) -> float:
    """Train SAC for some steps; returns its score."""
    torch.set_num_threads(1)  # networks this small are slower on several
    env = gymnasium.make("smeoffline:smeoffline/SME-v0", state_dim=2, action_dim=1, complexity=1)
    # An action's reward tells all of it here (no shaping), so the future need not count.
    small = {"net_arch": [64, 64]}
    model = SAC("MlpPolicy", env, gamma=0.0, learning_starts=100, policy_kwargs=small, seed=0, device="cpu")
    model.learn(steps)

    sme = so.Task(state_dim=2, action_dim=1, complexity=1).build()
    states = np.random.default_rng(0).random((10_000, 2), dtype=np.float32)
    observations = np.pad(states, ((0, 0), (0, 2)))  # then time, and the reward accrued: both 0
    actions, _ = model.predict(observations, deterministic=True)
    score = float(sme.score(actions, sme.optimal_action(states)).mean())
    print(f"SAC after {steps} steps: score {score:.3f} of 1")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3_000)
    main(parser.parse_args().steps)
