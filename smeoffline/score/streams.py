"""The streams of a seed that scores draw from, each once; those of probes and datasets have other numbers."""

from __future__ import annotations

import numpy as np

CRITIC_STEPS, CRITIC_ACTIONS = 110, 111  # which of the visited steps, and actions towards random ones
PERTURBATIONS, CEILING = 120, 121  # of rollouts' starts, and of the noise that an oracle would see
OPE_STARTS, OPE_STEPS = 130, 131  # a policy's noise at starts, and along the data


def stream(seed: int, kind: int) -> np.random.Generator:
    """One of these streams of a seed in [0, 2^32)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(kind,))))
