"""A recipe says everything that a dataset's bytes depend on: task, behaviors with shares, episodes, seed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.data.behavior import WITHOUT_NU, Behavior
from smeoffline.data.shipped import shipped_folder, shipped_names, text_of
from smeoffline.errors import SpecError
from smeoffline.sme.task import Task, known_keys, real_number, whole_number

VERSION = 0  # the id's last part; rises when the bytes of a spec change
MAX_EPISODES = 10**9
SEED_LIMIT = 2**63
SHARES_SUM = 1e-6  # how far from 1 the sum of shares may be: they may have been rounded
SHARES_KEPT = 1e-9  # shares this near to a sum of 1 are kept to the bit: a stored recipe reads back as itself

DEFAULT_EPISODES = 1000
DEFAULT_SEED = 0


@dataclass(frozen=True)
class Component:
    """One behavior of a recipe and the share of episodes that it acts in.

    Attributes:
        behavior: What acts.
        share: In (0, 1]; a recipe's shares sum to 1.
    """

    behavior: Behavior
    share: float = 1.0


@dataclass(frozen=True)
class Recipe:
    """What a dataset is made of.

    Attributes:
        task: The task.
        mix: At least one behavior with its share; each episode draws its own from its own stream.
        episodes: >= 1.
        seed: In [0, 2^63); draws everything but the task. Episode i depends on it and on i alone.
        name: A dataset id to use instead of the one that is built from the fields.

    Raises:
        SpecError: A value is out of range.
    """

    task: Task
    mix: tuple[Component, ...] = (Component(Behavior()),)
    episodes: int = DEFAULT_EPISODES
    seed: int = DEFAULT_SEED
    name: str | None = None

    def __post_init__(self) -> None:
        """Validate, and bring shares that were rounded to a sum of 1."""
        if not self.mix:
            raise SpecError("recipe: expected at least one behavior, got none")
        for name, low, high in (("episodes", 1, MAX_EPISODES), ("seed", 0, SEED_LIMIT - 1)):
            object.__setattr__(self, name, whole_number("recipe", name, getattr(self, name), low, high))
        shares = [real_number("recipe", "share", c.share, 0.0, 1e9) for c in self.mix]
        if min(shares) <= 0:
            raise SpecError(f"recipe: every share must be above 0, got {min(shares):g}")
        total = math.fsum(shares)
        if abs(total - 1.0) > SHARES_SUM:
            raise SpecError(f"recipe: shares must sum to 1, got {total:.9g}; give each behavior its part of 1")
        if abs(total - 1.0) <= SHARES_KEPT:
            total = 1.0
        mix = tuple(Component(c.behavior, share / total) for c, share in zip(self.mix, shares, strict=True))
        object.__setattr__(self, "mix", mix)

    @property
    def dataset_id(self) -> str:
        """The given name, or one built from the fields; it is never parsed, and no two specs share one."""
        if self.name is not None:
            return self.name
        task = self.task
        parts = [f"s{task.state_dim}a{task.action_dim}", f"c{task.complexity}", self._mix_tag()]
        defaults = Task()
        for tag, value, default in (
            ("k", task.reward_every, defaults.reward_every),
            ("rmin", task.min_reward, defaults.min_reward),
            ("kill", task.kill_threshold, defaults.kill_threshold),
            ("len", task.episode_length, defaults.episode_length),
            ("shape", task.shaping, defaults.shaping),
            ("disc", task.discount, defaults.discount),
            ("task", task.seed, defaults.seed),
            ("seed", self.seed, DEFAULT_SEED),
            ("n", self.episodes, DEFAULT_EPISODES),
        ):
            if value != default:
                parts.append(tag + number_tag(value))
        return f"sme/{'-'.join(parts)}-v{VERSION}"

    def _mix_tag(self) -> str:
        """`bias-nu0p3-probit0p3`, or `mix-` and six hex digits of a mixture's hash."""
        if len(self.mix) > 1:
            listed = [{k: v for k, v in b.items() if k != "policy"} for b in self.to_dict()["behavior"]]
            text = json.dumps(listed, sort_keys=True)
            return f"mix-{hashlib.sha256(text.encode()).hexdigest()[:6]}"
        behavior = self.mix[0].behavior
        tag = behavior.base
        if behavior.policy_sha256 is not None:
            tag += f"-{behavior.policy_sha256[:6]}"
        if behavior.base not in WITHOUT_NU:
            tag += f"-nu{number_tag(behavior.nu)}"
        if behavior.sigma > 0:
            tag += f"-{behavior.explore}{number_tag(behavior.sigma)}"
        return tag

    def to_dict(self) -> dict[str, Any]:
        """JSON values under the keys of a recipe file; `Recipe.from_dict` is the inverse."""
        dataset: dict[str, Any] = {"episodes": self.episodes, "seed": self.seed}
        if self.name is not None:
            dataset["id"] = self.name
        behaviors = [{**c.behavior.to_dict(), "share": c.share} for c in self.mix]
        return {"task": self.task.to_dict(), "behavior": behaviors, "dataset": dataset}

    @classmethod
    def from_dict(cls, tables: Mapping[str, Any]) -> Recipe:
        """A recipe from the tables of a recipe file.

        Raises:
            SpecError: A misspelled key (with the nearest known one), a table of the wrong kind, a bad value.
            PolicyError: The file of a behavior of base `policy` can't be read.
        """
        if not isinstance(tables, Mapping):
            raise SpecError(f"recipe: expected tables task, behavior and dataset, got {type(tables).__name__}")
        known_keys("recipe", tables, ["task", "behavior", "dataset"])
        dataset = tables.get("dataset", {})
        behaviors = tables.get("behavior", [{}])
        if not isinstance(dataset, Mapping):
            raise SpecError(f"recipe: expected a table [dataset], got {dataset!r}")
        if not isinstance(behaviors, Sequence) or not all(isinstance(b, Mapping) for b in behaviors):
            raise SpecError("recipe: expected tables [[behavior]] (two brackets), one for each behavior")
        known_keys("recipe [dataset]", dataset, ["episodes", "seed", "id"])
        name = dataset.get("id")
        if name is not None and not isinstance(name, str):
            raise SpecError(f"recipe [dataset]: id must be text, got {name!r}")
        return cls(
            task=Task.from_dict(tables.get("task", {})),
            mix=_mix(behaviors),
            episodes=dataset.get("episodes", DEFAULT_EPISODES),
            seed=dataset.get("seed", DEFAULT_SEED),
            name=name,
        )

    @classmethod
    def load(cls, source: str | Path) -> Recipe:
        """A recipe from a TOML file, or from the name of a shipped one (`table1-c50-nu0p1`).

        Raises:
            SpecError: No such file or name (with the nearest), not TOML, or a fault in it; names the source.
            PolicyError: The file of a behavior of base `policy` can't be read.
        """
        return cls.from_toml(text_of("recipe", source, shipped_folder()), source=str(source))

    @classmethod
    def from_toml(cls, text: str, *, source: str = "recipe") -> Recipe:
        """A recipe from TOML text.

        Raises:
            SpecError: Not TOML, or a fault in it; the text begins with `source`.
            PolicyError: The file of a behavior of base `policy` can't be read.
        """
        try:
            return cls.from_dict(tomllib.loads(text))
        except tomllib.TOMLDecodeError as fault:
            raise SpecError(f"{source}: not TOML: {fault}") from None
        except SpecError as fault:
            raise SpecError(f"{source}: {fault}") from None
        except (ValueError, RecursionError):  # what tomllib says to thousands of digits or of brackets
            raise SpecError(f"{source}: not a recipe: a number too long or tables too deep to read") from None


def _mix(tables: Sequence[Mapping[str, Any]]) -> tuple[Component, ...]:
    """The behaviors of [[behavior]] tables; where none has a share, all have the same."""
    mix = tuple(_component(table, 1 / len(tables)) for table in tables)
    without = [i for i, table in enumerate(tables, start=1) if "share" not in table]
    if 0 < len(without) < len(tables):
        raise SpecError(f"recipe: behavior {without[0]} has no share, but others have; give every one a share, or none")
    return mix


def _component(table: Mapping[str, Any], share: float) -> Component:
    """One [[behavior]] table: a behavior's fields and its share, or the one given here."""
    known_keys("behavior", table, [*(f.name for f in dataclasses.fields(Behavior)), "share"])
    fields = dict(table)
    share = fields.pop("share", share)
    return Component(Behavior.from_dict(fields), share)


def number_tag(value: float) -> str:
    """A number's shortest text, made safe for an id: `0.1` -> `0p1`, `1e-05` -> `1em05`."""
    text = repr(value).removesuffix(".0")
    return text.replace(".", "p").replace("-", "m").replace("+", "")


def shipped_recipes() -> list[str]:
    """Names of the recipes that come with the package, sorted."""
    return shipped_names(shipped_folder())
