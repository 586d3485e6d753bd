"""Inspect a dataset: what it is, and whether everything in it follows from the task it names."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data import replay, store, told
from smeoffline.data.episodes import content_sha256, episode_digest
from smeoffline.data.findings import Finding
from smeoffline.data.recipe import SEED_LIMIT
from smeoffline.data.store import Dataset
from smeoffline.data.streams import episode_seeds, episode_stream
from smeoffline.errors import SpecError
from smeoffline.sme.task import Task

__all__ = ["Finding", "Inspection", "inspect"]

TOLD = 100  # findings of one check that are listed; the others are counted


@dataclass(frozen=True)
class Inspection:
    """What an audit found.

    Attributes:
        ok: Whether nothing is wrong.
        findings: What is wrong, at most one per check and episode, told at its first step.
        dataset_id: Its id.
        description: JSON values: `episodes`, `transitions`, `behavior`, sizes; and for ours the numbers
            of the task, `scores`, `sha256`, `platform`, `versions`, `recipe` (task, behavior, dataset).
    """

    ok: bool
    findings: tuple[Finding, ...]
    dataset_id: str
    description: dict[str, Any]


def inspect(dataset: str | Path) -> Inspection:
    """Audit a dataset: its structure; and for ours, every step against the task, and the content hash.

    Args:
        dataset: An id, or the folder of a dataset.

    Raises:
        DatasetNotFoundError: There is none; names ids that are near.
        DatasetError: Its files can't be read at all, or hold data of another kind.
        VersionError: A newer version of this package wrote it.
    """
    checked = store.check(dataset)
    found = checked.dataset
    findings = list(checked.findings)
    if found.provenance is not None:
        findings += _against_task(found, found.provenance)
        findings += told.against_recipe(found.metadata, found.provenance)
        if len(checked.findings) == 0:
            findings += _against_hash(found, found.provenance)
    kept = tuple(_limited(findings))
    return Inspection(not kept, kept, found.id, describe(found))


def describe(dataset: Dataset) -> dict[str, Any]:
    """What a dataset is, as JSON values: first what it holds, then what its metadata say of it."""
    lengths = dataset.lengths
    sizes: dict[str, Any] = {
        "path": str(dataset.path),
        "episodes": len(lengths),
        "transitions": int(lengths.sum()),
        "observation_dim": dataset.observations.shape[1],
        "action_dim": dataset.actions.shape[1],
        "mean_return": float(dataset.rewards.sum(dtype=np.float64) / len(lengths)) if len(lengths) else None,
    }
    for key, shown in (("ref_min_score",) * 2, ("ref_max_score",) * 2, ("algorithm_name", "behavior")):
        if key in dataset.metadata:
            sizes[shown] = dataset.metadata[key]
    provenance = dataset.provenance
    if provenance is None:
        return {**sizes, "smeoffline": False}
    rest = dict(provenance)
    recipe = {key: rest.pop(key, None) for key in ("task", "behavior", "dataset")}
    return {**sizes, "smeoffline": True, **_task_fields(recipe["task"]), **rest, "recipe": recipe}


def _task_fields(task: object) -> dict[str, Any]:
    """The numbers by which people tell tasks apart; those that are rarely set, only where they are."""
    if not isinstance(task, Mapping):
        return {}
    usual, always = Task().to_dict(), ("state_dim", "complexity", "episode_length", "seed")
    return {
        "task_seed" if key == "seed" else str(key): value
        for key, value in task.items()
        if key != "action_dim" and (key in always or value != usual.get(key))
    }


def _against_task(dataset: Dataset, provenance: Mapping[str, Any]) -> Iterator[Finding]:
    """Everything that the task and the recipe say about the data."""
    try:
        task = Task.from_dict(provenance["task"])
    except (SpecError, KeyError) as fault:
        yield Finding("task", None, None, "a task in the metadata", str(fault) if fault.args[0] != "task" else "none")
        return
    widths = {"observation": task.state_dim + 2, "action": task.action_dim}
    for name, width in widths.items():
        got = getattr(dataset, f"{name}s").shape[1]
        if got != width:
            yield Finding(f"{name} channels", None, None, f"{width} for this task", str(got))
            return
    if dataset.optimal_actions is None and len(dataset.lengths):
        yield Finding("optimal action", None, None, "one for each observation of each episode", "none")
    yield from _recipe(dataset, provenance, task)
    sme = task.build()
    for part in replay.parts(dataset):
        for mismatch in replay.Replay(sme, part).mismatches():
            yield from _told(mismatch, dataset)


def _told(mismatch: replay.Mismatch, dataset: Dataset) -> Iterator[Finding]:
    """The first row of each episode as a finding."""
    _, first = np.unique(mismatch.episodes, return_index=True)
    for i in first:
        number = int(dataset.numbers[mismatch.episodes[i]])
        yield Finding(mismatch.check, number, int(mismatch.steps[i]), mismatch.expected[i], mismatch.got[i])


def _recipe(dataset: Dataset, provenance: Mapping[str, Any], task: Task) -> Iterator[Finding]:
    """The number of episodes, their seeds, and the first states that these give."""
    stated = provenance.get("dataset")
    seed = stated.get("seed") if isinstance(stated, Mapping) else None
    if not isinstance(stated, Mapping) or type(seed) is not int or not 0 <= seed < SEED_LIMIT:
        yield Finding("recipe", None, None, "a table `dataset` with episodes and seed", repr(stated)[:80])
        return
    if stated.get("episodes") != dataset.metadata["total_episodes"]:
        got = str(dataset.metadata["total_episodes"])
        yield Finding("episodes", None, None, f"{stated.get('episodes')} (of the recipe)", got)
    if dataset.seeds is None:
        if len(dataset.lengths):
            yield Finding("seed", None, None, "one for each episode", "none in some")
        return
    wanted = episode_seeds(seed, int(dataset.numbers.max(initial=-1)) + 1)[dataset.numbers]
    rows = np.cumsum(dataset.lengths + 1) - dataset.lengths - 1
    for i, number in enumerate(dataset.numbers.tolist()):
        if dataset.seeds[i] != wanted[i]:
            yield Finding("seed", number, None, str(wanted[i]), str(dataset.seeds[i]))
            continue
        state = episode_stream(int(wanted[i])).random(task.state_dim, dtype=np.float32)
        stored = dataset.observations[rows[i], : task.state_dim]
        apart = np.flatnonzero(state != stored)
        if len(apart):
            j = apart[0]
            yield Finding("first observation", number, 0, f"{state[j]:.6g} in channel {j}", f"{stored[j]:.6g}")


def _against_hash(dataset: Dataset, provenance: Mapping[str, Any]) -> Iterator[Finding]:
    """The content hash, recomputed."""
    stored, now = provenance.get("sha256"), content_sha256(_digests(dataset))
    if stored != now:
        yield Finding("content hash", None, None, str(stored), now)


def _digests(dataset: Dataset) -> Iterator[bytes]:
    """One digest per episode."""
    steps = np.concatenate([[0], np.cumsum(dataset.lengths)]).tolist()
    optimal, densities = dataset.optimal_actions, dataset.log_densities
    for i, (begin, end) in enumerate(itertools.pairwise(steps)):
        step, row = slice(begin, end), slice(begin + i, end + i + 1)
        yield episode_digest(
            observations=dataset.observations[row],
            actions=dataset.actions[step],
            rewards=dataset.rewards[step],
            terminations=dataset.terminations[step],
            truncations=dataset.truncations[step],
            optimal_actions=None if optimal is None else optimal[row],
            log_densities=None if densities is None else densities[row],
        )


def _limited(findings: list[Finding]) -> Iterator[Finding]:
    """Findings in their order; of one check no more than can be read, then how many there are."""
    seen: Counter[str] = Counter()
    for finding in findings:
        seen[finding.check] += 1
        if seen[finding.check] <= TOLD:
            yield finding
    for check, count in seen.items():
        if count > TOLD:
            yield Finding(check, None, None, "no more of it", f"{count - TOLD} further episodes")
