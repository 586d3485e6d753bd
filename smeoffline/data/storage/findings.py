"""What is wrong with a dataset, in a form that people and programs can read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smeoffline.errors import DatasetFaultError


@dataclass(frozen=True)
class Finding:
    """One contradiction in a dataset.

    Attributes:
        check: What was compared, such as `rewards` or `total_steps`.
        episode: Where, or None for the dataset as a whole.
        step: Where in the episode, or None for the episode as a whole.
        expected: What should be there.
        got: What is there.
    """

    check: str
    episode: int | None
    step: int | None
    expected: str
    got: str

    def __str__(self) -> str:
        """`episode 7, step 13: rewards: expected 0.93, got 1.93`."""
        places = (("episode", self.episode), ("step", self.step))
        where = ", ".join(f"{name} {index}" for name, index in places if index is not None)
        return f"{where + ': ' if where else ''}{self.check}: expected {self.expected}, got {self.got}"


def first_fault(dataset_id: str, findings: Iterable[Finding]) -> DatasetFaultError | None:
    """The error that tells of the first finding, or None where there is none."""
    found = list(findings)
    if not found:
        return None
    more = f" (and {len(found) - 1} more faults)" if len(found) > 1 else ""
    return DatasetFaultError(f"dataset {dataset_id!r}: {found[0]}{more}; `sme-offline inspect` lists the faults")
