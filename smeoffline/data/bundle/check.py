"""Whether an unpacked dataset is what its manifest says, and can be opened without harm.

Nothing here trusts the dataset: its metadata hold only known fields, and those that name code or sizes are
compared with what follows from the recipe; its HDF5 file holds the known arrays of each episode, in the file
itself, in known codings, and no links to elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from smeoffline.data.audit import regeneration, told
from smeoffline.data.audit.regeneration import Regeneration
from smeoffline.data.bundle.manifest import FILES, NAME, Entry, spec_of
from smeoffline.data.bundle.scan import EpisodeScan
from smeoffline.data.recipe import Recipe
from smeoffline.data.rollout import rows_per_block
from smeoffline.data.storage import metadata
from smeoffline.data.storage.episodes import content_sha256, episode_digests
from smeoffline.data.storage.findings import Finding
from smeoffline.data.storage.metadata import Header
from smeoffline.data.storage.reading import EpisodeReader, Opened, open_episodes
from smeoffline.data.storage.values import out_of_range
from smeoffline.errors import BundleError, SmeofflineError, VersionError

SAMPLE = 64  # episodes whose every step is recomputed
SAMPLE_STEPS = 2**17  # but no more than so many steps, where episodes are long
# All that Minari may read of a dataset that follows from a recipe: `eval_env_spec`, for one, could name any code.
_KEYS = {
    "total_episodes", "total_steps", "data_format", "jpeg_encoding", "observation_space", "action_space", "env_spec",
    "dataset_id", "minari_version", "dataset_size", "algorithm_name", "author", "author_email", "code_permalink",
    "description", "ref_min_score", "ref_max_score", metadata.PROVENANCE,
}  # fmt: skip


def describe(folder: Path, identity: str, called: str) -> Header:
    """The metadata of a dataset that can be in a bundle.

    Args:
        folder: The dataset's.
        identity: Its id.
        called: What messages call the folder.

    Raises:
        BundleError: They hold what a bundle must not, or it isn't ours.
        DatasetError: They can't be read.
        VersionError: A newer version of this package wrote them.
    """
    header = metadata.read(folder)
    where = f"{called}/data/{metadata.FILE}"
    if header.id != identity:
        raise BundleError(f"{where}: dataset_id: expected {identity!r}, got {ascii(header.id)[:80]}")
    if header.provenance is None:
        raise BundleError(
            f"dataset {identity!r} was not made by smeoffline: its optimum is not known, so nobody could verify it"
        )
    unknown = sorted(set(header.raw) - _KEYS)
    if unknown:
        raise BundleError(f"{where}: expected the fields of a generated dataset, got also {ascii(unknown[0])[:80]}")
    if not isinstance(header.raw.get("minari_version"), str):  # Minari's listing of all datasets fails without it
        raise BundleError(f"{where}: minari_version: expected text, got {ascii(header.raw.get('minari_version'))[:80]}")
    for key, channels in (("observation_space", header.observation_dim), ("action_space", header.action_dim)):
        if json.loads(header.raw[key]) != json.loads(metadata.unit_box(channels)):
            raise BundleError(f"{where}: {key}: expected a Box from 0 to 1 of {channels} float32 channels, got another")
    return header


def check(folder: Path, entry: Entry, *, every: bool, regenerate: bool = False, called: str | None = None) -> int:
    """Check an unpacked dataset whose files have the hashes of the manifest.

    Args:
        folder: The dataset's, wherever it is.
        entry: What the manifest says of it.
        every: Whether to read all numbers of all episodes and recompute the content hash, or only those of a
            sample. Either way the layout of every episode is checked, and the steps of a sample are recomputed.
        regenerate: Whether to make the dataset again from its recipe, and compare.
        called: What messages call the folder; by default its id, as in the bundle.

    Returns:
        How many steps were recomputed from the known optimum.

    Raises:
        BundleError: The first fault, beginning with the name of the member (or of the file in `called`).
        VersionError: A newer version of this package wrote the dataset.
    """
    called = entry.identity.text if called is None else called
    described, stored = (f"{called}/data/{name}" for name in FILES)
    try:
        header = describe(folder, entry.identity.text, called)
        recipe = _recipe(header, entry, described)
        _refuse(described, told.against_recipe(header.raw, entry.spec | {"scores": _scores(header)}))
        prepared = Regeneration(recipe, recipe.task.build())
        with open_episodes(folder / "data" / metadata.DATA_FILE) as opened:
            _refuse(stored, _structure(opened, header, prepared))
            places = _sample(opened, header, entry)
            sample, findings = EpisodeReader(opened, header, len(places)).run(places, [])
            _refuse(stored, (*findings, *out_of_range(sample)))
            _refuse(stored, regeneration.step_findings(sample, prepared))
            if every or regenerate:
                _refuse(stored, _content(opened, header, prepared, regenerate=regenerate))
            return int(sample.lengths.sum())
    except BundleError:
        raise
    except SmeofflineError as fault:  # whose text begins with where the file is now
        text = str(fault).replace(f"{folder}/data/", f"{called}/data/")
        kind = VersionError if isinstance(fault, VersionError) else BundleError
        raise kind(text if called in text or entry.identity.text in text else f"{described}: {text}") from None


def _recipe(header: Header, entry: Entry, described: str) -> Recipe:
    """The recipe that manifest and metadata agree upon."""
    provenance = header.provenance or {}
    for key, value in spec_of(provenance).items():
        if value != entry.spec[key]:
            raise BundleError(f"{described}: {key}: expected what {NAME} says of it, got another")
    recipe = Recipe.from_dict({key: entry.spec[key] for key in ("task", "behavior", "dataset")})
    for key, found, wanted in (
        ("observation_space", header.observation_dim, recipe.task.state_dim + 2),
        ("action_space", header.action_dim, recipe.task.action_dim),
        ("total_episodes", header.episodes, recipe.episodes),
    ):
        if found != wanted:
            raise BundleError(f"{described}: {key}: expected {wanted}, as its recipe says, got {found}")
    return recipe


def _scores(header: Header) -> object:
    """The reference rows that the metadata tell."""
    return (header.provenance or {}).get("scores")


def _structure(opened: Opened, header: Header, prepared: Regeneration) -> Iterator[Finding]:
    """The layout of every episode, their number, lengths and seeds."""
    yield from opened.findings
    episodes, findings = EpisodeScan(opened, header, episodes=0).run(opened.places, [])
    yield from findings
    steps, limit = int(episodes.lengths.sum()), prepared.recipe.task.episode_length
    for check, wanted, found in (
        ("total_episodes", header.episodes, len(episodes.lengths)),
        ("total_steps", header.steps, steps),
    ):
        if wanted != found:
            yield Finding(check, None, None, f"{wanted} (in the metadata)", f"{found} (in the data)")
    if episodes.optimal_actions is None:
        yield Finding("infos/optimal_action", None, None, "one for each observation of each episode", "none in some")
    long = np.flatnonzero(episodes.lengths > limit)
    if len(long):
        number, length = int(episodes.numbers[long[0]]), int(episodes.lengths[long[0]])
        yield Finding("total_steps", number, None, f"at most {limit}", str(length))
    yield from prepared.whole(episodes)
    wanted_seeds = prepared.seeds(episodes.numbers)
    if episodes.seeds is not None and (episodes.seeds != wanted_seeds).any():
        i = int(np.flatnonzero(episodes.seeds != wanted_seeds)[0])
        yield Finding("seed", int(episodes.numbers[i]), None, str(wanted_seeds[i]), str(episodes.seeds[i]))


def _sample(opened: Opened, header: Header, entry: Entry) -> list[tuple[int, int]]:
    """Places of the episodes whose steps are recomputed: drawn by the data's hash, so that anyone finds the same."""
    count = len(opened.places)
    affordable = SAMPLE_STEPS * count // max(1, header.steps)
    drawn = np.random.default_rng(int(entry.files[1].sha256, 16))
    chosen = drawn.choice(count, size=min(count, SAMPLE, max(1, affordable)), replace=False)
    return [opened.places[i] for i in sorted(chosen.tolist())]


def _content(opened: Opened, header: Header, prepared: Regeneration, *, regenerate: bool) -> Iterator[Finding]:
    """Every number of every episode: finite, of the content hash, and where asked as the recipe gives it again."""
    provenance = header.provenance or {}
    same = regeneration.same_platform(provenance.get("platform"))
    if regenerate and prepared.missing:
        raise BundleError(f"dataset {header.id!r} cannot be generated again: {prepared.missing[0]}")
    digests: list[bytes] = []
    rows = rows_per_block(prepared.recipe.task)
    for start in range(0, len(opened.places), rows):
        part, findings = EpisodeReader(opened, header, rows).run(opened.places[start : start + rows], [])
        yield from findings
        yield from out_of_range(part)
        if regenerate and same:
            yield from regeneration.byte_findings(part, prepared)
        elif regenerate:
            yield from regeneration.step_findings(part, prepared)
        digests += episode_digests(part)
        del part  # before the next is read
    content = content_sha256(digests)
    if content != provenance.get("sha256"):
        yield Finding("content hash", None, None, str(provenance.get("sha256")), content)


def _refuse(member: str, findings: Iterable[Finding]) -> None:
    """Raise the first of what was found."""
    for finding in findings:
        raise BundleError(f"{member}: {finding}")
