"""Scores of an entry's actions against the optimum; what an entry says about its own score is never asked for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from smeoffline.bench.leaderboard.board import WITHIN, Board
from smeoffline.bench.leaderboard.entry import Entry
from smeoffline.bench.leaderboard.flags import flags
from smeoffline.bench.leaderboard.lines import SELF_REPORTED, Line
from smeoffline.bench.leaderboard.place_score import PlaceScore, Scores
from smeoffline.data.reference import MIN_HEADROOM, references
from smeoffline.data.rollout import Rollout
from smeoffline.sme.arrays import Floats
from smeoffline.sme.model import score


def score_place(rollout: Rollout, seed: int, observations: Floats, actions: Floats) -> PlaceScore:
    """Score actions on one task.

    Args:
        rollout: The dataset's recipe made ready: its task has the optimum.
        seed: Of the suite.
        observations: The board's, (12,000, N_s + 2).
        actions: (12,000, N_a) in [0, 1].
    """
    states = np.ascontiguousarray(observations[:, :-2])
    scores = score(actions, rollout.sme.optimal_action(states))
    rows = references(rollout, states[:WITHIN])
    inside, outside = (float(part.mean(dtype=np.float64)) for part in (scores[:WITHIN], scores[WITHIN:]))
    gain = inside - rows.imitation_score if rows.headroom >= MIN_HEADROOM else None
    return PlaceScore(
        seed=seed,
        score_wd=inside,
        score_ood=outside,
        behavior_score=rows.behavior_score,
        imitation_score=rows.imitation_score,
        clone_shrunk_score=rows.clone_shrunk_score,
        headroom=rows.headroom,
        random_score=rows.random_score,
        improvement=inside - rows.behavior_score,
        rl_gain=gain,
        gap_closed=None if gain is None else gain / rows.headroom,
    )


def score_actions(board: Board, actions: Mapping[str, Floats]) -> Scores:
    """Score an entry's actions, by the places' keys, on the public tasks."""
    scores: dict[str, tuple[PlaceScore, ...]] = {}
    for place in board.places:
        if place.key in actions:
            observations = board.observations[place.dataset]
            found = score_place(Rollout.prepare(place.recipe), place.seed, observations, actions[place.key])
            scores[place.dataset] = (*scores.get(place.dataset, ()), found)
    return scores


def score_entry(entry: Entry, board: Board) -> Line:
    """Score an entry from its actions alone: its line of the results."""
    scores = score_actions(board, entry.actions)
    return Line(
        submission=entry.submission,
        tier=SELF_REPORTED,
        scores=scores,
        kinds={dataset: board.kinds[dataset] for dataset in scores},
        labels={dataset: board.labels[dataset] for dataset in scores},
        partial=len(entry.actions) < len(board.places),
        flags=flags(scores, board.datasets),
        entry_sha256=entry.sha256,
        held_out=None,
    )
