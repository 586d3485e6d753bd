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
from smeoffline.sme.cores import default_workers

PAIRS = 3
REPEATS = 20  # of what takes ours a hundredth of a second, and a peer one
STEPS = {"iql": 1500, "bc": 4000}
CONFIGS = {"iql": "IQLConfig", "bc": "BCConfig"}


def train(_: Path) -> Iterator[Row]:
    """Steps per second on all cores: one process of ours a core, against d3rlpy's `fit`.

    As its users run it, `fit` is one process that takes every core. The second row of each pair gives it one
    process a core on one thread each, as we run; it has no aim, since nobody offers that.
    """
    name = so.generate(so.Task(), so.Behavior(nu=0.3, sigma=0.3), dataset_id="bench/train-v0").dataset_id
    cores = default_workers()
    for algo, steps in STEPS.items():
        ours, whole, single = [], [], []
        for _pair in range(PAIRS):
            ours.append(_together("ours", name, algo, steps, processes=cores, threads=1))
            whole.append(_together("d3rlpy", name, algo, steps, processes=1, threads=cores))
            single.append(_together("d3rlpy", name, algo, steps, processes=cores, threads=1))
        label = f"{algo.upper()} steps, all cores, against d3rlpy fit"
        yield from_pairs(label, "steps", list(zip(ours, whole, strict=True)), 1.8)
        yield from_pairs(f"{label}, one a core", "steps", list(zip(ours, single, strict=True)), None)


def _together(who: str, dataset: str, algo: str, steps: int, *, processes: int, threads: int) -> float:
    """Steps per second, over all processes that run at once."""
    command = [sys.executable, __file__, who, dataset, algo, str(steps), str(threads)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return sum(float(process.communicate()[0]) for process in running)


def evaluate(scratch: Path) -> Iterator[Row]:
    """Score 10,000 probes: our batched evaluation against the published package's one call a state.

    Its `eval` calls a model as stable-baselines3 has it (its argument `interface` is "sb3"), so that row has the aim.
    The second row calls the same network through d3rlpy's shorter path. It has no aim that can be reached: the
    network alone, in one batch, leaves a factor of about 75 on two cores.
    """
    module = published_package(scratch)
    if module is None:
        return
    name = so.generate(so.Task(), so.Behavior(nu=0.3), episodes=100, dataset_id="bench/evaluate-v0").dataset_id
    with tempfile.TemporaryDirectory() as out:
        act = so.train(name, algo="bc", steps=50, out=out).act
    probes, sme = 10_000, so.Task().build()
    states = np.random.default_rng(0).random((probes, 8), dtype=np.float32)
    observations = np.concatenate([states, np.zeros((probes, 2), np.float32)], axis=1)

    def ours() -> int:
        for _ in range(REPEATS):
            sme.reward(sme.score(act(observations), sme.optimal_action(states)))
        return REPEATS * probes

    env = make_env(module, 1)
    for of, model, aim in (("sb3", _sb3_model(), 100.0), ("d3rlpy", _d3rlpy_model(), None)):

        def theirs(model: object = model) -> int:
            with contextlib.redirect_stdout(io.StringIO()):
                env.eval(model, probes=probes)
            return probes

        label = f"score 10,000 probes, sme-rl's eval with {of}"
        yield compare(label, "probes", ours, theirs, aim, pairs=PAIRS)


def _sb3_model() -> object:
    """The same network in the library whose models the published package's `eval` is written for."""
    import gymnasium
    from stable_baselines3 import TD3

    env = gymnasium.make("smeoffline:smeoffline/SME-v0", state_dim=8, action_dim=4)
    return TD3("MlpPolicy", env, policy_kwargs={"net_arch": [256, 256]}, device="cpu", buffer_size=1)


def _d3rlpy_model() -> object:
    """The same network as d3rlpy has it, whose `predict` does less for each call."""
    with contextlib.redirect_stderr(io.StringIO()):
        import d3rlpy
    algo = d3rlpy.algos.BCConfig().create("cpu:0")
    algo.create_impl((10,), 4)

    class Model:
        """What `eval` takes."""

        def predict(self, observation: np.ndarray, deterministic: bool) -> tuple[np.ndarray, None]:
            """An action in [0, 1]."""
            del deterministic
            return (algo.predict(np.asarray(observation, np.float32)) + 1) / 2, None

    return Model()


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

    from smeoffline.data.storage import store

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
