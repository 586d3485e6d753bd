"""Verify an algorithm: train it, in a sandbox, on tasks that nobody has seen, and score its actions outside."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from smeoffline import __version__
from smeoffline.bench.leaderboard.board import Board
from smeoffline.bench.leaderboard.entry import Submission, check_said
from smeoffline.bench.leaderboard.flags import flags, lead_flags
from smeoffline.bench.leaderboard.held_out import Salt, held_out, transitions
from smeoffline.bench.leaderboard.lines import VERIFIED, HeldOut, Line
from smeoffline.bench.leaderboard.place_score import PlaceScore, Scores
from smeoffline.bench.leaderboard.sandbox import Entrant, Sandbox
from smeoffline.bench.leaderboard.scoring import score_place
from smeoffline.bench.leaderboard.standings import ranked_by
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage.folders import datasets_root
from smeoffline.score.statistics import Estimate, mean_of_strata

Progress = Callable[[int, int], None]


def verify(
    entrant: Entrant,
    salt_file: str | Path,
    board: Board,
    *,
    name: str,
    steps: int,
    partial: bool = False,
    timeout: float,
    progress: Progress | None = None,
) -> Line:
    """Train an entrant on the public datasets and on held-out ones, and score it on both.

    Args:
        entrant: Its code runs in the sandbox only.
        salt_file: Tells the held-out tasks; stays outside.
        board: Datasets and seeds.
        name: The entry's.
        steps: Of each training.
        partial: Whether the board has fewer seeds than the suite.
        timeout: Seconds for one training.
        progress: Called with trainings done and in all.

    Raises:
        BenchmarkError: A name or number of steps that no entry may have, no sandbox here, a bad salt, or the
            entrant fails.
    """
    submission = _submission(entrant, board, name, steps, partial=partial)
    check_said(submission)  # a line that nobody could read would spoil the results, after hours
    salt = Salt.read(salt_file)
    sandbox = Sandbox(entrant, timeout)
    sandbox.check([Path(salt_file), datasets_root(), Path.home()])
    # All that depends on the salt is made before a line of the entrant runs.
    secret = [(place, rollout, transitions(rollout)) for place in board.places for rollout in [held_out(place, salt)]]
    total = 2 * len(board.places)
    found: tuple[dict[str, tuple[PlaceScore, ...]], ...] = ({}, {})
    done = 0
    for place, rollout, data in secret:
        public = Rollout.prepare(place.recipe)
        for which, (known, given) in enumerate(((public, transitions(public)), (rollout, data))):
            observations = board.observations[place.dataset]
            actions = sandbox.actions(given, observations, seed=place.seed, steps=steps)
            score = score_place(known, place.seed, observations, actions)
            found[which][place.dataset] = (*found[which].get(place.dataset, ()), score)
            done += 1
            if progress is not None:
                progress(done, total)
    public_scores, scores = found
    lead = public_lead(public_scores, scores, board)
    return Line(
        submission=submission,
        tier=VERIFIED,
        scores=scores,
        kinds=board.kinds,
        labels=board.held_out_labels,
        partial=partial,
        flags=(*flags(scores, board.datasets), *lead_flags(lead)),
        entry_sha256=None,
        held_out=HeldOut(salt.draw, public_scores, lead),
    )


def public_lead(public: Scores, scores: Scores, board: Board) -> Estimate | None:
    """How much more of the gap is closed on the public tasks than on held-out ones; None where there is no gap.

    The mean over the datasets that are ranked by. What falls short of imitation counts as 0 on both sides: there,
    a share of the gap tells how wide the gap is, which another task changes, and not what an entrant knows. Each
    seed has a held-out task of its own, so that the interval over seeds has the variation of tasks in it.
    """
    strata = []
    for dataset in ranked_by(board.kinds, [scores]):
        pairs = zip(public[dataset], scores[dataset], strict=True)
        closed = [(a.gap_closed, b.gap_closed) for a, b in pairs]
        differences = [max(a, 0.0) - max(b, 0.0) for a, b in closed if a is not None and b is not None]
        if len(differences) == len(closed):
            strata.append(np.array(differences))
    return mean_of_strata(strata) if strata else None


def _submission(entrant: Entrant, board: Board, name: str, steps: int, *, partial: bool) -> Submission:
    """What a verified entry says about itself; its code is told by its hash."""
    return Submission(
        suite=board.suite.name,
        name=name,
        algorithm=entrant.name,
        hyperparameters={},
        steps=steps,
        seeds=tuple(range(board.suite.seeds)),
        code_version=f"code sha256 {code_sha256(entrant.path)}, smeoffline {__version__}",
        probes_sha256=board.probes_sha256,
        partial=partial,
    )


def code_sha256(path: Path) -> str:
    """The hash of a module's file, or of all Python files of a package with their names."""
    if path.is_file():
        return hashlib.sha256(path.read_bytes()).hexdigest()
    digest = hashlib.sha256()
    for file in sorted(path.rglob("*.py")):
        digest.update(f"{file.relative_to(path).as_posix()} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()
