"""Episodes in memory: padded blocks on their way to the store, flat arrays on their way back, and digests.

t              0     1    ...   T-1    T
observations   o0    o1         oT-1   oT
actions        a0    a1         aT-1
rewards        r0    r1         rT-1          r_t pays for a_t
optimal action a*0   a*1        a*T-1  a*T    never an algorithm's input
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.sme.arrays import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class EpisodeBlock:
    """n episodes, padded to T steps; row i is valid up to `lengths[i]` steps.

    Attributes:
        observations: (n, T+1, N_s+2) float32, C-contiguous like all the others.
        actions: (n, T, N_a) float32.
        rewards: (n, T) float32.
        terminations: (n, T) bool.
        truncations: (n, T) bool.
        optimal_actions: (n, T+1, N_a) float32.
        log_densities: (n, T+1) float32, the entry after an episode's last action 0; None where unknown.
        lengths: (n,) int64 in [1, T].
        seeds: (n,) int64; `env.reset(seed=seed)` gives an episode's o0.
        components: (n,) int64, index of the behavior in the recipe that acted.
        digests: One `episode_digest` per episode.
    """

    observations: Floats
    actions: Floats
    rewards: Floats
    terminations: Bools
    truncations: Bools
    optimal_actions: Floats
    log_densities: Floats | None
    lengths: Ints
    seeds: Ints
    components: Ints
    digests: list[bytes]

    def __len__(self) -> int:
        """The number of episodes n."""
        return len(self.lengths)

    @property
    def transitions(self) -> int:
        """Steps over all episodes."""
        return int(self.lengths.sum())

    @classmethod
    def of(
        cls,
        *,
        observations: Floats,
        actions: Floats,
        rewards: Floats,
        terminations: Bools,
        truncations: Bools,
        optimal_actions: Floats,
        lengths: Ints,
        seeds: Ints,
        components: Ints,
        log_densities: Floats | None = None,
    ) -> EpisodeBlock:
        """A block of these arrays (shapes as in the class), its digests computed."""
        digests = []
        for i, steps in enumerate(lengths.tolist()):
            digests.append(
                episode_digest(
                    observations=observations[i, : steps + 1],
                    actions=actions[i, :steps],
                    rewards=rewards[i, :steps],
                    terminations=terminations[i, :steps],
                    truncations=truncations[i, :steps],
                    optimal_actions=optimal_actions[i, : steps + 1],
                    log_densities=None if log_densities is None else log_densities[i, : steps + 1],
                )
            )
        return cls(
            observations=observations,
            actions=actions,
            rewards=rewards,
            terminations=terminations,
            truncations=truncations,
            optimal_actions=optimal_actions,
            log_densities=log_densities,
            lengths=lengths,
            seeds=seeds,
            components=components,
            digests=digests,
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class Episodes:
    """Episodes one after the other, without padding: E of them with N steps in all.

    Attributes:
        observations: (N + E, D) float32.
        actions: (N, A) float32.
        rewards: (N,) float32.
        terminations: (N,) bool.
        truncations: (N,) bool.
        optimal_actions: (N + E, A) float32, or None unless all episodes have them.
        log_densities: (N + E,) float32, or None unless all episodes have them.
        lengths: (E,) int64, steps of each episode.
        seeds: (E,) int64, or None unless all episodes have one.
        components: (E,) int64, or None unless all episodes have one.
        numbers: (E,) int64, each episode's number in the file.
    """

    observations: Floats
    actions: Floats
    rewards: Floats
    terminations: Bools
    truncations: Bools
    optimal_actions: Floats | None
    log_densities: Floats | None
    lengths: Ints
    seeds: Ints | None
    components: Ints | None
    numbers: Ints


@lru_cache(maxsize=4096)
def _heading(name: str, kind: str, shape: tuple[int, ...]) -> bytes:
    """What precedes an array's bytes in a digest, so that no two sets of arrays give the same stream."""
    return f"{name} {kind} {shape}\n".encode()


def episode_digest(
    *,
    observations: Floats,
    actions: Floats,
    rewards: Floats,
    terminations: Bools,
    truncations: Bools,
    optimal_actions: Floats | None = None,
    log_densities: Floats | None = None,
) -> bytes:
    """SHA-256 of one episode of L steps: name, dtype, shape and bytes of each array, in this order.

    Args:
        observations: (L+1, D).
        actions: (L, A).
        rewards: (L,).
        terminations: (L,).
        truncations: (L,).
        optimal_actions: (L+1, A), or None where they are not known.
        log_densities: (L+1,), or None where they are not known.

    Returns:
        32 bytes.
    """
    arrays: tuple[tuple[str, npt.NDArray[Any] | None], ...] = (
        ("observations", observations),
        ("actions", actions),
        ("rewards", rewards),
        ("terminations", terminations),
        ("truncations", truncations),
        ("infos/optimal_action", optimal_actions),
        ("infos/log_density", log_densities),
    )
    # One call for all: hashlib lets other threads run during a long update, and each such switch costs.
    parts: list[Any] = []
    for name, array in arrays:
        if array is not None:
            parts += _heading(name, array.dtype.str, array.shape), np.ascontiguousarray(array)
    return hashlib.sha256(b"".join(parts)).digest()


def episode_digests(episodes: Episodes) -> Iterator[bytes]:
    """The digest of each episode, in order."""
    steps = np.concatenate([[0], np.cumsum(episodes.lengths)]).tolist()
    optimal, densities = episodes.optimal_actions, episodes.log_densities
    for i, (begin, end) in enumerate(itertools.pairwise(steps)):
        step, row = slice(begin, end), slice(begin + i, end + i + 1)
        yield episode_digest(
            observations=episodes.observations[row],
            actions=episodes.actions[step],
            rewards=episodes.rewards[step],
            terminations=episodes.terminations[step],
            truncations=episodes.truncations[step],
            optimal_actions=None if optimal is None else optimal[row],
            log_densities=None if densities is None else densities[row],
        )


def content_sha256(digests: Iterable[bytes]) -> str:
    """The hash of a dataset, as 64 hex digits: SHA-256 of its episodes' digests, in order."""
    return hashlib.sha256(b"".join(digests)).hexdigest()
