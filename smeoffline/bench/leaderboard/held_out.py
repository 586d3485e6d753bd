"""Tasks that nobody has seen: drawn from a secret salt, with as many bits as cannot be tried.

A public task is one of 2^32 seeds: an entrant could compare its data with all of them and know the optimum. A
held-out task's weights, its behavior's systematic error and its episodes come from a 128-bit stream of the salt.
"""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path

import numpy as np

from smeoffline.bench.leaderboard.board import Place
from smeoffline.data.acting import Acting, Actor
from smeoffline.data.recipe import SEED_LIMIT
from smeoffline.data.rollout import Rollout
from smeoffline.data.streams import component_stream
from smeoffline.errors import BenchmarkError
from smeoffline.sme.model import Sme
from smeoffline.train.transitions import Transitions

SHORTEST, LONGEST = 16, 4096  # bytes of a salt's file
_STREAM, _DRAW = b"smeoffline leaderboard tasks ", b"smeoffline leaderboard draw "


@dataclasses.dataclass(frozen=True, repr=False)
class Salt:
    """What a draw of held-out tasks depends on.

    Attributes:
        secret: The content of the salt's file.
    """

    secret: bytes

    @classmethod
    def read(cls, path: str | Path) -> Salt:
        """The salt in a file.

        Raises:
            BenchmarkError: It can't be read, is too short to be a secret, or too long to be a salt.
        """
        make = "make one by `openssl rand -hex 16`, keep it secret, and keep it for all entries of a draw"
        try:
            with Path(path).open("rb") as file:
                secret = file.read(LONGEST + 1).strip()
        except OSError as fault:
            raise BenchmarkError(f"salt file {str(path)!r}: can't be read: {fault.strerror or fault}; {make}") from None
        if not SHORTEST <= len(secret) <= LONGEST:
            shown = f"{len(secret)}" if len(secret) <= LONGEST else "more"
            raise BenchmarkError(
                f"salt file {str(path)!r}: expected {SHORTEST} to {LONGEST} bytes, got {shown}; {make}"
            )
        return cls(secret)

    @property
    def draw(self) -> str:
        """A name of the draw that does not tell the salt: 16 hex digits."""
        return hashlib.sha256(_DRAW + self.secret).hexdigest()[:16]

    def stream(self, place: Place) -> np.random.Generator:
        """The stream that draws a place's held-out task and data."""
        digest = hashlib.sha256(_STREAM + f"{place.key} ".encode() + self.secret).digest()
        return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(digest[:16], "big"))))


def held_out(place: Place, salt: Salt) -> Rollout:
    """A place's recipe on a task that only the salt tells, with another systematic error and other episodes."""
    stream = salt.stream(place)
    sme = Sme(place.recipe.task, stream)
    recipe = dataclasses.replace(place.recipe, seed=int(stream.integers(0, SEED_LIMIT, dtype=np.uint64)))
    actors: tuple[Acting, ...] = tuple(
        Actor(c.behavior, sme, component_stream(recipe.seed, i)) for i, c in enumerate(recipe.mix)
    )
    return Rollout(recipe, sme, actors)


def transitions(rollout: Rollout) -> Transitions:
    """The data of a rollout, as training sees a dataset: in memory, and nothing of them on disk."""
    parts: dict[str, list[np.ndarray]] = {field.name: [] for field in dataclasses.fields(Transitions)}
    episodes = 0
    for block in rollout.blocks():
        inside = np.arange(block.rewards.shape[1]) < block.lengths[:, np.newaxis]
        flat = Transitions(
            observations=block.observations[:, :-1][inside],
            actions=block.actions[inside],
            rewards=block.rewards[inside],
            next_observations=block.observations[:, 1:][inside],
            terminals=block.terminations[inside],
            timeouts=block.truncations[inside] & ~block.terminations[inside],
            episodes=episodes + np.repeat(np.arange(len(block)), block.lengths),
        )
        episodes += len(block)
        for name, listed in parts.items():
            listed.append(getattr(flat, name))
    return Transitions(**{name: np.concatenate(listed) for name, listed in parts.items()})
