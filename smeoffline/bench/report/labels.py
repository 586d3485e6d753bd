"""What datasets and algorithms are called in a report: short, and never the same for two different ones."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smeoffline.data.exploration import EXPLORATIONS

# As the papers write them; another algorithm is called by its name on the command line.
NAMES = {
    "bc": "BC",
    "iql": "IQL",
    "td3plusbc": "TD3+BC",
    "plas": "PLAS",
    "crr": "CRR",
    "awac": "AWAC",
    "bcq": "BCQ",
    "bear": "BEAR",
    "calql": "Cal-QL",
    "cql": "CQL",
    "ddpg": "DDPG",
    "prdc": "PRDC",
    "rebrac": "ReBRAC",
    "sac": "SAC",
    "td3": "TD3",
}
# How a task's fields are written where they differ between tasks.
SYMBOLS = {
    "state_dim": "N_s",
    "action_dim": "N_a",
    "complexity": "C",
    "episode_length": "T",
    "reward_every": "k",
    "kill_threshold": "D",
    "shaping": "L",
    "discount": "γ",
    "seed": "task seed",
}
SIZES = ("state_dim", "action_dim")
BASES = ("optimal", "bias", "weights", "random", "policy")  # in a report's order: without error first
NOISES = tuple(EXPLORATIONS)
NOISE_NAMES = {"ou": "OU"}
Spec = Mapping[str, Any]


def plain(value: Any) -> str:
    """A number's shortest exact text (`0.3`, `1`), other values as they print."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(value)


def freeze(value: Any) -> Hashable:
    """JSON values as one text that is equal where they are."""
    return json.dumps(value, sort_keys=True)


@dataclass(frozen=True)
class DatasetLabels:
    """Labels for one collection of datasets: they tell what differs in it, and always the complexity.

    Attributes:
        task_fields: Fields of the task that the labels tell.
        with_episodes: Whether they tell the number of episodes.
    """

    task_fields: tuple[str, ...]
    with_episodes: bool

    @classmethod
    def of(cls, specs: Sequence[Spec]) -> DatasetLabels:
        """Labels that tell these datasets apart; a spec has task, behavior and episodes."""
        fields = sorted({name for spec in specs for name in spec["task"]})
        varying = [f for f in fields if len({freeze(spec["task"].get(f)) for spec in specs}) > 1]
        known = [f for f in SYMBOLS if f in varying or f == "complexity"]
        rest = [f for f in varying if f not in SYMBOLS]
        return cls(tuple(known + rest), len({spec["episodes"] for spec in specs}) > 1)

    def task(self, spec: Spec, without: Collection[str] = ()) -> str:
        """`C = 50`, or `N_s = 2, C = 50` where the size differs too and is not left out."""
        task = spec["task"]
        fields = [f for f in self.task_fields if f not in without]
        parts = [f"{SYMBOLS.get(f, f)} = {plain(task.get(f))}" for f in fields]
        return ", ".join([*parts, *([f"{plain(spec['episodes'])} episodes"] if self.with_episodes else [])])

    def dataset(self, spec: Spec, without: Collection[str] = ()) -> str:
        """`C = 50, ν = 0.3, probit 0.3`, without these fields of the task."""
        task = self.task(spec, without)
        parts = [[_base(b), *([] if b["sigma"] == 0 else [" ".join(_noise(b))])] for b in spec["behavior"]]
        if len(parts) == 1:
            return ", ".join([task, *parts[0]])
        shares = [f"{100 * behavior.get('share', 0):.6g}%" for behavior in spec["behavior"]]
        mixed = [" ".join([share, *part]) for share, part in zip(shares, parts, strict=True)]
        return f"{task}, mixture ({'; '.join(mixed)})"

    def base(self, spec: Spec) -> str | None:
        """`ν = 0.3`: the behavior's systematic error; None for a mixture."""
        return _base(spec["behavior"][0]) if len(spec["behavior"]) == 1 else None

    def noise(self, spec: Spec) -> tuple[str, str] | None:
        """`("probit", "0.3")`: its exploration, `("none", "")` without one; None for a mixture."""
        return _noise(spec["behavior"][0]) if len(spec["behavior"]) == 1 else None

    def order(self, spec: Spec) -> tuple[Any, ...]:
        """Sorts datasets: by size, complexity, other fields of the task, base error, exploration."""
        task, first = spec["task"], spec["behavior"][0]
        return (
            tuple(task[f] for f in ("state_dim", "action_dim", "complexity")),
            self.task(spec),
            len(spec["behavior"]) > 1,
            *base_order(first["base"], first["nu"]),
            *noise_order(first["explore"], first["sigma"]),
        )


def _base(behavior: Mapping[str, Any]) -> str:
    base, nu = behavior["base"], float(behavior["nu"])
    if base == "bias":
        return f"ν = {plain(nu)}"
    if base == "policy":  # with the beginning of its file's hash, as in a dataset's id
        return f"policy {str(behavior.get('policy_sha256', ''))[:6]}".rstrip()
    return f"{base} ν = {plain(nu)}" if base == "weights" else str(base)


def _noise(behavior: Mapping[str, Any]) -> tuple[str, str]:
    if behavior["sigma"] == 0:
        return ("none", "")
    kind = str(behavior["explore"])
    return (NOISE_NAMES.get(kind, kind), plain(float(behavior["sigma"])))


def base_order(base: str, nu: float) -> tuple[int, float]:
    """Sorts bases: as `BASES` lists them, then by nu."""
    return (BASES.index(base) if base in BASES else len(BASES), nu)


def noise_order(explore: str, sigma: float) -> tuple[int, float, str]:
    """Sorts explorations: none first, then by kind and size."""
    kind = explore if sigma > 0 else "none"
    return (NOISES.index(kind) if kind in NOISES else len(NOISES), sigma, kind)


@dataclass(frozen=True)
class Variant:
    """What a run's algorithm is; runs may be averaged where all of it is equal.

    Attributes:
        algo: Its name on the command line.
        variant: The suite's word for these settings, or None.
        settings: Those that differ from the algorithm's defaults.
        steps: Of training.
    """

    algo: str
    variant: str | None
    settings: Mapping[str, Any]
    steps: int

    @property
    def name(self) -> str:
        """`IQL`, or `IQL greedy` for a variant."""
        name = NAMES.get(self.algo, self.algo)
        return name if self.variant is None else f"{name} {self.variant}"

    def told(self, fields: Iterable[str]) -> str:
        """`weight_temp = 10, 20,000 steps`: these settings where they are set, `steps` where asked for."""
        listed = list(fields)
        parts = [f"{f} = {plain(self.settings[f])}" for f in listed if f in self.settings]
        return ", ".join([*parts, *([f"{self.steps:,} steps"] if "steps" in listed else [])])


def algorithm_labels(variants: Sequence[Variant]) -> list[str]:
    """A label for each: its name, and where one name stands for several settings or steps, these.

    Two have the same label only where all of them is equal, so runs with one label may be averaged.
    """
    alike: dict[str, list[Variant]] = {}
    for variant in variants:
        alike.setdefault(variant.name, []).append(variant)
    differing = {name: _differing(group) for name, group in alike.items()}

    def label(variant: Variant) -> str:
        told = variant.told(differing[variant.name])
        return f"{variant.name} ({told})" if told else variant.name

    return [label(variant) for variant in variants]


def _differing(group: Sequence[Variant]) -> list[str]:
    """The settings, and perhaps `steps`, that are not the same in all of a group."""
    names = sorted({name for variant in group for name in variant.settings})
    found = [name for name in names if len({freeze([name in v.settings, v.settings.get(name)]) for v in group}) > 1]
    return [*found, *(["steps"] if len({variant.steps for variant in group}) > 1 else [])]


def algorithm_order(algos: Mapping[str, str]) -> tuple[str, ...]:
    """Labels sorted: BC, which is imitation, first, then as `NAMES` lists them, then by name.

    Args:
        algos: Label -> name on the command line.
    """
    listed = list(NAMES)

    def key(label: str) -> tuple[int, str, int, str]:
        algo = algos[label]
        return (listed.index(algo) if algo in listed else len(listed), algo, len(label), label)

    return tuple(sorted(algos, key=key))


def spell(items: Iterable[str]) -> str:
    """`a, b and c`."""
    listed = list(items)
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}" if listed else ""
