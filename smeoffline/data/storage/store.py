"""Datasets on disk: write one whole or not at all, read one checked, list them.

    with store.create("sme/mine-v0", observation_dim=10, action_dim=4, env_spec_json=text) as writer:
        writer.write(block)          # any number of blocks; memory holds one
        path = writer.commit({...})  # without it, leaving the block removes all that was written
    dataset = store.read("sme/mine-v0")

What is written is a plain Minari dataset (HDF5): see `hdf5` for its layout and `metadata` for its fields.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from smeoffline.data.storage import folders, metadata
from smeoffline.data.storage.episodes import Episodes
from smeoffline.data.storage.findings import Finding, first_fault
from smeoffline.data.storage.folders import DatasetId, Listed, datasets_root, list_datasets
from smeoffline.data.storage.metadata import PROVENANCE, SCHEMA
from smeoffline.data.storage.reading import read_episodes
from smeoffline.data.storage.staging import Staging
from smeoffline.data.storage.values import out_of_range
from smeoffline.data.storage.writing import DatasetWriter, Plan

__all__ = [
    "PROVENANCE", "SCHEMA", "Checked", "Dataset", "DatasetWriter", "Listed",
    "check", "create", "datasets_root", "list_datasets", "read",
]  # fmt: skip


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset(Episodes):
    """A dataset in memory: E episodes with N steps in all, D observation channels, A action channels.

    Attributes:
        id: Minari's `dataset_id`.
        path: Its folder.
        metadata: Minari's `metadata.json` as it stands.
        provenance: The `smeoffline` object in it; None for a dataset that is not ours.
        (arrays): Those of `Episodes`.
    """

    id: str
    path: Path
    metadata: dict[str, Any]
    provenance: dict[str, Any] | None


@dataclass(frozen=True, eq=False)
class Checked:
    """A dataset, and everything that is wrong with its structure.

    Attributes:
        dataset: Of the episodes that are whole (see `Episodes.numbers`).
        findings: In the order of the checks; empty for a sound dataset.
    """

    dataset: Dataset
    findings: tuple[Finding, ...]


def create(
    dataset_id: str,
    *,
    observation_dim: int,
    action_dim: int,
    env_spec_json: str,
    components: bool = False,
    overwrite: bool = False,
    root: Path | None = None,
) -> DatasetWriter:
    """Begin a dataset. It appears under its id at `commit`, whole; until then nothing is seen of it.

    Args:
        dataset_id: `namespace/name-v0`, as Minari takes it.
        observation_dim: D; the observation space is Box(0, 1, (D,)).
        action_dim: A; the action space is Box(0, 1, (A,)).
        env_spec_json: A Gymnasium EnvSpec's JSON, from which Minari recovers the environment.
        components: Whether to store, for each episode, which behavior acted.
        overwrite: Whether to replace an existing dataset of this id, at `commit`.
        root: Instead of Minari's own root.

    Returns:
        A writer, to be used in a `with` statement.

    Raises:
        DatasetExistsError: The id is taken, and `overwrite` is false.
        DatasetError: Minari forbids the id, or something is in the way.
    """
    identity, place = DatasetId.parse(dataset_id), datasets_root(root)
    staging = Staging(identity, place, overwrite=overwrite)
    staging.check_free()
    plan = Plan(identity, place, observation_dim, action_dim, env_spec_json, components)
    return DatasetWriter(plan, staging)


def check(dataset: str | Path, *, root: Path | None = None) -> Checked:
    """Read a dataset and tell everything that is wrong with its structure.

    Args:
        dataset: An id, or the folder of a dataset.
        root: Instead of Minari's own root.

    Raises:
        DatasetNotFoundError: There is none; names ids that are near.
        DatasetError: Its files can't be read at all, or hold data of another kind.
        VersionError: A newer version of this package wrote it.
    """
    folder = folders.find(dataset, root)
    header = metadata.read(folder)
    episodes, findings = read_episodes(folder / "data" / metadata.DATA_FILE, header)
    for key, told, found in (
        ("total_episodes", header.episodes, len(episodes.lengths) + _dropped(findings)),
        ("total_steps", header.steps, int(episodes.lengths.sum())),
    ):
        if told != found and (key == "total_episodes" or not _dropped(findings)):
            findings.append(Finding(key, None, None, f"{found} (in the data)", f"{told} (in the metadata)"))
    findings += out_of_range(episodes)
    held = {f.name: getattr(episodes, f.name) for f in fields(episodes)}
    read_here = Dataset(**held, id=header.id, path=folder, metadata=header.raw, provenance=header.provenance)
    return Checked(read_here, tuple(findings))


def read(dataset: str | Path, *, root: Path | None = None) -> Dataset:
    """Read a dataset into flat arrays, after the same checks as `check`.

    Args:
        dataset: An id, or the folder of a dataset; ours, or any Minari dataset of one-dimensional float
            observations and actions (converted to float32).
        root: Instead of Minari's own root.

    Raises:
        DatasetNotFoundError: There is none; names ids that are near.
        DatasetFaultError: The data contradict themselves; names the episode and step.
        DatasetError: Its files can't be read at all, or hold data of another kind.
        VersionError: A newer version of this package wrote it.
    """
    checked = check(dataset, root=root)
    fault = first_fault(checked.dataset.id, checked.findings)
    if fault is not None:
        raise fault
    return checked.dataset


def _dropped(findings: list[Finding]) -> int:
    """Episodes that the file has but that could not be kept."""
    return len({finding.episode for finding in findings if finding.episode is not None})
