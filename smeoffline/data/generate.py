"""From a recipe to a Minari dataset on disk, with everything known about it in its metadata."""

from __future__ import annotations

import contextlib
import importlib.metadata
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from gymnasium.envs.registration import EnvSpec

from smeoffline import __version__
from smeoffline.data.behavior import WITHOUT_NU, Behavior
from smeoffline.data.recipe import DEFAULT_EPISODES, DEFAULT_SEED, Component, Recipe
from smeoffline.data.reference import References, reference_returns, references
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.data.storage.episodes import content_sha256
from smeoffline.sme.env import ENV_ID
from smeoffline.sme.machine import platform_tag
from smeoffline.sme.task import Task, whole_number

PACKAGES = ("torch", "numpy", "scipy", "gymnasium", "minari", "h5py")
MAX_WORKERS = 4096

Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Generated:
    """A dataset that was just written.

    Attributes:
        dataset_id: What `minari.load_dataset` takes.
        path: Its folder.
        episodes: How many.
        transitions: How many, over all episodes.
        behavior_score: Expected score of what acted, on uniform probes.
        imitation_score: The best that cloning it can do.
        headroom: 1 - imitation_score: what is left for the reward to teach.
        sha256: Of all arrays of all episodes in order; equal recipes on equal platforms give equal ones.
        seconds: Wall time.
        references: Every reference row.
    """

    dataset_id: str
    path: Path
    episodes: int
    transitions: int
    behavior_score: float
    imitation_score: float
    headroom: float
    sha256: str
    seconds: float
    references: References

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields, the other reference rows beside them."""
        fields = {**asdict(self), "path": str(self.path)}
        del fields["references"]
        return {**fields, **self.references.to_dict()}


def generate(
    task: Task,
    behavior: Behavior | Sequence[tuple[Behavior, float]] | None = None,
    *,
    episodes: int = DEFAULT_EPISODES,
    seed: int = DEFAULT_SEED,
    dataset_id: str | None = None,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Generated:
    """Generate a dataset and write it where Minari keeps its datasets.

    Args:
        task: The task.
        behavior: What acts; or several (behavior, share), of which each episode draws one; shares sum to 1.
            None is `Behavior()`, which acts optimally.
        episodes: >= 1.
        seed: In [0, 2^63).
        dataset_id: Instead of the id that is built from the arguments.
        overwrite: Replace a dataset of the same id.
        workers: Threads; None for every core this process may use. It changes no byte.
        progress: Called with transitions done and (at most) in all.

    Returns:
        What was written.

    Raises:
        SpecError: A value is out of range.
        DatasetExistsError: The id is taken and `overwrite` is false.
        DatasetError: The id is not one that Minari takes, or the dataset can't be written.
    """
    if behavior is None or isinstance(behavior, Behavior):
        mix: tuple[Component, ...] = (Component(behavior if behavior is not None else Behavior()),)
    else:
        mix = tuple(Component(b, share) for b, share in behavior)
    recipe = Recipe(task, mix, episodes=episodes, seed=seed, name=dataset_id)
    return generate_recipe(recipe, overwrite=overwrite, workers=workers, progress=progress)


def generate_recipe(
    recipe: Recipe,
    *,
    overwrite: bool = False,
    workers: int | None = None,
    progress: Progress | None = None,
    root: Path | None = None,
) -> Generated:
    """`generate` for a recipe, below Minari's root or another one."""
    start = time.perf_counter()
    if workers is not None:
        workers = whole_number("generate", "workers", workers, 1, MAX_WORKERS)
    task = recipe.task
    total, done = recipe.episodes * task.episode_length, 0
    digests: list[bytes] = []
    with store.create(
        recipe.dataset_id,
        observation_dim=task.state_dim + 2,
        action_dim=task.action_dim,
        env_spec_json=env_spec(task).to_json(),
        components=len(recipe.mix) > 1,
        overwrite=overwrite,
        root=root,
    ) as writer:
        rollout = Rollout.prepare(recipe)
        # closed at once on an exception, not when its traceback is let go: no thread computes on
        with contextlib.closing(rollout.blocks(workers)) as blocks:
            for block in blocks:
                writer.write(block)
                digests += block.digests
                done += int(block.lengths.sum())
                if progress is not None:
                    progress(done, total)
        if progress is not None and done < total:
            progress(done, done)  # where episodes ended early, fewer than could have been
        rows = references(rollout)
        sha256 = content_sha256(digests)
        path = writer.commit(metadata(rollout, rows, sha256))
    return Generated(
        dataset_id=recipe.dataset_id,
        path=path,
        episodes=recipe.episodes,
        transitions=done,
        behavior_score=rows.behavior_score,
        imitation_score=rows.imitation_score,
        headroom=rows.headroom,
        sha256=sha256,
        seconds=time.perf_counter() - start,
        references=rows,
    )


def env_spec(task: Task) -> EnvSpec:
    """A spec that Gymnasium can make in a process that never imported this package."""
    return EnvSpec(ENV_ID, entry_point="smeoffline.sme.env:SMEEnv", kwargs=task.to_dict())


def metadata(rollout: Rollout, rows: References, sha256: str) -> dict[str, Any]:
    """Minari's own fields that describe the data, and the object `smeoffline` with all that is known."""
    recipe = rollout.recipe
    worst, best = reference_returns(rollout)
    return {
        "algorithm_name": " + ".join(_described(c.behavior) for c in recipe.mix),
        "description": (
            "Synthetic Monitoring Environment (arXiv 2603.06252) with a known optimal action in every state "
            "(infos/optimal_action, never an algorithm's input). Generated by smeoffline."
        ),
        "ref_min_score": worst,
        "ref_max_score": best,
        store.PROVENANCE: {
            "schema": store.SCHEMA,
            **recipe.to_dict(),
            "scores": rows.to_dict(),
            "sha256": sha256,
            "platform": platform_tag(),
            "versions": {"smeoffline": __version__} | {name: importlib.metadata.version(name) for name in PACKAGES},
        },
    }


def _described(behavior: Behavior) -> str:
    """`bias nu=0.3, probit sigma=0.3`."""
    text = behavior.base if behavior.base in WITHOUT_NU else f"{behavior.base} nu={behavior.nu:g}"
    return text if behavior.sigma == 0 else f"{text}, {behavior.explore} sigma={behavior.sigma:g}"
