"""Every algorithm that ships, in one table, and what is true of each but not of all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from smeoffline.errors import SpecError, nearest

Scalar = bool | int | float | str
Setting = Scalar | tuple[int, ...]

Acting = Literal["mean", "latent", "best_of_latents", "best_of_actions", "resampled"]
"""How the greedy action comes about; `policy_net.py` has one module for each.

mean: the policy network's squashed mean. latent: its output, decoded by the VAE. The others sample inside
`predict`, and their noise is frozen when the policy is exported: best_of_latents decodes n latents and takes
the action of highest value, best_of_actions samples n actions and takes it, resampled draws one by value.
"""


@dataclass(frozen=True)
class Algorithm:
    """What the trainer must know of one algorithm.

    Attributes:
        name: As given on the command line: lower case, no separators.
        config: d3rlpy's config class, in `d3rlpy.algos`.
        acting: How it acts.
        policy: The policy network's name among the implementation's modules.
        values: Names of the modules that hold values: `q_funcs` is an ensemble Q(s, a), `value_func` is V(s).
        needs_returns: Trains on returns-to-go.
        needs_next_actions: Trains on a_{t+1}. The action after a cut is not stored: such rows are dropped.
        needs_neighbors: Searches the nearest transition of the dataset.
        warmup: The setting that counts steps before the reward reaches the policy (`""`: from the first).
    """

    name: str
    config: str
    acting: Acting = "mean"
    policy: str = "policy"
    values: tuple[str, ...] = ("q_funcs",)
    needs_returns: bool = False
    needs_next_actions: bool = False
    needs_neighbors: bool = False
    warmup: str = ""


_ROWS: Final = (
    Algorithm("bc", "BCConfig", policy="imitator", values=()),
    Algorithm("iql", "IQLConfig", values=("q_funcs", "value_func")),
    Algorithm("awac", "AWACConfig"),
    Algorithm("bcq", "BCQConfig", acting="best_of_latents", warmup="rl_start_step"),
    Algorithm("bear", "BEARConfig", acting="best_of_actions", warmup="warmup_steps"),
    Algorithm("calql", "CalQLConfig", needs_returns=True),
    Algorithm("cql", "CQLConfig"),
    Algorithm("crr", "CRRConfig", acting="resampled"),
    Algorithm("ddpg", "DDPGConfig"),
    Algorithm("plas", "PLASConfig", acting="latent", warmup="warmup_steps"),
    Algorithm("prdc", "PRDCConfig", needs_neighbors=True),
    Algorithm("rebrac", "ReBRACConfig", needs_next_actions=True),
    Algorithm("sac", "SACConfig"),
    Algorithm("td3", "TD3Config"),
    Algorithm("td3plusbc", "TD3PlusBCConfig"),
)

ALGORITHMS: Final[Mapping[str, Algorithm]] = {row.name: row for row in _ROWS}

NEED_DISCRETE_ACTIONS = ("discretebc", "discretebcq", "discretecql", "discretesac", "doubledqn", "dqn", "nfq")

# What d3rlpy would check late, or not at all. Names mean the same in every config, but for `_DIVISORS`.
_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "policy_type": ("deterministic", "stochastic"),
    "mmd_kernel": ("gaussian", "laplacian"),
    "advantage_type": ("mean", "max"),
    "weight_type": ("binary", "exp"),
    "target_update_type": ("hard", "soft"),
}
_FRACTIONS = ("gamma", "tau", "expectile")
_MAY_BE_ZERO = frozenset(
    {
        *("gamma", "lam", "beta", "alpha", "actor_beta", "critic_beta", "weight_temp", "vae_kl_weight"),
        *("warmup_steps", "rl_start_step", "target_smoothing_sigma", "target_smoothing_clip"),
        *("conservative_weight", "action_flexibility"),
        *("temp_learning_rate", "alpha_learning_rate"),  # 0 keeps the temperature, or alpha, at its initial value
    }
)
_DIVISORS = frozenset({("awac", "lam"), ("crr", "beta")})  # temperatures here, weights in the others
_ANY_SIGN = ("alpha_threshold",)
MAX_WHOLE = 2**31 - 1


def find_algorithm(name: str) -> Algorithm:
    """The row of a name.

    Raises:
        SpecError: No such row; the text has the nearest name, or says that it needs discrete actions.
    """
    if name in ALGORITHMS:
        return ALGORITHMS[name]
    plain = "".join(c for c in name.lower().replace("+", "plus") if c.isalnum())
    if plain in NEED_DISCRETE_ACTIONS:
        raise SpecError(
            f"algorithm {name!r}: needs discrete actions, and these datasets have continuous ones; "
            f"continuous algorithms are {', '.join(ALGORITHMS)}"
        )
    raise SpecError(
        f"algorithm: expected one of {', '.join(ALGORITHMS)}, or module:function for your own, got {name!r}"
        f"{nearest(plain, ALGORITHMS)}"
    )


def parse_settings(items: Iterable[str]) -> dict[str, str]:
    """`["batch_size=512", "gamma=0.9"]` as a mapping; values stay text until an algorithm gives them types.

    Raises:
        SpecError: An item without `=` or a name, or a name given twice.
    """
    settings: dict[str, str] = {}
    for item in items:
        name, equals, value = item.partition("=")
        name = name.strip()
        if not equals or not name:
            raise SpecError(f"setting: expected NAME=VALUE, as in batch_size=512, got {item!r}")
        if name in settings:
            raise SpecError(f"setting: expected each name once, got {name!r} twice")
        settings[name] = value.strip()
    return settings


def resolve_settings(
    algorithm: Algorithm, settings: Mapping[str, object], defaults: Mapping[str, Setting]
) -> dict[str, Setting]:
    """Give each setting the type of its default, and check its range.

    Args:
        algorithm: Whose settings.
        settings: Names to values; text is parsed, other values must have the right type already.
        defaults: Every name the algorithm has, with its default value.

    Returns:
        The given settings alone, typed, in alphabetical order.

    Raises:
        SpecError: A name the algorithm doesn't have (with the nearest), another type, or out of range.
    """
    resolved: dict[str, Setting] = {}
    for name in sorted(settings):
        if name not in defaults:
            raise SpecError(
                f"setting: {algorithm.name} has no {name!r}{nearest(name, defaults)} "
                f"(it has {', '.join(sorted(defaults))})"
            )
        zero = name in _MAY_BE_ZERO and (algorithm.name, name) not in _DIVISORS
        resolved[name] = _typed(f"setting {name} of {algorithm.name}", name, settings[name], defaults[name], zero)
    return resolved


def _typed(where: str, name: str, value: object, default: Setting, zero: bool) -> Setting:
    """One value, with the type of its default, in range; `zero` says whether a number may be 0."""
    if isinstance(default, bool):
        return _boolean(where, value)
    if isinstance(default, int):
        return _whole(where, value, 0 if zero else 1)
    if isinstance(default, float):
        return _real(where, name, value, zero)
    if isinstance(default, tuple):
        return _widths(where, value)
    choices = _CHOICES.get(name)
    if not isinstance(value, str) or (choices is not None and value not in choices):
        wanted = "one of " + ", ".join(choices) if choices is not None else "text"
        near = nearest(str(value), choices) if choices is not None else ""
        raise SpecError(f"{where}: expected {wanted}, got {value!r}{near}")
    return value


def _boolean(where: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise SpecError(f"{where}: expected true or false, got {value!r}")


def _whole(where: str, value: object, least: int) -> int:
    try:
        number = int(value) if isinstance(value, str) else value
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int) or not least <= number <= MAX_WHOLE:
        top = f" and <= {MAX_WHOLE}" if isinstance(number, int) and number > MAX_WHOLE else ""
        raise SpecError(f"{where}: expected a whole number >= {least}{top}, got {value!r}")
    return number


def _real(where: str, name: str, value: object, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise SpecError(f"{where}: expected a number, got {value!r}")
    try:
        number = float(value)
    except (ValueError, OverflowError):
        number = math.nan
    above = number >= 0 if zero else number > 0
    below = number <= 1 if name in _FRACTIONS else True
    if not math.isfinite(number) or not below or not (above or name in _ANY_SIGN):
        low = "[0" if zero else "(0"
        wanted = f"a number in {low}, 1]" if name in _FRACTIONS else f"a finite number in {low}, inf)"
        wanted = "a finite number" if name in _ANY_SIGN else wanted
        raise SpecError(f"{where}: expected {wanted}, got {value!r}")
    return number


def _widths(where: str, value: object) -> tuple[int, ...]:
    """Layer widths: text as `64,64`, or a sequence of whole numbers."""
    parts: Iterable[object] = value.split(",") if isinstance(value, str) else ()
    if isinstance(value, (list, tuple)):
        parts = value
    widths = tuple(_whole(where, part.strip() if isinstance(part, str) else part, 1) for part in parts)
    if not widths:
        raise SpecError(f"{where}: expected layer widths as 256,256, got {value!r}")
    return widths
