"""A small leaderboard for tests: three datasets, two seeds, and entries that blend imitation and optimum."""

from __future__ import annotations

from functools import cache

import numpy as np

from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.entry import Submission
from smeoffline.bench.suite import Suite
from smeoffline.data.acting import intend_at
from smeoffline.data.rollout import Rollout

# Base error and exploration; base error alone; exploration alone, on a deep policy.
SUITE = """
seeds = 2
steps = 7

[[datasets]]
task.state_dim = 3
task.action_dim = 2
task.episode_length = 20
behavior.nu = 0.5
behavior.sigma = 0.3
dataset.episodes = 10

[[datasets]]
task.state_dim = 3
task.action_dim = 2
task.episode_length = 20
behavior.nu = 0.5
dataset.episodes = 10

[[datasets]]
task.state_dim = 3
task.action_dim = 2
task.episode_length = 20
task.complexity = 10
behavior.base = "optimal"
behavior.sigma = 0.3
dataset.episodes = 10

[[algorithms]]
name = "bc"
"""
INFORMED, UNINFORMED, EXPLORED = (
    "s3a2-c1-bias-nu0p5-probit0p3-len20-n10-v0",
    "s3a2-c1-bias-nu0p5-len20-n10-v0",
    "s3a2-c10-optimal-probit0p3-len20-n10-v0",
)


@cache
def tiny():
    """The board; nothing in it changes."""
    return Board(Suite.from_toml(SUITE, name="tiny"))


@cache
def _known():
    """Imitation and optimum at every probe, by place."""
    board, found = tiny(), {}
    for place in board.places:
        rollout = Rollout.prepare(place.recipe)
        states = np.ascontiguousarray(board.observations[place.dataset][:, :-2])
        z = rollout.sme.preactivation(states)
        found[place.key] = intend_at(rollout.actors[0], states, z)[1], rollout.sme.optimal_action(states)
    return found


def blend(share=0.0, *, noise=0.05, control=None, deep=None, seed=0):
    """Actions of an entry that knows the optimum: `share` of it, and of imitation what remains.

    Args:
        share: Of the optimum.
        noise: Standard deviation of what a fit gets wrong, different in every state.
        control: The share on the dataset without information; None for `share`.
        deep: The share on the deep policy's; None for `share`.
        seed: Of the noise.
    """
    stream = np.random.default_rng(seed)
    board, shares = tiny(), {UNINFORMED: control, EXPLORED: deep}
    actions = {}
    for place in board.places:
        imitation, optimum = _known()[place.key]
        own = shares.get(place.dataset)
        part = share if own is None else own
        # On the deep dataset imitation is the optimum already, and the error of fitting it is what a blend shrinks.
        scale = noise * (1 - part) * (4 if place.dataset == EXPLORED else 1)
        wrong = scale * stream.standard_normal(imitation.shape)
        actions[place.key] = np.clip(imitation + part * (optimum - imitation) + wrong, 0, 1).astype(np.float32)
    return actions


def submission(**changes):
    """What an entry of the board says about itself."""
    board = tiny()
    fields = {
        "suite": "tiny",
        "name": "Mine",
        "algorithm": "mine",
        "hyperparameters": {"rate": 3e-4, "layers": [256, 256]},
        "steps": 7,
        "seeds": (0, 1),
        "code_version": "mine 1.0",
        "probes_sha256": board.probes_sha256,
    }
    return Submission(**{**fields, **changes})
