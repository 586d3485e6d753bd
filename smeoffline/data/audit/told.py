"""What a dataset's metadata tell beyond its data, against what follows from its recipe."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

from smeoffline.data.audit.regeneration import Regeneration
from smeoffline.data.generate import env_spec
from smeoffline.data.recipe import Recipe
from smeoffline.data.reference import reference_returns, references
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage.findings import Finding
from smeoffline.errors import PolicyError, SpecError

SCORE_TOLERANCE = 1e-4
# Returns of killed or shaped episodes come from trajectories, which part between processors; their means hardly do.
RETURN_TOLERANCE = 0.05
LARGEST_RETURN = 1e12
SHOWN = 80  # characters of a value in a finding


def against_recipe(metadata: Mapping[str, Any], provenance: Mapping[str, Any]) -> Iterator[Finding]:
    """The recipe itself, its environment, its reference scores and returns.

    Args:
        metadata: Minari's `metadata.json`.
        provenance: The `smeoffline` object in it.
    """
    recipe, findings = stated_recipe(provenance)
    yield from findings
    if recipe is not None:
        ready = Regeneration(recipe, recipe.task.build())
        yield from against_rollout(metadata, provenance, ready, reference_returns(ready.rollout))


def stated_recipe(provenance: Mapping[str, Any]) -> tuple[Recipe | None, list[Finding]]:
    """The recipe in the metadata, None where it can't be used, and what is wrong with it."""
    tables = {key: provenance.get(key) for key in ("task", "behavior", "dataset")}
    try:
        recipe = Recipe.from_dict(tables)
    except (SpecError, PolicyError) as fault:  # a policy without its hash, whose file is elsewhere
        return None, [_finding("recipe", "a recipe that can be used", str(fault))]
    for key, value in recipe.to_dict().items():
        if tables[key] != value:
            return recipe, [_finding("recipe", f"{key} with all its fields, {value}", tables[key])]
    return recipe, []


def against_rollout(
    metadata: Mapping[str, Any], provenance: Mapping[str, Any], ready: Regeneration, returns: tuple[float, float]
) -> Iterator[Finding]:
    """The environment, the reference scores and returns that follow from a recipe.

    Args:
        metadata: Minari's `metadata.json`.
        provenance: The `smeoffline` object in it.
        ready: The recipe; its scores are left out where the file of base `policy` is elsewhere.
        returns: Of random and of optimal actions.
    """
    yield from _environment(metadata, ready.recipe)
    if not ready.missing:
        yield from _scores(provenance.get("scores"), ready.rollout)
    yield from _returns(metadata, returns)


def _environment(metadata: Mapping[str, Any], recipe: Recipe) -> Iterator[Finding]:
    """The environment that Minari would recover: code of that name runs, so it must be ours."""
    wanted = json.loads(env_spec(recipe.task).to_json())
    try:
        stated = json.loads(metadata["env_spec"])
    except (KeyError, TypeError, ValueError, RecursionError):
        stated = None
    for key in ("id", "entry_point", "kwargs", "additional_wrappers", "vector_entry_point"):
        found = stated.get(key) if isinstance(stated, dict) else None
        if _plain(found) != _plain(wanted.get(key)):
            yield _finding("env_spec", f"{key} {wanted.get(key)}", found)
            return


def _plain(value: Any) -> Any:
    """Nothing, an empty list and null mean the same in a spec."""
    return value if value else None


def _scores(stated: Any, rollout: Rollout) -> Iterator[Finding]:
    """The reference rows, recomputed."""
    for key, wanted in references(rollout).to_dict().items():
        found = stated.get(key) if isinstance(stated, Mapping) else None
        near = isinstance(found, float) and abs(found - wanted) <= SCORE_TOLERANCE
        if not (found is wanted if isinstance(wanted, bool) else near):
            yield _finding("scores", f"{key} {wanted:.6g}", found)


def _returns(metadata: Mapping[str, Any], returns: tuple[float, float]) -> Iterator[Finding]:
    """Minari's reference returns, recomputed."""
    for key, wanted in zip(("ref_min_score", "ref_max_score"), returns, strict=True):
        found = metadata.get(key)
        number = float(found) if isinstance(found, (int, float)) and abs(found) < LARGEST_RETURN else math.nan
        if not abs(number - wanted) <= RETURN_TOLERANCE * max(1.0, abs(wanted)):  # also where it is no number
            yield _finding("returns", f"{key} {wanted:.6g}", found)


def _finding(check: str, expected: str, got: Any) -> Finding:
    text = str(got)
    return Finding(check, None, None, expected, text if len(text) <= SHOWN else f"{text[:SHOWN]}...")
