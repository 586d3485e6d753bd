"""What the shell offers after TAB: ids of datasets, recipes, suites, bundles, algorithms, runs, and an option's words.

Called in a process of its own at every TAB, so it looks at names alone and imports neither torch nor minari.
A dataset that can't be read, or any other trouble, is no reason to disturb whoever is typing.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _completer(names: Callable[[], Iterable[str]], *, or_file: bool = False) -> Completer:
    """Offer the names that begin with what was typed; where none does, files if those are accepted too."""

    @functools.wraps(names)
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        try:
            with warnings.catch_warnings(action="ignore"):
                found = [CompletionItem(name) for name in names() if name.startswith(incomplete)]
        except Exception:  # noqa: BLE001 - a traceback would land in the middle of a command line
            found = []
        return found if found or not or_file else [CompletionItem(incomplete, type="file")]

    return complete


def _datasets() -> list[str]:
    from smeoffline.data.storage.folders import list_datasets

    return [listed.id for listed in list_datasets()]


def _recipes() -> list[str]:
    from smeoffline.data.shipped import shipped_folder, shipped_names

    return shipped_names(shipped_folder())


def _suites() -> list[str]:
    from smeoffline.data.shipped import shipped_folder, shipped_names

    return shipped_names(shipped_folder() / "suites")


def _algorithms() -> list[str]:
    from smeoffline.train.algorithms import ALGORITHMS

    return list(ALGORITHMS)


def _runs() -> list[str]:
    return sorted(str(path.parent) for path in Path().glob("runs/*/run.json"))


def _bundles() -> list[str]:
    from smeoffline.data.bundle.sources import registered

    return [bundle.name for bundle in registered()]


def words(*names: str) -> Any:
    """Offer these words."""
    return _completer(lambda: names)


def listed(*names: str) -> Any:
    """Offer these words behind every comma of a list, each once."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del ctx, param
        before, comma, last = incomplete.rpartition(",")
        left = [name for name in names if name not in before.split(",") and name.startswith(last)]
        return [CompletionItem(f"{before}{comma}{name}") for name in left]

    return complete


datasets: Any = _completer(_datasets, or_file=True)
recipes: Any = _completer(_recipes, or_file=True)
suites: Any = _completer(_suites, or_file=True)
bundles: Any = _completer(_bundles, or_file=True)
algorithms: Any = _completer(_algorithms)
runs: Any = _completer(_runs, or_file=True)
policies: Any = _completer(lambda: [*_runs(), "behavior", "optimal"], or_file=True)
