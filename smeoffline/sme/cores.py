"""How many cores this process may use; torch is not needed to know."""

from __future__ import annotations

import os

import joblib


def default_workers() -> int:
    """The cores this process may use (affinity and container quota counted), at most OMP_NUM_THREADS if it is set.

    That variable is how cluster schedulers, and joblib in its worker processes, hold a process to its share.
    """
    cores: int = joblib.cpu_count()
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores, int(limit)) if limit.isdecimal() and int(limit) > 0 else cores
