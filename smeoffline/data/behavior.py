"""A behavior is a base policy (systematic error of size nu) plus exploration (fresh noise of size sigma)."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.data.exploration import EXPLORATIONS, Exploration, UniformAction, check_sigma
from smeoffline.errors import SpecError, nearest
from smeoffline.sme.task import known_keys, real_number

BASES = ("bias", "weights", "optimal", "random", "policy")
WITHOUT_NU = ("optimal", "random", "policy")
MAX_NOISE = 1000.0


def can_explore(behaviors: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a state can show more than one action: without that, no reward tells what another would have earned.

    Args:
        behaviors: Those of a recipe, as their fields.
    """
    listed = list(behaviors)
    return len(listed) > 1 or any(b.get("base") == "random" or b.get("explore") != "none" for b in listed)


@dataclass(frozen=True)
class Behavior:
    """What acts while a dataset is collected.

    Attributes:
        base: `bias`, Phi(z*(s) + nu xi) with one offset xi ~ N(0, 1) per dataset and channel;
            `weights`, all weights + nu rms(layer) N(0, 1), drawn once; `optimal`, a*; `random`, uniform;
            `policy`, an ONNX file.
        nu: Size of the base's systematic error, >= 0; 0 for `optimal`, `random` and `policy`.
        explore: `none`, `probit`, `gaussian`, `uniform` or `ou`; None is `probit` if sigma > 0, else `none`.
        sigma: Size of the exploration, >= 0; at 0 every kind is `none` and is stored as such.
        policy: The file of base `policy`; None for the others.
        policy_sha256: Its hash, 64 hex digits: computed where it is not given, compared when the file is loaded.

    Raises:
        SpecError: An unknown name (with the nearest), a size that is negative, not finite or without effect.
        PolicyError: The policy's file can't be read.
    """

    base: str = "bias"
    nu: float = 0.0
    explore: str | None = None
    sigma: float = 0.0
    policy: str | None = None
    policy_sha256: str | None = None

    def __post_init__(self) -> None:
        """Validate and normalize, so that behaviors that act alike compare equal."""
        if self.base not in BASES:
            raise SpecError(
                f"behavior: base must be one of {', '.join(BASES)}, got {self.base!r}{nearest(str(self.base), BASES)}"
            )
        for name in ("nu", "sigma"):
            value = real_number("behavior", name, getattr(self, name), 0.0, MAX_NOISE)
            object.__setattr__(self, name, value + 0.0)
        if self.base in WITHOUT_NU and self.nu > 0:
            raise SpecError(f"behavior: nu has no effect with base {self.base!r}, got {self.nu:g}; leave it out")
        if self.base == "random" and (self.sigma > 0 or self.explore not in (None, "none")):
            raise SpecError("behavior: base 'random' takes no explore or sigma; leave them out")
        explore = self.explore if self.explore is not None else ("probit" if self.sigma > 0 else "none")
        if explore not in tuple(EXPLORATIONS):  # a tuple, as a list read from a file can't be hashed
            raise SpecError(
                f"behavior: explore must be one of {', '.join(EXPLORATIONS)}, got {explore!r}"
                f"{nearest(str(explore), EXPLORATIONS)}"
            )
        check_sigma(explore, self.sigma)
        object.__setattr__(self, "explore", explore if self.sigma > 0 else "none")
        self._settle_policy()

    def _settle_policy(self) -> None:
        """Hold a policy's file and its hash where the base is `policy`, and nowhere else."""
        if self.base != "policy":
            if self.policy is not None or self.policy_sha256 is not None:
                raise SpecError(f"behavior: policy needs base 'policy', got base {self.base!r}; leave one out")
            return
        given: Any = self.policy  # read from a file it may be of any type
        if not isinstance(given, (str, Path)) or not str(given):
            got = "none" if given is None else repr(given)
            raise SpecError(
                f"behavior: policy must name an ONNX file for base 'policy', got {got}; give one, such as a run's "
                "policy.onnx"
            )
        object.__setattr__(self, "policy", str(given))
        digest: Any = self.policy_sha256 if self.policy_sha256 is not None else file_sha256(given)
        if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
            raise SpecError(f"behavior: policy_sha256 must be 64 hex digits, got {digest!r}")
        object.__setattr__(self, "policy_sha256", digest)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON values, a policy's only where there is one; `Behavior.from_dict` is the inverse."""
        return {name: value for name, value in dataclasses.asdict(self).items() if value is not None}

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Behavior:
        """A behavior from a mapping of its fields; those left out take their defaults.

        Raises:
            SpecError: An unknown key (with the nearest known one) or a bad value.
            PolicyError: The policy's file can't be read.
        """
        known_keys("behavior", fields, [f.name for f in dataclasses.fields(cls)])
        return cls(**fields)

    def exploration(self) -> Exploration:
        """Its exploration, with size."""
        if self.base == "random":
            return UniformAction(0.0)
        return EXPLORATIONS[str(self.explore)](self.sigma)  # never None: __post_init__ settled it


def file_sha256(path: str | Path) -> str:
    """The hash of a policy's file, 64 hex digits.

    Raises:
        PolicyError: It can't be read, or is too large to be a policy.
    """
    from smeoffline.data.policy_file import read_bounded

    return hashlib.sha256(read_bounded(Path(path))).hexdigest()
