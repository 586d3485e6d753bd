"""Everything that smeoffline raises on purpose.

    SmeofflineError                an expected failure: its text is one line a user can act on
    |-- SpecError                  a task, behavior, recipe, suite or option has a value it cannot have
    |-- DatasetError               a dataset cannot be read or written
    |   |-- DatasetNotFoundError   no dataset of that id (or no such folder)
    |   |-- DatasetExistsError     the id is taken, and overwriting was not asked for
    |   `-- DatasetFaultError      the data contradict themselves; names the episode and step
    |-- TrainingError              training cannot start, failed, or cannot be resumed
    |-- PolicyError                a policy file or callable cannot be used
    |-- BundleError                a bundle cannot be made, fetched or trusted; names the member
    |-- BenchmarkError             a benchmark cannot start or go on, or its results cannot be read
    `-- VersionError               an artefact was written by a version this one does not read

A message says what failed, what was expected, what was found, and what to do, in one line.
The command line prints it after `error: ` and exits with 1 (or with 2 for a refused option); nothing is left
half-written. A `SmeofflineWarning` is a remark of the same kind, after which the work goes on.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SmeofflineError(Exception):
    """An expected failure: its text is one line a user can act on."""


class SmeofflineWarning(UserWarning):
    """Something was left out, and the rest goes on; the command line prints it after `warning: `."""


class SpecError(SmeofflineError, ValueError):
    """A task, behavior, recipe, suite or option has a value it cannot have."""


class DatasetError(SmeofflineError):
    """A dataset cannot be read or written."""


class DatasetNotFoundError(DatasetError):
    """No dataset of that id, or no such folder."""


class DatasetExistsError(DatasetError):
    """The id is taken, and overwriting was not asked for."""


class DatasetFaultError(DatasetError):
    """The data contradict themselves; the text names the episode and step."""


class TrainingError(SmeofflineError):
    """Training cannot start, failed, or cannot be resumed."""


class PolicyError(SmeofflineError):
    """A policy file or callable cannot be used."""


class BundleError(SmeofflineError):
    """A bundle cannot be made, fetched or trusted; the text names the member."""


class BenchmarkError(SmeofflineError):
    """A benchmark cannot start or go on, or its results cannot be read."""


class VersionError(SmeofflineError):
    """An artefact was written by a version this one does not read."""


def nearest(name: str, known: Iterable[str], *, how_many: int = 1) -> str:
    """The known names closest to a misspelled one, as a clause for the end of a message.

    Args:
        name: What was given.
        known: What would have been accepted.
        how_many: How many near names to list.

    Returns:
        `"; did you mean 'x'?"`, or `""` where nothing is near.
    """
    close = difflib.get_close_matches(name, list(known), n=how_many, cutoff=0.5)
    return f"; did you mean {' or '.join(repr(c) for c in close)}?" if close else ""
