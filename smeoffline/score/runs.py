"""Evaluate what training left on disk: a run's folder or a policy's file, beside the dataset it is measured by."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smeoffline.data.acting import Policy
from smeoffline.data.policy_file import OnnxPolicy, load_policy
from smeoffline.data.recipe import Recipe
from smeoffline.data.storage import folders, metadata
from smeoffline.errors import DatasetError, PolicyError, SmeofflineWarning, SpecError, TrainingError
from smeoffline.score.critics.agreement import Tell, critic_values, untold
from smeoffline.score.evaluate import Evaluation, evaluate_policy
from smeoffline.sme import probes
from smeoffline.sme.values import check_exact
from smeoffline.train.algorithms import ALGORITHMS
from smeoffline.train.files import write_atomically
from smeoffline.train.record import RunRecord
from smeoffline.train.run_folder import EVALUATION, find_run, open_run

if TYPE_CHECKING:
    from smeoffline.train.trainer import Learner


def evaluate(
    target: str | Path | Policy,
    *,
    dataset: str | Path | None = None,
    n_probes: int = probes.DEFAULT_PROBES,
    seed: int = probes.DEFAULT_SEED,
    values: bool = False,
    tell: Tell = untold,
) -> Evaluation:
    """Score a run, a policy's file, or a policy in memory.

    Args:
        target: A run's folder, or one with a single run in it; an ONNX file; or a callable from observations
            (B, N_s + 2) to actions (B, N_a). A run's evaluation on its own dataset is also written into the run's
            folder, `evaluation.json`, unless it says less than the one that is there; a warning tells so.
        dataset: Whose task and behavior the scores refer to: an id or a folder. A run knows its own.
        n_probes: Uniform and out-of-distribution probes, each; in [1, 10^7].
        seed: In [0, 2^32).
        values: Also compare the run's critics with the truth (see `critic_values`, also for how long it takes).
        tell: Told what is being done.

    Returns:
        The same numbers each time.

    Raises:
        DatasetError: There is no such dataset, or it is not an SME, so that nobody knows its optimum.
        PolicyError: No policy there, not one, or one of other dimensions.
        TrainingError: The run is not finished, its record is damaged, or it has no critics to compare.
        SpecError: Critics were asked for where there is no run, or where Q* is not known.
    """
    if values and (callable(target) or not Path(target).is_dir()):
        raise SpecError(
            "evaluate: critics are in a run's checkpoint, and a policy alone has none; give the run's folder, "
            "or leave out --values"
        )
    if callable(target):
        return evaluate_policy(target, recipe_of(_needed(dataset)), n_probes=n_probes, seed=seed)
    tell("scores")
    path = Path(target)
    if not path.is_dir():
        policy = load_policy(path)
        recipe = recipe_of(_needed(dataset))
        check_fits(policy, recipe)
        return evaluate_policy(policy, recipe, n_probes=n_probes, seed=seed)
    path = find_run(path)
    record, policy = open_run(path)
    found = dataset if dataset is not None else _dataset_of_run(record.dataset_id, record.dataset_path)
    header = metadata.read(folders.find(found))
    recipe = _recipe(header)
    check_fits(policy, recipe)
    learner = _critics(path, record, recipe) if values else None
    evaluation = evaluate_policy(policy, recipe, n_probes=n_probes, seed=seed)
    if learner is not None:
        compared = critic_values(
            learner.values, policy, recipe, discount=_discount(record), n_probes=n_probes, seed=seed, tell=tell
        )
        evaluation = replace(evaluation, values=compared)
    if header.id == record.dataset_id:  # the file doesn't name a dataset, so it speaks of the run's own
        _keep(path, evaluation.to_dict())
    return evaluation


def _keep(run: Path, record: dict[str, Any]) -> None:
    """Write an evaluation into its run's folder, unless that would lose what is there.

    The policy is the one that was evaluated before, since training removes the file: two evaluations differ in
    their probes, their seed and whether the critics were compared, and in nothing else.
    """
    path = run / EVALUATION
    stored = _stored(path)
    lacks_values = "values" in stored and "values" not in record
    if (stored.get("probes"), stored.get("seed")) == (record["probes"], record["seed"]):
        if lacks_values:
            record["values"] = stored["values"]
    elif stored and (lacks_values or stored["probes"] >= record["probes"]):
        warnings.warn(
            f"run {run}: {EVALUATION} keeps {_told(stored)}; this evaluation, {_told(record)}, is not stored; "
            "to store it, remove the file and evaluate again",
            SmeofflineWarning,
            stacklevel=3,
        )
        return
    write_atomically(path, (json.dumps(record, indent=2, allow_nan=False) + "\n").encode())


def _stored(path: Path) -> dict[str, Any]:
    """The evaluation in a file; empty where there is none, or it is damaged and nothing is lost with it."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    whole = isinstance(found, dict) and all(isinstance(found.get(key), int) for key in ("probes", "seed"))
    return found if whole else {}


def _told(record: dict[str, Any]) -> str:
    """`10,000 probes of seed 0 with values`."""
    return f"{record['probes']:,} probes of seed {record['seed']}" + (" with values" if "values" in record else "")


def short_names(targets: Sequence[str]) -> list[str]:
    """Runs' folders, or files, without what is above them; as they were given where that tells two not apart."""
    short = [Path(target).name or target for target in targets]
    return short if len(set(short)) == len(set(targets)) else list(targets)


def recipe_of(dataset: str | Path) -> Recipe:
    """The recipe in a dataset's metadata; its data are not read.

    Raises:
        DatasetNotFoundError: No such dataset (with near ids).
        DatasetError: It is not an SME.
        VersionError: A newer version wrote it.
    """
    return _recipe(metadata.read(folders.find(dataset)))


def _recipe(header: metadata.Header) -> Recipe:
    """The recipe of a dataset that says what it is."""
    if header.provenance is None:
        raise DatasetError(
            f"dataset {header.id!r}: is not a Synthetic Monitoring Environment, so its optimal actions "
            "are not known and nothing can be scored; evaluate on a dataset made by smeoffline"
        )
    tables: dict[str, Any] = {key: header.provenance.get(key) for key in ("task", "behavior", "dataset")}
    try:
        return Recipe.from_dict(tables)
    except (SpecError, PolicyError) as fault:
        raise DatasetError(f"dataset {header.id!r}: its metadata can't be used: {fault}") from None


def _critics(run: Path, record: RunRecord, recipe: Recipe) -> Learner:
    """The networks of a run whose critics can be compared with the truth.

    Raises:
        TrainingError: Its algorithm has no critics, or is not one of ours, whose critics nobody knows.
        SpecError: Q* is not known for this task or discount.
    """
    algorithm = ALGORITHMS.get(record.algorithm)
    if algorithm is None:
        raise TrainingError(
            f"run {run}: {record.algorithm} is your own algorithm, of which only the policy is kept; "
            "evaluate it without --values"
        )
    if not algorithm.values:
        raise TrainingError(f"run {run}: {algorithm.name} has no critic; evaluate it without --values")
    check_exact(recipe.task, _discount(record))
    from smeoffline.train.shipped_run import load_learner  # d3rlpy takes 2 s

    return load_learner(run)


def _discount(record: RunRecord) -> float:
    """What a run's critics were trained with."""
    return float(record.hyperparameters["gamma"])


def _needed(dataset: str | Path | None) -> str | Path:
    if dataset is None:
        raise SpecError("evaluate: a policy alone does not know its dataset; name it with --dataset ID")
    return dataset


def _dataset_of_run(dataset_id: str, path: str) -> str | Path:
    """Where a run's dataset lies: where it did, or wherever its id is found now."""
    return Path(path) if Path(path).is_dir() else dataset_id


def check_fits(policy: OnnxPolicy, recipe: Recipe) -> None:
    """Refuse a policy of other dimensions than the task's.

    Raises:
        PolicyError: Says both.
    """
    task = recipe.task
    has, wanted = (policy.observation_dim, policy.action_dim), (task.state_dim + 2, task.action_dim)
    if has != wanted:
        raise PolicyError(
            f"policy {policy.path}: expected {wanted[0]} observation and {wanted[1]} action channels, as the dataset "
            f"has, got a policy for {has[0]} and {has[1]}"
        )
