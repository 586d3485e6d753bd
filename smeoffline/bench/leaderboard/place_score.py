"""An entry's scores on one dataset with one seed. Needs no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PlaceScore:
    """Scores on one dataset with one seed, named as in an evaluation.

    Attributes:
        seed: Of the suite.
        score_wd: On the uniform probes.
        score_ood: On those outside the cube: a diagnostic.
        behavior_score, imitation_score, clone_shrunk_score, headroom, random_score: The reference rows, on the same
            uniform probes.
        improvement: score_wd - behavior_score.
        rl_gain: score_wd - imitation_score; None where headroom is below 0.02.
        gap_closed: rl_gain / headroom; None likewise.
    """

    seed: int
    score_wd: float
    score_ood: float
    behavior_score: float
    imitation_score: float
    clone_shrunk_score: float
    headroom: float
    random_score: float
    improvement: float
    rl_gain: float | None
    gap_closed: float | None


Scores = Mapping[str, tuple[PlaceScore, ...]]
"""Dataset -> its seeds' scores, in order of the seeds."""
