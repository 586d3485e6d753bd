"""Bundles for tests: taken apart, changed, and put together again with hashes that are right."""

from __future__ import annotations

import hashlib
import io
import json
import zipfile

import smeoffline as so
from smeoffline.data.bundle.pack import pack

ID = "sme/tiny-v0"
METADATA, DATA, MANIFEST = f"{ID}/data/metadata.json", f"{ID}/data/main_data.hdf5", "manifest.json"


def tiny(name=ID, *, episodes=3, steps=5, seed=0, **fields):
    """Generate a small dataset; returns its id."""
    behavior = so.Behavior(nu=0.3, explore="probit", sigma=0.3)
    task = so.Task(state_dim=2, action_dim=2, episode_length=steps, **fields)
    return so.generate(task, behavior, episodes=episodes, seed=seed, dataset_id=name).dataset_id


def packed(folder, *names):
    """Pack datasets; returns the bytes."""
    out = folder / "made.zip"
    pack(names or [tiny()], out)
    data = out.read_bytes()
    out.unlink()
    return data


def members(bundle):
    """Name to bytes, in the order of the bundle."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def zipped(parts, **options):
    """A zip file of names (or ZipInfo) and bytes."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", **options) as archive:
        for name, data in parts.items() if isinstance(parts, dict) else parts:
            archive.writestr(name, data)
    return made.getvalue()


def described(parts):
    """The members with a manifest that is right about their sizes and hashes, and repeats their metadata."""
    manifest = json.loads(parts[MANIFEST])
    for entry in manifest["datasets"]:
        for file in entry["files"]:
            data = parts.get(file["name"], b"")
            file.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    return {**parts, MANIFEST: json.dumps(manifest).encode()}


def with_metadata(parts, change):
    """The members with metadata changed by a function, and a manifest that says the same."""
    metadata = json.loads(parts[METADATA])
    change(metadata)
    manifest = json.loads(parts[MANIFEST])
    entry = manifest["datasets"][0]
    for key in ("task", "behavior", "dataset", "sha256", "platform", "versions"):
        if isinstance(metadata.get("smeoffline"), dict):
            entry[key] = metadata["smeoffline"].get(key)
    changed = {**parts, METADATA: json.dumps(metadata).encode(), MANIFEST: json.dumps(manifest).encode()}
    return described(changed)


def with_data(parts, change, folder):
    """The members with an HDF5 file changed by a function of the open file, and hashes that are right."""
    import h5py

    path = folder / "changed.hdf5"
    path.write_bytes(parts[DATA])
    with h5py.File(path, "r+") as file:
        change(file)
    changed = described({**parts, DATA: path.read_bytes()})
    path.unlink()
    return changed


def everything(folder):
    """Every path below a folder, with the bytes of files: to see that nothing was left or changed."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() if p.is_file() and not p.is_symlink() else None
        for p in sorted(folder.rglob("*"))
    }
