"""Where a bundle may be had: a path, a URL, or a name in `registry.txt`, a text that a person can read and review.

# comments and empty lines are left out
<name>  <sha256 of the file>  <URL, or file beside the registry> [<mirror>...]
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from smeoffline.data.shipped import shipped_folder
from smeoffline.errors import BundleError, SpecError, nearest

REGISTRY = "registry.txt"


@dataclass(frozen=True)
class Source:
    """Where a bundle may be had.

    Attributes:
        place: A path, or a URL with its secrets; `shown` is for people.
        sha256: Of the file, where it is known.
    """

    place: str
    sha256: str | None

    @property
    def remote(self) -> bool:
        """Whether it is a URL."""
        return "://" in self.place

    @property
    def shown(self) -> str:
        """The place without user, password, query and control characters."""
        if not self.remote:
            return self.place
        scheme, _, rest = self.place.partition("://")
        rest = re.split(r"[?#]", rest, maxsplit=1)[0]
        host, slash, path = rest.partition("/")
        return re.sub(r"[^!-~]", "?", f"{scheme}://{host.rpartition('@')[2]}{slash}{path}")


@dataclass(frozen=True)
class Registered:
    """A bundle that has a name.

    Attributes:
        name: The name.
        sha256: Of the file, 64 hex digits.
        sources: Tried in order.
    """

    name: str
    sha256: str
    sources: tuple[Source, ...]

    @property
    def shown(self) -> tuple[str, ...]:
        """The sources as people may see them."""
        return tuple(source.shown for source in self.sources)


def registered(path: Path | None = None) -> tuple[Registered, ...]:
    """The bundles of a registry, in its order.

    Args:
        path: The registry; None for the one that comes with the package.

    Raises:
        BundleError: It can't be read; names the line.
    """
    path = shipped_folder() / REGISTRY if path is None else path
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as fault:
        reason = getattr(fault, "strerror", None) or "not UTF-8 text"
        raise BundleError(f"{path}: cannot be read: {reason}") from None
    found: dict[str, Registered] = {}
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if len(words) < 3 or not re.fullmatch("[0-9a-f]{64}", words[1]):
            raise BundleError(f"{path}: line {number}: expected NAME SHA256 URL..., got {line!r}")
        if words[0] in found:
            raise BundleError(f"{path}: line {number}: expected each name once, got {words[0]!r} again")
        places = [word if "://" in word else str(path.parent / word) for word in words[2:]]
        found[words[0]] = Registered(words[0], words[1], tuple(Source(place, words[1]) for place in places))
    return tuple(found.values())


def find_sources(places: Sequence[str], sha256: str | None) -> list[Source]:
    """Where to look for a bundle, in order.

    Args:
        places: Paths, URLs, or names of the registry.
        sha256: Of the file, 64 hex digits; None to take that of the registry, if any.

    Raises:
        BundleError: No such file or name (with the nearest).
        SpecError: The hash is none.
    """
    if sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", sha256):
        raise SpecError(f"sha256: expected 64 hex digits, got {sha256!r}")
    wanted = None if sha256 is None else sha256.lower()
    found = []
    for place in places:
        if "://" in place or os.path.lexists(place):
            found.append(Source(place, wanted))
            continue
        known = {entry.name: entry for entry in registered()}
        if place not in known:
            names = ", ".join(known)
            raise BundleError(
                f"{place!r}: no such file, and no bundle of that name (known: {names}){nearest(place, known)}"
            )
        found += known[place].sources if wanted is None else [Source(s.place, wanted) for s in known[place].sources]
    return found
