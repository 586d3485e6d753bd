"""Write a dataset block by block; it appears at its commit, or leaves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.data.storage import hdf5, metadata
from smeoffline.data.storage.disk import sync, write_error
from smeoffline.data.storage.episodes import EpisodeBlock, content_sha256
from smeoffline.data.storage.folders import DatasetId
from smeoffline.data.storage.staging import Staging


@dataclass(frozen=True)
class Plan:
    """What the blocks of a dataset must look like, and where it goes.

    Attributes:
        identity: The dataset.
        root: Minari's root.
        observation_dim: D.
        action_dim: A.
        env_spec_json: A Gymnasium EnvSpec's JSON.
        components: Whether to store which behavior acted.
    """

    identity: DatasetId
    root: Path
    observation_dim: int
    action_dim: int
    env_spec_json: str
    components: bool

    @property
    def target(self) -> Path:
        """The dataset's folder."""
        return self.identity.folder(self.root)

    def check(self, block: EpisodeBlock) -> None:
        """Refuse a block that would make a dataset nobody can read.

        Raises:
            ValueError: A shape, a type or a length is wrong.
        """
        n, steps = block.rewards.shape
        wanted: dict[str, tuple[tuple[int, ...], type[np.generic]]] = {
            "observations": ((n, steps + 1, self.observation_dim), np.float32),
            "actions": ((n, steps, self.action_dim), np.float32),
            "rewards": ((n, steps), np.float32),
            "terminations": ((n, steps), np.bool_),
            "truncations": ((n, steps), np.bool_),
            "optimal_actions": ((n, steps + 1, self.action_dim), np.float32),
            "log_densities": ((n, steps + 1), np.float32),
            "lengths": ((n,), np.int64),
            "seeds": ((n,), np.int64),
            "components": ((n,), np.int64),
        }
        for name, (shape, dtype) in wanted.items():
            array: npt.NDArray[Any] | None = getattr(block, name)
            if array is None and name == "log_densities":
                continue
            if array is None or array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                got = "none" if array is None else f"{array.shape} {array.dtype}"
                raise ValueError(f"block: {name}: expected {shape} {np.dtype(dtype)}, C-contiguous, got {got}")
        if n and not (block.lengths.min() >= 1 and block.lengths.max() <= steps):
            raise ValueError(f"block: lengths: expected [1, {steps}], got {block.lengths.min()}..{block.lengths.max()}")
        if len(block.digests) != n:
            raise ValueError(f"block: digests: expected {n}, got {len(block.digests)}")


class DatasetWriter:
    """A dataset that is being written; made by `create`, used in a `with` statement."""

    def __init__(self, plan: Plan, staging: Staging) -> None:
        self._plan = plan
        self._staging = staging
        self._file: hdf5.EpisodeWriter | None = None
        self._digests: list[bytes] = []
        self._steps = 0
        self._has_densities: bool | None = None

    def __enter__(self) -> DatasetWriter:
        try:
            data = self._staging.open() / "data"
            data.mkdir()
            self._file = hdf5.EpisodeWriter(data / metadata.DATA_FILE, components=self._plan.components)
        except BaseException as fault:
            self._abandon()
            if isinstance(fault, hdf5.FAILURES):
                raise write_error(fault, self._plan.target) from None
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._abandon()

    def write(self, block: EpisodeBlock) -> None:
        """Append the episodes of a block.

        Raises:
            DatasetError: The file system refuses, such as a full disk.
            ValueError: The block's shapes are not those of this dataset.
        """
        file = self._open_file()
        self._plan.check(block)
        has_densities = block.log_densities is not None
        if self._has_densities not in (None, has_densities):
            raise ValueError("block: log_densities: expected in all blocks of a dataset or in none")
        self._has_densities = has_densities
        try:
            file.append(block)
        except hdf5.FAILURES as fault:
            raise write_error(fault, self._plan.target) from None
        self._digests += block.digests
        self._steps += block.transitions

    def commit(self, more: Mapping[str, Any]) -> Path:
        """Finish the dataset and put it in its place.

        Args:
            more: Minari's descriptive metadata (`author`, `description`, `ref_min_score`, ...), and our own
                object under `smeoffline`, to which `schema` and `sha256` (the content hash) are added.

        Returns:
            The dataset's folder.

        Raises:
            DatasetError: The file system refuses.
            DatasetExistsError: Another process made the same dataset meanwhile.
            ValueError: No episode was written, or `more` contradicts what was.
        """
        file = self._open_file()
        if not self._digests:
            raise ValueError("dataset writer: expected at least one episode before the commit, got none")
        try:
            file.close()
            self._file = None
            self._describe(file.path, more)
        except (OSError, RuntimeError) as fault:
            raise write_error(fault, self._plan.target) from None
        return self._staging.publish()

    def _describe(self, data: Path, more: Mapping[str, Any]) -> None:
        """Write the metadata beside the data, and let both reach the disk."""
        contents = metadata.Contents(
            dataset_id=self._plan.identity.text,
            observation_dim=self._plan.observation_dim,
            action_dim=self._plan.action_dim,
            env_spec_json=self._plan.env_spec_json,
            episodes=len(self._digests),
            steps=self._steps,
            sha256=content_sha256(self._digests),
            size=data.stat().st_size,
        )
        described = data.with_name(metadata.FILE)
        described.write_text(metadata.compose(contents, more), encoding="utf-8")
        for path in (data, described, data.parent, data.parent.parent):
            sync(path)

    def _open_file(self) -> hdf5.EpisodeWriter:
        if self._file is None:
            raise ValueError("dataset writer: expected to be used in a `with` statement, before its commit")
        return self._file

    def _abandon(self) -> None:
        """Close everything; what was not committed vanishes."""
        try:
            if self._file is not None:
                self._file.close()
        except hdf5.FAILURES:  # the file is about to be removed
            pass
        finally:
            self._file = None
            self._staging.close()
