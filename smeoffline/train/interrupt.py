"""Stopping between two steps instead of inside one: an update that was broken off can't be resumed."""

from __future__ import annotations

import signal
import threading
import time
from types import FrameType, TracebackType
from typing import Any

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# One wish to stop may arrive as several signals, from a terminal and from `make`; later ones are impatience.
GRACE_SECONDS = 2.0


class TrainingInterrupted(KeyboardInterrupt):
    """Training was stopped by Ctrl-C or a signal; the text says where it stands and how to go on."""


class StopRequest:
    """While entered, the first Ctrl-C is only noted; one that comes two seconds later stops at once.

    Signals that were ignored, or left to the system, stay so. Outside the main thread, where Python delivers
    no signals, it does nothing.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._previous: dict[int, Any] = {}

    def __call__(self) -> bool:
        """Whether someone asked to stop."""
        return self._since is not None

    def __enter__(self) -> StopRequest:
        """Itself."""
        if threading.current_thread() is threading.main_thread():
            for name in SIGNALS:
                number = getattr(signal, name, None)
                if number is not None and callable(signal.getsignal(number)):
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        now = time.monotonic()
        if self._since is not None and now - self._since > GRACE_SECONDS:
            raise KeyboardInterrupt
        self._since = now if self._since is None else self._since
