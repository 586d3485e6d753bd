"""Inspect a dataset: what it is, and whether everything in it follows from the task and the seeds it names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data.audit import replay, told
from smeoffline.data.audit.mismatch import TOLERANCE, first_of_each
from smeoffline.data.audit.portrait import Portrait, Sketch, episode_returns
from smeoffline.data.audit.regeneration import Regeneration, byte_findings, same_platform
from smeoffline.data.reference import reference_returns
from smeoffline.data.rollout import rows_per_block
from smeoffline.data.storage import store
from smeoffline.data.storage.episodes import content_sha256, episode_digests
from smeoffline.data.storage.findings import Finding
from smeoffline.data.storage.store import Dataset
from smeoffline.errors import SpecError
from smeoffline.sme.arrays import Ints
from smeoffline.sme.model import Sme
from smeoffline.sme.task import Task

__all__ = ["Finding", "Inspection", "inspect"]

TOLD = 100  # findings of one check that are listed; the others are counted
SAMPLE_STEPS = 2**16  # rolled out again: two blocks of 256 episodes of 100 steps
LONGEST_SAMPLE = 200_000  # steps times layers: one after the other, beyond this they take too long


@dataclass(frozen=True)
class Inspection:
    """What an audit found.

    Attributes:
        ok: Whether nothing is wrong.
        findings: What is wrong, at most one per check and episode, told at its first step.
        dataset_id: Its id.
        description: JSON values: `episodes`, `transitions`, `behavior`, sizes; `coverage` (see `Coverage`),
            `zero_reward_share`, `duplicates` (episodes equal to an earlier one); and for ours the numbers of
            the task, `behavior_episodes` (of a mixture: episodes of each behavior), `quality`,
            `rolled_out_again` (episodes compared byte for byte), `scores`, `sha256`, `platform`, `versions`,
            `recipe` (task, behavior, dataset).
        unchecked: What could not be checked, and why.
        portrait: The dataset as pictures need it.
    """

    ok: bool
    findings: tuple[Finding, ...]
    dataset_id: str
    description: dict[str, Any]
    unchecked: tuple[str, ...]
    portrait: Portrait


def inspect(dataset: str | Path) -> Inspection:
    """Audit a dataset: its structure; and for ours, every step against the task and its seeds, and the hash.

    Args:
        dataset: An id, or the folder of a dataset.

    Raises:
        DatasetNotFoundError: There is none; names ids that are near.
        DatasetError: Its files can't be read at all, or hold data of another kind.
        VersionError: A newer version of this package wrote it.
    """
    checked = store.check(dataset)
    found = checked.dataset
    audit = _Audit(found, list(checked.findings))
    if found.provenance is None:
        audit.unchecked.append("rewards, transitions, optimal actions and seeds: it names no task of smeoffline")
        portrait = audit.look(None, None)
    else:
        portrait = audit.against_task(found.provenance)
        if len(checked.findings) == 0:
            audit.against_hash(found.provenance)
    kept = tuple(_limited(audit.findings))
    return Inspection(not kept, kept, found.id, {**describe(found), **audit.measures}, tuple(audit.unchecked), portrait)


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
    acted = _behavior_episodes(dataset.components, recipe["behavior"])
    return {**sizes, **acted, "smeoffline": True, **_task_fields(recipe["task"]), **rest, "recipe": recipe}


def _behavior_episodes(components: Ints | None, behaviors: object) -> dict[str, list[int]]:
    """How many episodes each behavior of a mixture acts in: by chance, so not exactly its share of them."""
    if components is None or not isinstance(behaviors, list) or len(behaviors) < 2:
        return {}
    counts = Counter(components.tolist())
    return {"behavior_episodes": [counts[i] for i in range(len(behaviors))]}


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


@dataclass
class _Audit:
    """An audit on its way.

    Attributes:
        dataset: What is audited.
        findings: So far.
        unchecked: See `Inspection`.
        measures: What goes beside the description.
    """

    dataset: Dataset
    findings: list[Finding]
    unchecked: list[str] = field(default_factory=list)
    measures: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Hash every episode."""
        self._digests = list(episode_digests(self.dataset))

    def look(self, sme: Sme | None, ready: Regeneration | None) -> Portrait:
        """Go through the data once: every step against the task and the seeds, as far as there are any."""
        found = self.dataset
        sketch = Sketch(found, sme)
        for part in replay.parts(found):
            if sme is None:
                sketch.add(part)
                continue
            recomputed = replay.Replay(sme, part)
            for mismatch in recomputed.mismatches():
                self.findings += first_of_each(mismatch, found.numbers)
            if ready is not None:
                self.findings += ready.steps(found, part, recomputed.preactivation)
            sketch.add(part, recomputed.scores)
        portrait = sketch.portrait()
        coverage = portrait.coverage
        self.measures["coverage"] = None if coverage is None else coverage.to_dict()
        self.measures["zero_reward_share"] = portrait.zero_rewards
        copies = self._copies()
        self.measures["duplicates"] = len(copies)
        if sme is not None:
            self._duplicates(copies)
        return portrait

    def against_task(self, provenance: Mapping[str, Any]) -> Portrait:
        """Everything that the task and the recipe say about the data."""
        found = self.dataset
        task = self._task(provenance)
        recipe, faults = told.stated_recipe(provenance)
        self.findings += faults
        if task is None:
            self.unchecked.append("rewards, transitions, optimal actions and seeds: there is no task that fits")
            return self.look(None, None)
        sme = task.build()
        if recipe is None:
            self.unchecked.append("seeds and behavior: the recipe can't be used")
            return self.look(sme, None)
        ready = Regeneration(recipe, sme)
        self._stated_episodes(ready)
        self.findings += ready.whole(found)
        self.unchecked += [f"actions and densities of a behavior: {reason}" for reason in ready.missing]
        portrait = self.look(sme, ready)
        self._against_bytes(provenance, ready)
        returns = reference_returns(ready.rollout)
        self._quality(returns, provenance, portrait)
        if not faults:
            self.findings += told.against_rollout(found.metadata, provenance, ready, returns)
        return portrait

    def against_hash(self, provenance: Mapping[str, Any]) -> None:
        """The content hash, recomputed."""
        stored, now = provenance.get("sha256"), content_sha256(self._digests)
        if stored != now:
            self.findings.append(Finding("content hash", None, None, str(stored)[:80], now))

    def _task(self, provenance: Mapping[str, Any]) -> Task | None:
        """The task that the data can be compared with."""
        try:
            task = Task.from_dict(provenance["task"])
        except (SpecError, KeyError) as fault:
            got = str(fault) if fault.args[0] != "task" else "none"
            self.findings.append(Finding("task", None, None, "a task in the metadata", got))
            return None
        for name, width in (("observation", task.state_dim + 2), ("action", task.action_dim)):
            got_width = getattr(self.dataset, f"{name}s").shape[1]
            if got_width != width:
                self.findings.append(Finding(f"{name} channels", None, None, f"{width} for this task", str(got_width)))
                return None
        if self.dataset.optimal_actions is None and len(self.dataset.lengths):
            expected = "one for each observation of each episode"
            self.findings.append(Finding("optimal action", None, None, expected, "none"))
        return task

    def _stated_episodes(self, ready: Regeneration) -> None:
        """The number of episodes that the recipe states."""
        stated, total = ready.recipe.episodes, self.dataset.metadata["total_episodes"]
        if stated != total:
            self.findings.append(Finding("episodes", None, None, f"{stated} (of the recipe)", str(total)))

    def _copies(self) -> dict[int, int]:
        """Index of each episode that is equal to an earlier one -> index of that."""
        first: dict[bytes, int] = {}
        copies = {i: first.setdefault(digest, i) for i, digest in enumerate(self._digests)}
        return {i: original for i, original in copies.items() if original != i}

    def _duplicates(self, copies: Mapping[int, int]) -> None:
        """Two episodes of ours may be equal by chance in tiny tasks; not where the seed gives another start."""
        numbers = self.dataset.numbers
        astray = {f.episode for f in self.findings if f.check in ("first observation", "seed")}
        for i, original in copies.items():
            if int(numbers[i]) in astray or int(numbers[original]) in astray:
                got = f"the same as episode {numbers[original]}"
                self.findings.append(Finding("duplicate", int(numbers[i]), 0, "an episode of its own", got))

    def _against_bytes(self, provenance: Mapping[str, Any], ready: Regeneration) -> None:
        """Roll a sample of episodes out again, where the same bytes can be expected."""
        self.measures["rolled_out_again"] = 0
        reason = _no_bytes(provenance, ready)
        if reason is not None:
            self.unchecked.append(f"bytes: {reason}; each step was compared, within {TOLERANCE:g}")
            return
        chosen = _sample(ready.recipe.task, len(self.dataset.lengths))
        faulty = {finding.episode for finding in self.findings}
        for finding in byte_findings(self.dataset, ready, chosen):
            if finding.episode not in faulty:
                self.findings.append(finding)
        self.measures["rolled_out_again"] = len(chosen)

    def _quality(self, returns: tuple[float, float], provenance: Mapping[str, Any], portrait: Portrait) -> None:
        """Trajectory quality (Schweighofer et al. 2022): 0 is the return of random actions, 1 the optimum's."""
        earned = episode_returns(self.dataset)
        mean = float(earned.mean()) if len(earned) and np.isfinite(earned).all() else None
        worst, best = returns
        scores = provenance.get("scores")
        self.measures["quality"] = {
            "trajectory_quality": None if mean is None or best <= worst else (mean - worst) / (best - worst),
            "mean_return": mean,
            "random_return": worst,
            "optimal_return": best,
            "mean_score": None if portrait.scores is None else portrait.scores.mean,
            "headroom": scores.get("headroom") if isinstance(scores, Mapping) else None,
        }


def _no_bytes(provenance: Mapping[str, Any], ready: Regeneration) -> str | None:
    """Why equal bytes can't be expected, or can't be had in an audit's time."""
    task = ready.recipe.task
    if ready.missing:
        return "a behavior can't act"
    if any(component.behavior.base == "policy" for component in ready.recipe.mix):
        return "those of a policy file depend on what runs it, which the platform tag does not tell"
    if not same_platform(provenance.get("platform")):
        return "generated on another platform"
    if task.episode_length * task.complexity > LONGEST_SAMPLE:
        return f"{task.episode_length} steps of {task.complexity} layers take too long to roll out"
    return None


def _sample(task: Task, episodes: int) -> Ints:
    """Indices of the episodes that are rolled out again: whole blocks of them, spread over the dataset."""
    rows = rows_per_block(task)
    size = min(episodes, rows * max(1, SAMPLE_STEPS // (rows * task.episode_length)))
    return np.unique(np.linspace(0, episodes - 1, size).astype(np.int64)) if episodes else np.arange(0)


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
