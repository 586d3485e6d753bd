"""Made-up results for tests of the report: plausible in shape, drawn from a seed, and measured nowhere."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from smeoffline.bench.results import CellResult, CurvePoint
from smeoffline.sme.task import Task

VERSIONS = {"smeoffline": "0.0.0", "torch": "0.0.0"}
PLATFORM = {"machine": "synthetic", "vendor": "none"}
# What a perfect learner of this kind makes of the gap where noise reveals it, and loses where it does not.
TALENT = {"bc": 0.0, "iql": 0.25, "td3plusbc": 0.5, "plas": 0.35, "crr": 0.15}
FIT_LOSS = {1: 0.002, 10: 0.02, 50: 0.195}


def cell(
    algo="bc",
    *,
    nu=0.1,
    explore="none",
    sigma=0.0,
    seed=0,
    base="bias",
    suite="synthetic",
    variant=None,
    settings=None,
    steps=1000,
    curve=(0.2, 0.5, 1.0),
    episodes=100,
    **task,
):
    """One finished cell; the same arguments give the same numbers."""
    spec = Task(**task)
    code = [ord(c) for c in f"{algo}{variant}{settings}{steps}{nu}{explore}{sigma}{base}"]
    stream = np.random.default_rng([seed, spec.complexity, spec.state_dim, *code])
    # the same for all algorithms
    drawn = np.random.default_rng([seed, round(1000 * nu), round(1000 * sigma)])
    offset = nu * (0.225 + 0.085 * float(drawn.standard_normal()))
    blur = 0.25 * sigma
    behavior, imitation = 1 - offset - blur, 1 - max(0.0, offset) - 0.1 * sigma * nu
    headroom = 1 - imitation
    informed = min(1.0, sigma / 0.3) if nu > 0 else 0.0
    loss = FIT_LOSS.get(spec.complexity, 0.1) * (1 + 0.1 * math.log2(spec.state_dim / 8))
    talent = TALENT.get(algo, 0.1) * (1.2 if settings else 1.0)
    score = imitation - loss + talent * informed * headroom + 0.003 * float(stream.standard_normal())
    gain = score - imitation if headroom >= 0.02 else None
    name = f"n{spec.state_dim}c{spec.complexity}-{base}{nu}-{explore}{sigma}-e{episodes}"
    extras = [f"{f}{getattr(spec, f)}" for f in ("reward_every", "shaping") if getattr(spec, f)]
    evaluation = {
        "score_wd": score,
        "score_ood": score - 0.2,
        "behavior_score": behavior,
        "imitation_score": imitation,
        "clone_shrunk_score": imitation + 0.1 * headroom,
        "headroom": headroom,
        "optimal_score": 1.0,
        "random_score": 0.68,
        "improvement": score - behavior,
        "rl_gain": gain,
        "gap_closed": gain / headroom if gain is not None else None,
        "ood_curve": [
            {"distance": distance, "score": score - (0.3 + loss) * distance, "n": 100}
            for distance in (0.05, 0.35, 0.65, 0.95)
        ],
    }
    return CellResult(
        suite=suite,
        cell="--".join([name, *extras, f"{algo}{variant}{settings}", f"n{steps}", f"s{seed}"]),
        status="done",
        reason=None,
        dataset_id=f"sme/{name}-seed{seed}-v0",
        dataset_name="-".join([name, *extras]),
        task=spec.to_dict(),
        behavior=[{"base": base, "nu": nu, "explore": explore, "sigma": sigma, "share": 1.0}],
        dataset={"episodes": episodes, "seed": seed},
        dataset_sha256="0" * 64,
        algo=algo,
        variant=variant,
        settings=settings if settings is not None else {},
        seed=seed,
        steps=steps,
        evaluation=evaluation,
        curve=tuple(CurvePoint(round(part * steps), 0.7 + (score - 0.7) * (1 - math.exp(-5 * part))) for part in curve),
        seconds=1.5,
        versions=VERSIONS,
        platform=PLATFORM,
    )


def failed(done, reason="training diverged:\n loss is NaN"):
    """The same cell, failed."""
    return dataclasses.replace(done, status="failed", reason=reason, evaluation=None, curve=())


def shifted(cell, by):
    """A cell with another score."""
    moved = {name: cell.evaluation[name] + by for name in ("score_wd", "improvement")}
    return dataclasses.replace(cell, evaluation={**cell.evaluation, **moved})


def table1(seeds=3, algos=("bc", "iql"), **more):
    """The paper's grid."""
    return [
        cell(algo, nu=nu, complexity=complexity, seed=seed, suite="table1", **more)
        for seed, algo, complexity, nu in itertools.product(range(seeds), algos, (1, 10, 50), (0.0, 0.1))
    ]


def gain(seeds=3, algos=tuple(TALENT), nus=(0.0, 0.1, 0.3, 0.5), complexities=(1, 10), **more):
    """Base error by exploration."""
    noises = (("none", 0.0), ("probit", 0.1), ("probit", 0.3), ("gaussian", 0.1), ("gaussian", 0.3))
    grid = itertools.product(range(seeds), algos, complexities, nus, noises)
    return [
        cell(algo, nu=nu, explore=kind, sigma=sigma, complexity=complexity, seed=seed, suite="gain", **more)
        for seed, algo, complexity, nu, (kind, sigma) in grid
    ]


def size(seeds=3):
    """BC at several sizes."""
    return [
        cell("bc", nu=0.0, complexity=50, state_dim=n, seed=seed, suite="size")
        for seed, n in itertools.product(range(seeds), (2, 4, 8, 16))
    ]


def write(folder, cells):
    """A results file in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "results.jsonl").write_text("".join(f"{c.to_line()}\n" for c in cells), encoding="utf-8")
    return folder
