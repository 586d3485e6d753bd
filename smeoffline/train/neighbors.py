"""PRDC's search for the nearest transition: one per learner, on one thread."""

from __future__ import annotations

import contextlib
from typing import Any

from smeoffline.train.algorithms import Algorithm


def search() -> Any:
    """An empty search, set up as PRDC's own, which its class keeps for all its instances."""
    from sklearn.neighbors import NearestNeighbors  # type: ignore[import-untyped]  # d3rlpy requires it

    return NearestNeighbors(n_neighbors=1, algorithm="auto", n_jobs=1)


def one_thread(algorithm: Algorithm) -> contextlib.AbstractContextManager[Any]:
    """Hold the search's thread pool, which is not torch's, to one thread where there is a search."""
    if not algorithm.needs_neighbors:
        return contextlib.nullcontext()
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn requires it

    limits: contextlib.AbstractContextManager[Any] = threadpool_limits(1)
    return limits
