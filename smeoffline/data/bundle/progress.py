"""How far the work on a bundle is."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[int, int, str], None]
"""Told of bytes done, bytes in all, and what is going on."""


class Meter:
    """Counts bytes that are copied, and tells of them.

    Args:
        progress: Whom to tell.
        total: Bytes in all.
        doing: What copying them is called.
    """

    def __init__(self, progress: Progress | None, total: int, doing: str) -> None:
        self._progress, self._total, self._doing = progress, total, doing
        self._done = 0

    def moved(self, size: int) -> None:
        """Tell of further bytes."""
        self._done += size
        self.tell(self._doing)

    def tell(self, doing: str) -> None:
        """Tell what is going on."""
        if self._progress is not None:
            self._progress(self._done, self._total, doing)
