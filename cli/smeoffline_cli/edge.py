"""Where exceptions and signals become one line on stderr and an exit code.

    0   it worked
    1   an expected failure, or an interruption: `error: ...` or `interrupted: ...`
    2   a usage error, what is typed being wrong on its face: `error: ...`, naming the option

Warnings of the library are one line too: `warning: ...`.

Anything else is a bug in smeoffline and keeps its traceback.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn, TextIO

import click

from smeoffline_cli.output import emit_warning, one_line

SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")
# A terminal, `make` or `timeout` may deliver one wish to stop as several signals. The second must not
# break off the clean-up that the first began; a person who still waits after this may insist.
GRACE_SECONDS = 2.0
# Once everything is cleaned up, worker threads get this long to end: one that waits for a thread that the
# interruption kept from starting would wait forever.
EXIT_SECONDS = 5.0
INTERRUPTED = "interrupted: stopped before the end, and nothing half-written is left; run the command again"


class Interruption:
    """Remembers that a signal asked us to stop, and raises KeyboardInterrupt for it."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._at_once = False

    @property
    def requested(self) -> bool:
        """Whether a signal has arrived."""
        return self._since is not None

    def listen(self) -> None:
        """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt in the main thread."""
        sys.unraisablehook = self._hook
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # respects nohup
                signal.signal(number, self._handle)

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """While nothing is to be cleaned up: exit at the signal, without unwinding.

        Imports belong in here: torch aborts the process where an exception enters its own.
        """
        before, self._at_once = self._at_once, True
        try:
            yield
        finally:
            self._at_once = before

    def deafen(self) -> None:
        """Ignore the signals from now on: all is cleaned up, and a second one must not change how we end.

        Python gives handled signals their deadly default back while it shuts down; ignored ones stay so.
        """
        for name in SIGNALS:
            number = getattr(signal, name, None)
            if number is not None:
                signal.signal(number, signal.SIG_IGN)

    def check(self) -> None:
        """Raise again where the first KeyboardInterrupt was swallowed (by a C callback or a finalizer)."""
        if self.requested:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._at_once:
            os.write(2, f"{INTERRUPTED}\n".encode())
            os._exit(1)
        now = time.monotonic()
        if self._since is None or now - self._since > GRACE_SECONDS:
            self._since = now
            raise KeyboardInterrupt

    def _hook(self, unraisable: sys.UnraisableHookArgs) -> None:
        """Keep a KeyboardInterrupt that a finalizer swallowed off the screen; `check` raises it again."""
        if unraisable.exc_type is not KeyboardInterrupt:
            sys.__unraisablehook__(unraisable)


interruption = Interruption()


class Interrupted(click.ClickException):
    """A KeyboardInterrupt, in a form that click passes on (it answers the original with an empty line)."""


@contextmanager
def passing_interrupts() -> Iterator[None]:
    """Turn a KeyboardInterrupt into `Interrupted`, with what it says itself (training tells how to resume)."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise Interrupted(f"interrupted: {interrupt}" if str(interrupt) else INTERRUPTED) from None


@contextmanager
def resumable(kept: str) -> Iterator[None]:
    """Say of an interruption in here what is kept and how to go on, unless it says so itself."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or kept) from None
    except Exception:
        if interruption.requested:  # as in `guarded`
            raise KeyboardInterrupt(kept) from None
        raise


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print the library's own warnings as one line each, without a line of source; leave others as they are."""
    before = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        from smeoffline.errors import SmeofflineWarning  # not at the top: `--help` does without the library

        if issubclass(category, SmeofflineWarning):
            emit_warning(str(message))
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def guarded(run: Callable[[], Any]) -> NoReturn:
    """Run a click program and exit as the module's docstring says.

    Args:
        run: Calls click's `main` with `standalone_mode=False`; returns an exit code or None.
    """
    try:
        with _plain_warnings():
            code = run()
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.UsageError as error:
        _fail(f"error: {_usage(error)}", error.exit_code)
    except Interrupted as interrupt:
        _stop(interrupt.message)
    except (KeyboardInterrupt, click.Abort):
        _stop()
    except click.ClickException as error:
        _fail(f"error: {error.format_message()}", error.exit_code)
    except Exception as error:
        if interruption.requested:  # a KeyboardInterrupt inside an import or a C callback changes its type
            _stop()
        message = _expected(error)
        if message is None:
            raise
        _fail(f"error: {message}", 1)
    sys.exit(code if isinstance(code, int) else 0)


def _fail(message: str, code: int) -> NoReturn:
    """Print one line on stderr and exit."""
    click.echo(one_line(message), err=True)
    sys.exit(code)


def _stop(message: str = INTERRUPTED) -> NoReturn:
    """Say that we were interrupted, and exit within `EXIT_SECONDS`."""
    if interruption.requested:
        interruption.deafen()
        last_resort = threading.Timer(EXIT_SECONDS, os._exit, [1])
        last_resort.daemon = True
        last_resort.start()
    _fail(message, 1)


def _usage(error: click.UsageError) -> str:
    """A usage error as one line that ends in where to read more."""
    message = error.format_message().rstrip(".")
    return f"{message} (see '{error.ctx.command_path} --help')" if error.ctx else message


def _expected(error: Exception) -> str | None:
    """The line for an expected failure, or None for a bug."""
    from smeoffline.errors import SmeofflineError  # not at the top: `--help` does without the library

    if isinstance(error, SmeofflineError):
        return str(error)
    if isinstance(error, OSError):
        told = str(error.strerror or error)
        return f"{error.filename}: {told}; mend that, or choose another place" if error.filename else told
    if isinstance(error, MemoryError):
        return "out of memory; ask for fewer workers or a smaller task"
    return None
