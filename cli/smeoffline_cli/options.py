"""Options that commands share, composed into decorators, and how they become library objects.

An option that is not typed is not passed on: the library's dataclasses alone hold the defaults, and nothing
of the library is imported to show help. A test compares the defaults told here with theirs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click
from click.core import ParameterSource

from smeoffline_cli import complete, paths

Decorated = Callable[..., Any]

BASES = ("bias", "weights", "optimal", "random", "policy")
EXPLORATIONS = ("none", "probit", "gaussian", "uniform", "ou")


def spelled(names: Sequence[str], last: str = "or") -> str:
    """`a, b or c`."""
    return f"{', '.join(names[:-1])} {last} {names[-1]}"


@dataclass(frozen=True)
class Field:
    """A field of a library dataclass that has an option.

    Attributes:
        owner: Who has it, as the library's messages say: `task`, `behavior` or `recipe`.
        name: The field's name.
        flag: Its option.
        kind: What click parses it as; the library validates the value.
        default: What `--help` tells: the field's default, or a remark on it.
        help: What it means.
        words: What the shell offers for it.
    """

    owner: str
    name: str
    flag: str
    kind: type | click.ParamType[Any]
    default: Any
    help: str
    words: tuple[str, ...] = ()

    @property
    def parameter(self) -> str:
        """The name under which click passes the value."""
        return f"{self.owner}_{self.name}"


FIELDS = (
    Field("task", "state_dim", "--state-dim", int, 8, "State channels, N_s."),
    Field("task", "action_dim", "--action-dim", int, 4, "Action channels, N_a."),
    Field("task", "complexity", "--complexity", int, 1, "Layers of the optimal policy, C."),
    Field("task", "episode_length", "--episode-length", int, 100, "Steps until an episode is truncated, T."),
    Field(
        "task",
        "reward_every",
        "--reward-every",
        int,
        1,
        "Pay the accrued reward every so many steps; T or more: once, at the end.",
    ),
    Field("task", "min_reward", "--min-reward", float, 0, "A step earns nothing unless above this."),
    Field("task", "kill_threshold", "--kill-threshold", float, 0, "A step that earns less ends the episode."),
    Field("task", "shaping", "--shaping", float, 0, "Weight of shaping rewards; they change no optimum."),
    Field("task", "seed", "--task-seed", int, 1, "Draws the transition and the optimal policy."),
    Field("behavior", "base", "--base", str, "bias", f"What it means to do: {spelled(BASES)}.", BASES),
    Field("behavior", "nu", "--nu", float, 0, "Size of the systematic error, drawn once."),
    Field(
        "behavior",
        "explore",
        "--explore",
        str,
        "probit if sigma > 0, else none",
        f"Kind of noise: {spelled(EXPLORATIONS)}.",
        EXPLORATIONS,
    ),
    Field("behavior", "sigma", "--sigma", float, 0, "Size of the noise, drawn at each step."),
    Field("behavior", "policy", "--policy", paths.POLICY, "none", "The ONNX file of base policy."),
    Field("recipe", "episodes", "--episodes", int, 1000, "Episodes to roll out."),
    Field("recipe", "seed", "--seed", int, 0, "Draws the systematic error and every episode."),
    Field("recipe", "name", "--id", str, "built from the options", "The dataset's id."),
)


_FIELD_FLAGS = {f"{field.owner}: {field.name}": field.flag for field in FIELDS}


def json_option(command: Decorated) -> Decorated:
    """`--json`, passed as `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")(command)


def overwrite_option(command: Decorated) -> Decorated:
    """`--overwrite`, for a command that calls `paths.check_new`."""
    return click.option("--overwrite", is_flag=True, help="Replace the file if it exists.")(command)


def workers_option(command: Decorated) -> Decorated:
    """`--workers`, None for all cores."""
    text = "Parallel workers; no result depends on it.  [default: all cores]"
    return click.option("--workers", type=click.IntRange(min=1), metavar="N", help=text)(command)


def dataset_argument(command: Decorated) -> Decorated:
    """`DATASET`, an id or a folder."""
    return click.argument("dataset", shell_complete=complete.datasets)(command)


def field_options(*owners: str, names: Collection[str] | None = None) -> Callable[[Decorated], Decorated]:
    """One option for every field of these owners (or for those of these names), None where it is not typed."""

    def decorate(command: Decorated) -> Decorated:
        for field in reversed(FIELDS):
            if field.owner in owners and (names is None or field.name in names):
                text = f"{field.help}  [default: {field.default}]"
                offered = complete.words(*field.words) if field.words else None
                option = click.option(
                    field.flag, field.parameter, type=field.kind, default=None, help=text, shell_complete=offered
                )
                command = option(command)
        return command

    return decorate


def typed_fields(ctx: click.Context, owner: str) -> dict[str, Any]:
    """The fields of an owner whose options were typed, with their values."""
    return {
        field.name: ctx.params[field.parameter]
        for field in FIELDS
        if field.owner == owner and field.parameter in ctx.params and _typed(ctx, field.parameter)
    }


def typed_flags(ctx: click.Context, owners: Iterable[str]) -> list[str]:
    """The options of these owners that were typed."""
    wanted = tuple(owners)
    return [field.flag for field in FIELDS if field.owner in wanted and _typed(ctx, field.parameter)]


def _typed(ctx: click.Context, parameter: str) -> bool:
    return ctx.get_parameter_source(parameter) is not ParameterSource.DEFAULT


@contextmanager
def refusals(ctx: click.Context, flags: Mapping[str, str] | None = None) -> Iterator[None]:
    """Report what the library refuses about options as usage errors that name them; any other failure passes.

    The library says `task: complexity must be ...`; the user reads `--complexity must be ...`.

    Args:
        ctx: The command's.
        flags: How the library's message begins, to what stands there instead: `{"train: steps": "--steps"}`. None
            where nothing but `FIELDS` is validated: then every SpecError is about an option.

    Raises:
        click.UsageError: The library refused an option.
    """
    from smeoffline.errors import SmeofflineError, SpecError

    known = _FIELD_FLAGS if flags is None else flags
    try:
        yield
    except SmeofflineError as error:
        named = _by_flag(str(error), known)
        if named is None and flags is None and isinstance(error, SpecError):
            named = str(error)
        if named is None:
            raise
        raise click.UsageError(named, ctx) from error


def _by_flag(text: str, flags: Mapping[str, str]) -> str | None:
    """A message that begins with an option instead of the library's words; None where it begins otherwise."""
    found = next((start for start in flags if re.match(rf"{re.escape(start)}\b", text)), None)
    return None if found is None else flags[found] + text[len(found) :]
