"""One algorithm of a suite, with its settings."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from smeoffline.errors import SpecError
from smeoffline.sme.task import known_keys, whole_number
from smeoffline.train.algorithms import find_algorithm

MAX_STEPS = 10**9
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # also part of file names
OWN_ALGORITHM = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@dataclass(frozen=True)
class Entry:
    """One algorithm of a suite.

    Attributes:
        name: A known algorithm's, or `module:attr` for your own.
        variant: Tells two entries of one algorithm apart in results and reports; None where there is one.
        settings: Hyperparameters that differ from the algorithm's defaults.
        steps: Training steps instead of the suite's; None for the suite's.

    Raises:
        SpecError: An unknown algorithm (with the nearest) or a bad value.
    """

    name: str
    variant: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    steps: int | None = None

    def __post_init__(self) -> None:
        """Validate what needs no algorithm's code."""
        if not isinstance(self.name, str):
            raise SpecError(f"algorithm: name must be text, got {self.name!r}")
        if OWN_ALGORITHM.fullmatch(self.name) is None:
            find_algorithm(self.name)
        if self.variant is not None and not is_name(self.variant):
            raise SpecError(f"algorithm {self.name!r}: variant must be of letters, digits, . _ -, got {self.variant!r}")
        if not isinstance(self.settings, Mapping):
            raise SpecError(f"algorithm {self.name!r}: settings must be a table, got {self.settings!r}")
        if self.steps is not None:
            step_count(f"algorithm {self.name!r}", self.steps)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Entry:
        """An entry from an [[algorithms]] table.

        Raises:
            SpecError: An unknown key (with the nearest), a missing name, or a bad value.
        """
        known_keys("algorithm", fields, [f.name for f in dataclasses.fields(cls)])
        if "name" not in fields:
            raise SpecError("algorithm: expected a name, as in name = 'iql', got none")
        return cls(**fields)


def step_count(owner: str, value: object) -> int:
    """A number of training steps.

    Raises:
        SpecError: It is none; the text begins with `owner`.
    """
    return whole_number(owner, "steps", value, 1, MAX_STEPS)


def is_name(value: object) -> bool:
    """Whether a value can be part of a file's name."""
    return isinstance(value, str) and NAME.fullmatch(value) is not None
