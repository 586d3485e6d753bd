"""From training runs to an entry: each run's policy acts at the probes of its dataset."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from smeoffline.bench.leaderboard.board import Board, Place
from smeoffline.bench.leaderboard.entry import Submission, check_said, write_entry
from smeoffline.errors import BenchmarkError
from smeoffline.score.runs import check_fits
from smeoffline.sme.arrays import Floats
from smeoffline.train.record import RunRecord
from smeoffline.train.run_folder import open_run, runs_in

PACKAGES = ("smeoffline", "d3rlpy", "torch")  # whose versions are an entry's code version
NAMED = 3  # missing runs that are named
SHARED = ("algorithm", "hyperparameters", "steps")  # one entry is one algorithm with one set of settings

Progress = Callable[[int, int], None]


def submit(
    folders: Sequence[str | Path],
    out: str | Path,
    board: Board,
    *,
    name: str,
    authors: Sequence[str] = (),
    link: str | None = None,
    partial: bool = False,
    progress: Progress | None = None,
) -> Submission:
    """Write an entry from finished runs.

    Args:
        folders: Of runs, or with runs in them, as a benchmark's folder `runs` has.
        out: The entry's file.
        board: Which datasets and seeds are asked for.
        name: The entry's.
        authors: Their names.
        link: To a paper or a repository.
        partial: Whether datasets or seeds may be missing.
        progress: Called with runs done and in all.

    Returns:
        What the entry says about itself.

    Raises:
        BenchmarkError: A name or link that no entry may have; no run, one of another suite, two of one place, none
            of another place, or runs that are not of one algorithm with one set of hyperparameters; or the entry
            would have a fault.
        TrainingError: There is no such folder, or a run is not finished, or its record is damaged.
        PolicyError: A policy's file is damaged, or does not fit.
    """
    said = Submission(
        suite=board.suite.name,
        name=name,
        algorithm="unknown",
        hyperparameters={},
        steps=0,
        seeds=(0,),
        code_version="unknown",
        probes_sha256=board.probes_sha256,
        authors=tuple(authors),
        link=link,
        partial=partial,
    )
    check_said(said)
    runs = [run for folder in folders for run in runs_in(Path(folder))]
    places = {place.recipe.dataset_id: place for place in board.places}
    actions: dict[str, Floats] = {}
    first: tuple[Path, RunRecord] | None = None
    versions: dict[str, None] = {}  # each once, in order
    for done, run in enumerate(runs, 1):
        found, policy = open_run(run)
        place = _place(run, found, places, board)
        first = (run, found) if first is None else first
        _check_same(first, (run, found))
        if place.key in actions:
            raise BenchmarkError(f"run {run}: expected one run for {place.key}, got a second; leave one out")
        check_fits(policy, place.recipe)
        versions |= {f"{p} {found.versions[p]}": None for p in PACKAGES if p in found.versions}
        actions[place.key] = policy(board.observations[place.dataset])
        if progress is not None:
            progress(done, len(runs))
    if first is None:
        raise BenchmarkError(f"leaderboard: expected folders with runs, got none in {', '.join(map(str, folders))}")
    if not partial:
        _check_all(actions, board)
    told = first[1]
    submission = dataclasses.replace(
        said,
        algorithm=told.algorithm,
        hyperparameters=told.hyperparameters,
        steps=told.steps,
        seeds=tuple(sorted({place.seed for place in places.values() if place.key in actions})),
        code_version=", ".join(versions) if versions else said.code_version,
    )
    write_entry(Path(out), submission, actions, board)
    return submission


def _place(run: Path, found: RunRecord, places: Mapping[str, Place], board: Board) -> Place:
    """What a run answers: its dataset with its seed."""
    place = places.get(found.dataset_id)
    if place is None:
        raise BenchmarkError(
            f"run {run}: expected a dataset of suite {board.suite.name!r} with a seed below {board.suite.seeds}, "
            f"got {found.dataset_id!r}"
        )
    if found.seed != place.seed:
        raise BenchmarkError(
            f"run {run}: expected seed {place.seed} on {found.dataset_id}, got {found.seed}: suite seed i draws "
            "dataset i and trains run i"
        )
    return place


def _check_same(first: tuple[Path, RunRecord], other: tuple[Path, RunRecord]) -> None:
    """Refuse runs that differ in what an entry has only one of."""
    for name in SHARED:
        one, two = getattr(first[1], name), getattr(other[1], name)
        if one != two:
            raise BenchmarkError(
                f"run {other[0]}: expected {name} as in {first[0]}, {_short(one)}, got {_short(two)}; an entry is one "
                "algorithm with one set of hyperparameters"
            )


def _check_all(done: Collection[str], board: Board) -> None:
    """Refuse to leave a dataset or seed out unasked."""
    missing = [place.key for place in board.places if place.key not in done]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise BenchmarkError(
            f"submit: expected {len(board.places)} runs, one for each dataset and seed, got {len(done)}: none for "
            f"{', '.join(missing[:NAMED])}{more}; train them, or pass --partial"
        )


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
