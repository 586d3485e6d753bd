"""Where two arrays of a dataset don't agree, row by row, and how that is told."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.data.storage.findings import Finding
from smeoffline.sme.arrays import Ints

TOLERANCE = 1e-4  # between processors, of one step


@dataclass(frozen=True)
class Mismatch:
    """Rows of one array of a part that don't agree; the first of each episode is what to tell.

    Attributes:
        check: What was recomputed.
        episodes: (n,) index of each row's episode in the dataset, not decreasing.
        steps: (n,) its step.
        expected: (n,) text.
        got: (n,) text.
    """

    check: str
    episodes: Ints
    steps: Ints
    expected: list[str]
    got: list[str]


def differing(check: str, expected: npt.NDArray[Any], got: npt.NDArray[Any], episodes: Ints, steps: Ints) -> Mismatch:
    """The first row of each episode whose numbers are further apart than one step may be between processors.

    Args:
        check: What was recomputed.
        expected: (n,) or (n, channels).
        got: The same shape; what is not finite is a finding of its own, and left out here.
        episodes: (n,) index of each row's episode in the dataset, not decreasing.
        steps: (n,) its step.
    """
    width = expected.reshape(len(expected), -1).shape[1]
    wanted, found = expected.reshape(-1, width), got.reshape(-1, width)
    apart = np.abs(wanted - found) > TOLERANCE
    bad = np.flatnonzero(apart.any(axis=1))
    bad = bad[np.unique(episodes[bad], return_index=True)[1]]
    channel = apart[bad].argmax(axis=1)
    where = [f" in channel {j}" if width > 1 else "" for j in channel]
    return Mismatch(
        check,
        episodes[bad],
        steps[bad],
        [f"{wanted[i, j]:.6g}{text}" for i, j, text in zip(bad, channel, where, strict=True)],
        [f"{found[i, j]:.6g}" for i, j in zip(bad, channel, strict=True)],
    )


def first_of_each(mismatch: Mismatch, numbers: Ints) -> Iterator[Finding]:
    """The first row of each episode as a finding; `numbers` are those of all episodes of the dataset."""
    _, first = np.unique(mismatch.episodes, return_index=True)
    for i in first:
        number = int(numbers[mismatch.episodes[i]])
        yield Finding(mismatch.check, number, int(mismatch.steps[i]), mismatch.expected[i], mismatch.got[i])
