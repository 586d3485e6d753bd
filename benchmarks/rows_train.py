"""Benchmark rows of training and scoring: IQL and BC steps on all cores, and 10,000 probes."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from measure import Row, compare, from_pairs
from peers import make_env, published_package

import smeoffline as so
from smeoffline.sme.blocks import default_workers

PAIRS = 3
STEPS = {"iql": 1500, "bc": 4000}
CONFIGS = {"iql": "IQLConfig", "bc": "BCConfig"}


def train(_: Path) -> Iterator[Row]:
    """Steps per second on all cores: one process of ours a core, against d3rlpy's `fit` with torch's threads.

    A grid has many runs, so what counts is what the machine does in all. d3rlpy's `fit` is measured as its
    users run it, one process that takes every core, and as one process a core on one thread each; the better
    of the two is the peer.
    """
    name = so.generate(so.Task(), so.Behavior(nu=0.3, sigma=0.3), dataset_id="bench/train-v0").dataset_id
    cores = default_workers()
    for algo, steps in STEPS.items():
        pairs = []
        for _pair in range(PAIRS):
            ours = _together("ours", name, algo, steps, processes=cores, threads=1)
            whole = _together("d3rlpy", name, algo, steps, processes=1, threads=cores)
            single = _together("d3rlpy", name, algo, steps, processes=cores, threads=1)
            pairs.append((ours, max(whole, single)))
        yield from_pairs(f"{algo.upper()} steps, all cores, against d3rlpy fit", "steps", pairs, 1.8)


def _together(who: str, dataset: str, algo: str, steps: int, *, processes: int, threads: int) -> float:
    """Steps per second, over all processes that run at once."""
    command = [sys.executable, __file__, who, dataset, algo, str(steps), str(threads)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate()[0]) for process in running)


def evaluate(scratch: Path) -> Iterator[Row]:
    """Score 10,000 probes: our batched evaluation against the published package's one call a state."""
    module = published_package(scratch)
    if module is None:
        return
    name = so.generate(so.Task(), so.Behavior(nu=0.3), episodes=100, dataset_id="bench/evaluate-v0").dataset_id
    with tempfile.TemporaryDirectory() as out:
        run = so.train(name, algo="bc", steps=50, out=out)
        act, probes = run.act, 10_000
        sme = so.Task().build()
        states = np.random.default_rng(0).random((probes, 8), dtype=np.float32)
        observations = np.concatenate([states, np.zeros((probes, 2), np.float32)], axis=1)

        def ours() -> int:
            sme.reward(sme.score(act(observations), sme.optimal_action(states)))
            return probes

        class Model:
            """The policy as the published package calls it."""

            def predict(self, observation: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
                del deterministic
                return act(np.asarray(observation, np.float32)), None

        env, model = make_env(module, 1), Model()

        def theirs() -> int:
            with contextlib.redirect_stdout(io.StringIO()):
                env.eval(model, probes=probes)
            return probes

        yield compare("score 10,000 probes, against sme-rl's eval", "probes", ours, theirs, 100.0, pairs=PAIRS)


def _run_ours(dataset: str, algo: str, steps: int) -> float:
    """Steps per second of our loop."""
    marks: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as out:
        so.train(dataset, algo=algo, steps=steps, out=out, checkpoint_every=steps,
                 progress=lambda step, *_: marks.append((step, time.perf_counter())))  # fmt: skip
    (first, start), (last, end) = marks[0], marks[-1]
    return (last - first) / (end - start)


def _run_d3rlpy(dataset: str, algo: str, steps: int, threads: int) -> float:
    """Steps per second of d3rlpy's fit on the same data."""
    import d3rlpy
    import torch

    from smeoffline.data import store

    torch.set_num_threads(threads)
    data = store.read(dataset)
    starts = np.cumsum(data.lengths) - data.lengths
    rows = np.concatenate(
        [np.arange(s + i, s + i + n) for i, (s, n) in enumerate(zip(starts, data.lengths, strict=True))]
    )
    replay = d3rlpy.dataset.MDPDataset(
        data.observations[rows], data.actions * 2 - 1, data.rewards, data.terminations, data.truncations,
        action_space=d3rlpy.constants.ActionSpace.CONTINUOUS,
    )  # fmt: skip
    learner = getattr(d3rlpy.algos, CONFIGS[algo])().create("cpu:0")
    marks: list[float] = []
    learner.fit(replay, n_steps=steps, n_steps_per_epoch=steps, show_progress=False,
                logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
                callback=lambda *_: marks.append(time.perf_counter()))  # fmt: skip
    return (len(marks) - 1) / (marks[-1] - marks[0])


if __name__ == "__main__":
    who, dataset, algo, steps, threads = sys.argv[1:]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        rate = (
            _run_ours(dataset, algo, int(steps))
            if who == "ours"
            else _run_d3rlpy(dataset, algo, int(steps), int(threads))
        )
    print(rate)
