"""`metadata.json` of a dataset: Minari's own fields, and the object `smeoffline` with what only we know."""

from __future__ import annotations

import importlib.metadata
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smeoffline.errors import DatasetError, VersionError

FILE = "metadata.json"
DATA_FILE = "main_data.hdf5"
PROVENANCE = "smeoffline"  # the key of our object in Minari's metadata
SCHEMA = 1  # of that object; rises when a reader of the old one would misread the new one
_MAX_BYTES = 2**26  # ours is a few kB; beyond this it is no metadata
_MAX_CHANNELS = 2**31  # more than any file holds a row of, and few enough for numpy to count in bytes
_FLOATS = ("float16", "float32", "float64")
_MADE_BY_STORE = ("total_episodes", "total_steps", "data_format", "jpeg_encoding", "observation_space",
                  "action_space", "env_spec", "dataset_id", "minari_version", "dataset_size")  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What the metadata of a dataset says, validated but not yet compared with the data.

    Attributes:
        raw: The JSON object as it stands in the file.
        id: Minari's `dataset_id`.
        observation_dim: Channels of an observation.
        action_dim: Channels of an action.
        episodes: Claimed number of episodes, >= 0.
        steps: Claimed number of steps over all episodes, >= 0.
        provenance: The `smeoffline` object, or None for a dataset that is not ours.
    """

    raw: dict[str, Any]
    id: str
    observation_dim: int
    action_dim: int
    episodes: int
    steps: int
    provenance: dict[str, Any] | None


@dataclass(frozen=True)
class Contents:
    """What was written, for the metadata to say.

    Attributes:
        dataset_id: The id.
        observation_dim: Channels of an observation.
        action_dim: Channels of an action.
        env_spec_json: A Gymnasium EnvSpec's JSON text.
        episodes: How many.
        steps: Over all episodes.
        sha256: The content hash, 64 hex digits.
        size: Of the data file, in bytes.
    """

    dataset_id: str
    observation_dim: int
    action_dim: int
    env_spec_json: str
    episodes: int
    steps: int
    sha256: str
    size: int


def compose(contents: Contents, more: Mapping[str, Any]) -> str:
    """The text of `metadata.json`.

    Args:
        contents: What the store knows.
        more: Minari's descriptive fields (`author`, `algorithm_name`, `ref_min_score`, ...) and `smeoffline`.

    Raises:
        ValueError: `more` sets what the store sets, contradicts its hash, or isn't JSON (NaN is not).
    """
    clash = sorted(set(more) & set(_MADE_BY_STORE))
    if clash:
        raise ValueError(f"metadata: {', '.join(clash)} is set by the store; leave it out")
    provenance = {"schema": SCHEMA, "sha256": contents.sha256, **more.get(PROVENANCE, {})}
    if (provenance["schema"], provenance["sha256"]) != (SCHEMA, contents.sha256):
        raise ValueError(
            f"metadata: expected schema {SCHEMA} and the written episodes' hash {contents.sha256}, "
            f"got {provenance['schema']} and {provenance['sha256']}"
        )
    fields = {
        "total_episodes": contents.episodes,
        "total_steps": contents.steps,
        "data_format": "hdf5",
        "jpeg_encoding": False,
        "observation_space": unit_box(contents.observation_dim),
        "action_space": unit_box(contents.action_dim),
        "env_spec": contents.env_spec_json,
        "dataset_id": contents.dataset_id,
        "minari_version": importlib.metadata.version("minari"),
        "dataset_size": round(contents.size / 1e6, 1),
        **{key: sorted(value) if isinstance(value, (set, frozenset)) else value for key, value in more.items()},
        PROVENANCE: provenance,
    }
    return json.dumps(fields, indent=1, allow_nan=False) + "\n"


def unit_box(channels: int) -> str:
    """Box(0, 1, (channels,), float32), as Minari serializes it."""
    low, high = [0.0] * channels, [1.0] * channels
    return json.dumps({"type": "Box", "dtype": "float32", "shape": [channels], "low": low, "high": high})


def read(folder: Path) -> Header:
    """Read and validate the metadata of a dataset's folder.

    Raises:
        DatasetError: It is missing, not JSON, or describes data of a kind that this package does not read.
        VersionError: A newer version of this package wrote it.
    """
    path = folder / "data" / FILE
    raw = _load(path)
    if raw.get("data_format", "hdf5") != "hdf5":
        raise DatasetError(f"{path}: expected data_format hdf5, got {raw['data_format']!r}; convert it with minari")
    if not isinstance(raw.get("dataset_id"), str):
        raise DatasetError(f"{path}: expected dataset_id to be text, got {raw.get('dataset_id')!r}")
    return Header(
        raw=raw,
        id=raw["dataset_id"],
        observation_dim=_channels(path, raw, "observation_space"),
        action_dim=_channels(path, raw, "action_space"),
        episodes=_count(path, raw, "total_episodes"),
        steps=_count(path, raw, "total_steps"),
        provenance=_provenance(path, raw),
    )


def _load(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DatasetError(f"{path}: expected at most {_MAX_BYTES} bytes, got {path.stat().st_size}")
        raw = json.loads(path.read_bytes())
    except OSError as fault:
        raise DatasetError(f"{path}: cannot be read: {fault.strerror}") from None
    except (ValueError, RecursionError) as fault:  # UnicodeDecodeError is a ValueError
        reason = str(fault).splitlines()[0] if isinstance(fault, ValueError) else "nested too deeply"
        raise DatasetError(f"{path}: not JSON: {reason}; restore it or generate the dataset again") from None
    if not isinstance(raw, dict):
        raise DatasetError(f"{path}: expected a JSON object, got {type(raw).__name__}")
    return raw


def _count(path: Path, raw: dict[str, Any], key: str) -> int:
    """A number of things."""
    value = raw.get(key)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)  # some writers of JSON know only floats
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise DatasetError(f"{path}: expected {key} to be a whole number >= 0, got {value!r}")
    return value


def _channels(path: Path, raw: dict[str, Any], key: str) -> int:
    """The width of a one-dimensional Box of floats."""
    wanted = f"{path}: expected {key} to be a one-dimensional Box of floats"
    try:
        space = json.loads(raw[key])
        kind, shape, dtype = space["type"], space.get("shape"), space.get("dtype")
    except KeyError:
        raise DatasetError(f"{wanted}, got none") from None
    except (TypeError, ValueError, RecursionError, AttributeError):
        raise DatasetError(f"{wanted}, got {str(raw[key])[:60]!r}") from None
    flat = isinstance(shape, list) and len(shape) == 1 and type(shape[0]) is int and 0 < shape[0] <= _MAX_CHANNELS
    if kind != "Box" or not flat or dtype not in _FLOATS:
        raise DatasetError(f"{wanted}, got {kind} of shape {shape} and dtype {dtype}; other spaces can't be read")
    return int(shape[0])


def _provenance(path: Path, raw: dict[str, Any]) -> dict[str, Any] | None:
    """Our own object, if there is one of a version that we read."""
    found = raw.get(PROVENANCE)
    if found is None:
        return None
    schema = found.get("schema") if isinstance(found, dict) else None
    if isinstance(schema, bool) or not isinstance(schema, int) or schema < 1:
        raise DatasetError(
            f"{path}: expected {PROVENANCE} to be an object with a schema number, got {str(found)[:60]!r}"
        )
    if schema > SCHEMA:
        raise VersionError(
            f"{path}: written by a newer smeoffline: expected schema {SCHEMA} or older, got {schema}; "
            "upgrade smeoffline"
        )
    return dict(found)
