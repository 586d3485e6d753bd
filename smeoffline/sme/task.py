"""A task is plain, frozen data; everything else about it is computed from these fields.

Source: the Synthetic Monitoring Environment of arXiv 2603.06252; `shaping` and `discount` are ours.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smeoffline.errors import SpecError, nearest

if TYPE_CHECKING:
    from smeoffline.sme.model import Sme

# Upper bounds keep a spec read from a stranger's file from asking for more memory than a machine has.
MAX_DIM = 1024
MAX_COMPLEXITY = 1000
MAX_EPISODE_LENGTH = 100_000
SEED_LIMIT = 2**32  # torch takes seeds modulo 2^32, so larger ones would name the same task twice


def whole_number(owner: str, name: str, value: object, low: int, high: int) -> int:
    """`value` as an int in [low, high].

    Raises:
        SpecError: It is not a whole number (booleans are not) or lies outside.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]  # TypeError is the answer we look for
    except TypeError:
        raise SpecError(f"{owner}: {name} must be a whole number in [{low}, {high}], got {value!r}") from None
    if not low <= number <= high:
        raise SpecError(f"{owner}: {name} must be in [{low}, {high}], got {number}")
    return number


def real_number(owner: str, name: str, value: object, low: float, high: float, *, open_high: bool = False) -> float:
    """`value` as a finite float in [low, high] (or [low, high) with `open_high`).

    Raises:
        SpecError: It is not a finite number or lies outside.
    """
    bracket = ")" if open_high else "]"
    expected = f"{owner}: {name} must be a number in [{low:g}, {high:g}{bracket}"
    try:
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise TypeError
        number = float(value)
    except (TypeError, OverflowError):  # a whole number beyond the largest float overflows
        raise SpecError(f"{expected}, got {value!r}") from None
    if not math.isfinite(number) or not low <= number <= high or (open_high and number == high):
        raise SpecError(f"{expected}, got {number!r}")
    return number


def known_keys(owner: str, given: Mapping[str, Any], known: list[str]) -> None:
    """Refuse a key that nobody reads.

    Raises:
        SpecError: Names the key and the nearest known one.
    """
    for key in given:
        if key not in known:
            raise SpecError(f"{owner}: unknown key {key!r}{nearest(str(key), known)} (known: {', '.join(known)})")


@dataclass(frozen=True)
class Task:
    """One Synthetic Monitoring Environment, named by its parameters.

    Attributes:
        state_dim: N_s, state channels, in [1, 1024].
        action_dim: N_a, action channels, in [1, 1024].
        complexity: C, layers of the optimal policy, in [1, 1000].
        episode_length: T, steps until truncation, in [1, 100000].
        reward_every: k, rewards are accrued and paid every k steps and at truncation; in [1, 100000].
        min_reward: A step whose reward is not above this earns nothing; in [0, 1).
        kill_threshold: D, the episode terminates when a step's reward is below this; in [0, 1].
        shaping: L, weight of the potential-based shaping reward (0: the paper's reward); in [0, 1000].
        discount: g in [0, 1), used by the shaping reward and by the exact values.
        seed: Draws the transition and the optimal policy; in [0, 2^32).

    Raises:
        SpecError: A value is outside its range; the text names the field.
    """

    state_dim: int = 8
    action_dim: int = 4
    complexity: int = 1
    episode_length: int = 100
    reward_every: int = 1
    min_reward: float = 0.0
    kill_threshold: float = 0.0
    shaping: float = 0.0
    discount: float = 0.99
    seed: int = 1

    def __post_init__(self) -> None:
        """Validate and normalize every field, so that equal tasks compare equal."""
        for name, low, high in (
            ("state_dim", 1, MAX_DIM),
            ("action_dim", 1, MAX_DIM),
            ("complexity", 1, MAX_COMPLEXITY),
            ("episode_length", 1, MAX_EPISODE_LENGTH),
            ("reward_every", 1, MAX_EPISODE_LENGTH),
            ("seed", 0, SEED_LIMIT - 1),
        ):
            object.__setattr__(self, name, whole_number("task", name, getattr(self, name), low, high))
        for name, top, open_high in (
            ("min_reward", 1.0, True),
            ("kill_threshold", 1.0, False),
            ("shaping", 1000.0, False),
            ("discount", 1.0, True),
        ):
            value = real_number("task", name, getattr(self, name), 0.0, top, open_high=open_high)
            object.__setattr__(self, name, value + 0.0)  # -0.0 becomes 0.0: one spec, one id

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values; `Task.from_dict` is the inverse."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Task:
        """A task from a mapping of its fields; those left out take their defaults.

        Raises:
            SpecError: An unknown key (with the nearest known one) or a value out of range.
        """
        if not isinstance(fields, Mapping):
            raise SpecError(f"task: expected a table of fields, got {fields!r}")
        known_keys("task", fields, [f.name for f in dataclasses.fields(cls)])
        return cls(**fields)

    def build(self) -> Sme:
        """Draw the weights: the batched model of this task."""
        from smeoffline.sme.model import Sme  # torch is heavy, and a spec alone never needs it

        return Sme(self)
