"""What a reader of off-policy estimates should know: which of them can't be right, or say little."""

from __future__ import annotations

from collections.abc import Sequence

from smeoffline.score.ope.names import NEED_DENSITY
from smeoffline.score.ope.records import PolicyEstimates
from smeoffline.score.runs import short_names
from smeoffline.train.fqe import TARGET_EVERY

FITTED = ("fqe", "direct")
SLACK = 0.02  # what a good fit may be off where the truth is 0 or 1
FEW = 10  # effective episodes


def notes(policies: Sequence[PolicyEstimates], *, horizon: int, fqe_steps: int, shaped: bool) -> tuple[str, ...]:
    """Notes on the estimates, a sentence each.

    Args:
        policies: At least one; all with the same methods.
        horizon: Steps that count.
        fqe_steps: Updates of fitted Q evaluation.
        shaped: Whether rewards are shaped, so that they may be anything.
    """
    found = [_unfinished(policies, horizon, fqe_steps)]
    if not shaped:
        found += [_impossible(policies, method) for method in FITTED]
    found.append(_few(policies))
    return tuple(note for note in found if note)


def _unfinished(policies: Sequence[PolicyEstimates], horizon: int, fqe_steps: int) -> str:
    """Whether fitted Q evaluation had the updates to look to the end."""
    needed = horizon * TARGET_EVERY
    if "fqe" not in policies[0].estimates or fqe_steps >= needed:
        return ""
    back = fqe_steps // TARGET_EVERY
    return f"fqe looked {back} of {horizon} steps ahead, one every {TARGET_EVERY} updates: give it {needed} or more"


def _impossible(policies: Sequence[PolicyEstimates], method: str) -> str:
    """Fitted values that no rewards add up to: a step earns between 0 and 1, also where it is paid later."""
    if method not in policies[0].estimates:
        return ""
    values = zip(_names(policies), (p.estimates[method].value for p in policies), strict=True)
    beyond = [f"{name} ({v:.4f})" for name, v in values if v is not None and not -SLACK <= v <= 1 + SLACK]
    if not beyond:
        return ""
    return f"{method} of {', '.join(beyond)} is outside of what rewards allow, 0 to 1: it extrapolates"


def _few(policies: Sequence[PolicyEstimates]) -> str:
    """Policies of which importance sampling knows a few episodes alone."""
    methods = [method for method in NEED_DENSITY if method in policies[0].estimates]
    if not methods:
        return ""
    samples = [p.estimates[methods[0]].effective_samples for p in policies]  # the same for all methods
    few = [name for name, n in zip(_names(policies), samples, strict=True) if n is not None and n < FEW]
    if not few:
        return ""
    return f"{', '.join(methods)} of {', '.join(few)} rest on fewer than {FEW} effective episodes: they say little"


def _names(policies: Sequence[PolicyEstimates]) -> list[str]:
    """Each policy's name, as the table has it."""
    return short_names([policy.name for policy in policies])
