"""The names of the methods of off-policy evaluation, for who must know them before torch is loaded."""

from __future__ import annotations

from collections.abc import Sequence

from smeoffline.errors import SpecError, nearest

METHODS = ("fqe", "pdis", "wis", "wpdis", "direct", "behavior")
NEED_DENSITY = ("pdis", "wis", "wpdis")


def check_methods(given: Sequence[str]) -> None:
    """Refuse names of no method, and no name.

    Raises:
        SpecError: Names the first, and the nearest that is one.
    """
    if not given:
        raise SpecError(f"ope: expected at least one method of {', '.join(METHODS)}, got none")
    for name in given:
        if name not in METHODS:
            raise SpecError(f"ope: expected methods of {', '.join(METHODS)}, got {name!r}{nearest(name, METHODS)}")
