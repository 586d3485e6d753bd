"""Benchmark rows of making data: the optimal policy, writing, reading, generating, memory."""

from __future__ import annotations

import itertools
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import minari
import numpy as np
import torch
from measure import Row, compare
from minari.data_collector import EpisodeBuffer
from peers import make_env, published_package

import smeoffline as so
from smeoffline.data.recipe import Component, Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.sme.blocks import worker_pool
from smeoffline.sme.cores import default_workers
from smeoffline.sme.env import action_space, observation_space

COMPLEXITY = 50
MEMORY_LIMIT_MIB = 1536
MEMORY_TRANSITIONS = 10_000_000


def policy(scratch: Path) -> Iterator[Row]:
    """Optimal actions at C = 50 against the matrix products and erf alone, and against the published net."""
    sme = so.Task(complexity=COMPLEXITY).build()
    states = np.random.default_rng(0).random((100_000, 8), dtype=np.float32)

    def ours() -> int:
        sme.optimal_action(states)
        return len(states)

    rows, workers = 2048, default_workers()
    weights = [torch.randn(128, 128) / 11 for _ in range(COMPLEXITY - 2)]

    def products(_: int) -> None:
        here, there = torch.randn(rows, 128), torch.empty(rows, 128)
        for weight in weights:
            torch.mm(here.erf_(), weight, out=there)
            here, there = there, here

    def limit() -> int:
        jobs = len(states) // rows
        with worker_pool(workers) as pool:
            list(pool.map(products, range(jobs)))
        return jobs * rows

    yield compare("optimal policy, C=50, against the limit", "states", ours, limit, 0.85)
    module = published_package(scratch)
    if module is not None:
        net = make_env(module, COMPLEXITY).optimal_policy
        batch = torch.from_numpy(states)

        def theirs() -> int:
            with torch.no_grad():
                net(batch)
            return len(batch)

        yield compare("optimal policy, C=50, against sme-rl's net", "states", ours, theirs, 1.0)


def _blocks(complexity: int, episodes: int) -> Rollout:
    recipe = Recipe(so.Task(complexity=complexity), (Component(so.Behavior(nu=0.1)),), episodes=episodes)
    return Rollout.prepare(recipe)


def _buffers(episodes: int) -> list[EpisodeBuffer]:
    """Episodes as minari's writer takes them."""
    return [
        EpisodeBuffer(
            id=None,
            seed=int(block.seeds[i]),
            observations=block.observations[i],
            actions=block.actions[i],
            rewards=block.rewards[i],
            terminations=block.terminations[i],
            truncations=block.truncations[i],
            infos={"optimal_action": block.optimal_actions[i]},
        )
        for block in _blocks(1, episodes).blocks()
        for i in range(len(block.seeds))
    ]


_COUNTER = itertools.count()


def _fresh_id() -> str:
    return f"bench/set{next(_COUNTER)}-v0"


def _write_with_minari(buffers: list[EpisodeBuffer]) -> int:
    name = _fresh_id()
    task = so.Task()
    minari.create_dataset_from_buffers(
        name, buffers, observation_space=observation_space(task), action_space=action_space(task),
        algorithm_name="x", author="x", author_email="x@x", code_permalink="x", description="x",
    )  # fmt: skip
    steps = sum(len(b.rewards) for b in buffers)
    minari.delete_dataset(name)
    return steps


def write(_: Path) -> Iterator[Row]:
    """Write 100,000 transitions (T = 100) as Minari HDF5: low-level against minari's own writer."""
    blocks = list(_blocks(1, 1000).blocks())
    buffers = _buffers(1000)

    def ours() -> int:
        with store.create(_fresh_id(), observation_dim=10, action_dim=4, env_spec_json="{}") as writer:
            for block in blocks:
                writer.write(block)
            writer.commit({})
        return sum(int(b.lengths.sum()) for b in blocks)

    yield compare("write Minari HDF5, T=100", "transitions", ours, lambda: _write_with_minari(buffers), 3.0)


def read(_: Path) -> Iterator[Row]:
    """Read 100,000 transitions to flat arrays, against iterating over minari's episodes."""
    name = so.generate(so.Task(), so.Behavior(nu=0.1), dataset_id=_fresh_id()).dataset_id

    def ours() -> int:
        return len(store.read(name).actions)

    def theirs() -> int:
        episodes = list(minari.load_dataset(name).iterate_episodes())
        return len(np.concatenate([e.actions for e in episodes]))

    yield compare("read to flat arrays, T=100", "transitions", ours, theirs, 5.0)


def generate(scratch: Path) -> Iterator[Row]:
    """A loadable Minari dataset from nothing, against the published environment and minari's writer."""
    module = published_package(scratch)
    if module is None:
        return
    for complexity, episodes, target in ((1, 3000, 40.0), (COMPLEXITY, 1000, 80.0)):
        task = so.Task(complexity=complexity)

        def ours(task: so.Task = task, episodes: int = episodes) -> int:
            made = so.generate(task, so.Behavior(nu=0.1), episodes=episodes, dataset_id=_fresh_id())
            return made.transitions

        env = make_env(module, complexity)

        def theirs(env: object = env) -> int:
            return _write_with_minari([_published_episode(env) for _ in range(5)])

        yield compare(f"generate a Minari dataset, C={complexity}, T=100", "transitions", ours, theirs, target, pairs=3)


def _published_episode(env: object) -> EpisodeBuffer:
    """One noisy episode of the published environment, stepped as its users step it."""
    stream = np.random.default_rng(0)
    observation, _ = env.reset()  # type: ignore[attr-defined]
    episode: dict[str, list[object]] = {k: [] for k in ("actions", "rewards", "terminations", "truncations")}
    observations, done = [observation[0]], False
    while not done:
        with torch.no_grad():
            best = env.optimal_policy(env.state_raw).numpy()  # type: ignore[attr-defined]
        action = np.clip(best + 0.02 * stream.standard_normal(4), 0, 1).astype(np.float32)
        observation, reward, terminated, truncated, _ = env.step(action)  # type: ignore[attr-defined]
        done = bool(terminated) or bool(truncated)
        observations.append(observation[0])
        for key, value in zip(episode, (action[0], float(reward), bool(terminated), bool(truncated)), strict=True):
            episode[key].append(value)
    return EpisodeBuffer(
        id=None, seed=None, observations=np.array(observations), infos=None,
        **{k: np.array(v, dtype=np.float32 if k in ("actions", "rewards") else bool) for k, v in episode.items()},
    )  # fmt: skip


def memory(_: Path) -> Iterator[Row]:
    """Peak memory of generating 10,000,000 transitions, in a process of its own."""
    code = (
        "import smeoffline as so; print(so.generate(so.Task(), so.Behavior(nu=0.1), "
        f"episodes={MEMORY_TRANSITIONS // 100}, dataset_id='bench/memory-v0').transitions)"
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024  # KiB on Linux
    if peak * 1024 <= before:
        print("memory: an earlier child of this process was larger; run this row alone for its peak")
    made = int(done.stdout)
    yield Row("memory limit over peak, 10 M transitions", "MiB", MEMORY_LIMIT_MIB, peak, MEMORY_LIMIT_MIB / peak,
              (MEMORY_LIMIT_MIB / peak,) * 2, 1.0 if made == MEMORY_TRANSITIONS else float("inf"))  # fmt: skip
