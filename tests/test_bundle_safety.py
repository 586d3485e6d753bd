"""A stranger's bundle can't run code, escape its folder, fill the disk, or crash us."""

from __future__ import annotations

import copy
import io
import json
import os
import stat
import tempfile
import zipfile
from pathlib import Path

import bundles
import h5py
import numpy as np
import pytest
from bundles import DATA, ID, MANIFEST, METADATA, everything, members, zipped
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from smeoffline.data.bundle.archive import Archive
from smeoffline.data.bundle.install import install
from smeoffline.data.bundle.manifest import NAME
from smeoffline.data.bundle.verify import verify
from smeoffline.errors import BundleError, SmeofflineError

# The long mode: SMEOFFLINE_FUZZ=10000 python -m pytest tests/test_bundle_safety.py -k mutated
MUTATIONS = int(os.environ.get("SMEOFFLINE_FUZZ", "50"))


@pytest.fixture
def parts(bundle):
    """Its members."""
    return members(bundle)


@pytest.fixture
def refused(tmp_path, minari_root):
    """A function: neither verified nor installed, with a line that matches; nothing is left or changed."""
    (tmp_path / "beside").write_text("as it was")

    def check(data, match):
        file = tmp_path / "a.zip"
        file.write_bytes(data)
        before = everything(tmp_path)
        for use in (verify, lambda name: install([name])):
            with pytest.raises(BundleError, match=match) as told:
                use(str(file))
            assert "\n" not in str(told.value)
            assert len(str(told.value)) < 1000
        assert everything(tmp_path) == before
        assert everything(minari_root) == {}

    return check


@pytest.mark.parametrize(
    "name",
    [
        "../evil", "../../beside", "/evil", "sme/tiny-v0/data/../../../evil", "sme\\..\\evil", "C:\\evil", "C:evil",
        "sme/tiny-v0/data/other.hdf5", "SME/tiny-v0/data/metadata.json", "sme/tiny-v0/data/METADATA.JSON", "NUL",
        "con/x", "sme/tiny-v0/data/", ".minari", "\x1b[31mred", "x" * 5000, ".", "~/evil",
        "sme//tiny-v0/data/metadata.json",
    ],
)  # fmt: skip
def test_a_member_that_the_manifest_does_not_name_is_refused(parts, refused, name):
    """Whatever another member is called, it is refused by its name, and written nowhere."""
    refused(zipped([*parts.items(), (name, b"evil")]), "expected")


@pytest.mark.parametrize("name", ["../x-v0", "/x-v0", "a/../../b/x-v0", "sme/x", "sme\\x-v0", "C:/x-v0", "", "x-v0/",
                                  ".hidden/x-v0", "data/x-v0", "sme/\u202ex-v0", 7, None, ["x-v0"], "n" * 300 + "-v0",
                                  pytest.param("n" * 50_000, id="long"), "con/x-v0", "sme/COM1/x-v0"])  # fmt: skip
def test_an_id_that_is_no_dataset_id_is_refused(parts, refused, name):
    """Places follow from ids, and an id can't lead elsewhere or name a device."""
    manifest = json.loads(parts[MANIFEST])
    manifest["datasets"][0]["id"] = name
    for file in manifest["datasets"][0]["files"]:
        file["name"] = file["name"].replace(ID, str(name))
    moved = {key.replace(ID, str(name)): data for key, data in parts.items() if key != MANIFEST}
    refused(zipped({**moved, MANIFEST: json.dumps(manifest).encode()}), "dataset id|an id|expected")


@pytest.mark.parametrize("other", ["sme/tiny-v0", "SME/Tiny-v0", "sme/tiny-v0/inner-v0", "ſme/tiny-v0"])
def test_ids_that_could_not_stand_side_by_side_are_refused(parts, refused, other):
    """The same id again, but for case or the form of a letter, or in another dataset's folder, is refused."""
    manifest = json.loads(parts[MANIFEST])
    again = json.loads(json.dumps(manifest["datasets"][0]).replace(ID, other))
    manifest["datasets"].append(again)
    more = {key.replace(ID, other): data for key, data in parts.items()}
    refused(zipped({**more, **parts, MANIFEST: json.dumps(manifest).encode()}), "each once|lies in the folder")


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFDIR, stat.S_IFIFO, stat.S_IFCHR, stat.S_IFSOCK])
def test_links_folders_and_devices_are_refused(parts, refused, mode):
    """A member is a plain file."""
    info = zipfile.ZipInfo(METADATA)
    info.external_attr = (mode | 0o777) << 16
    items = [(info if name == METADATA else name, data) for name, data in parts.items()]
    refused(zipped(items), f"{METADATA}.: expected a plain file")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", [METADATA, DATA, MANIFEST])
def test_a_name_that_is_there_twice_is_refused(parts, refused, name):
    """Two members of one name could be checked as one and unpacked as the other."""
    refused(zipped([*parts.items(), (name, parts[name])]), "expected each name once")


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_compression_is_refused(parts, refused, method):
    """What is not compressed can't unpack to more than was sent: a zip bomb is refused before it is unpacked."""
    bomb = bundles.described({**parts, DATA: bytes(10**7)})
    refused(zipped(bomb, compression=method), "without compression")


def test_members_that_share_their_bytes_are_refused(parts, refused):
    """Overlapping members could unpack to more than the file: they can't be together larger than it."""
    manifest = json.loads(parts[MANIFEST])
    ids = [f"sme/n{i}-v0" for i in range(20)]
    manifest["datasets"] = [json.loads(json.dumps(manifest["datasets"][0]).replace(ID, name)) for name in ids]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(MANIFEST, json.dumps(manifest))
        for member in (METADATA, DATA):
            archive.writestr(member.replace(ID, ids[0]), parts[member])
            for name in ids[1:]:
                again = copy.copy(archive.getinfo(member.replace(ID, ids[0])))
                again.filename = member.replace(ID, name)
                archive.filelist.append(again)
    refused(made.getvalue(), "as large as the file")


@pytest.mark.parametrize("size", [0, 1, 10**9, 2**62, 2**63, 10**40, -1, 1.5, "1", None, True])
def test_a_size_that_is_not_the_members_is_refused(parts, refused, size):
    """What the manifest claims is compared before anything is unpacked, however large."""
    manifest = json.loads(parts[MANIFEST])
    manifest["datasets"][0]["files"][1]["size"] = size
    refused(zipped({**parts, MANIFEST: json.dumps(manifest).encode()}), f"{DATA}: expected")


@pytest.mark.parametrize(
    "text",
    [
        b"", b"{}", b"[]", b"null", b"{", b"\xff\xfe", b"[" * 100_000, b'{"schema": 1}', b'{"schema": true}',
        b'{"schema": 0}', b'{"schema": "1"}', b'{"schema": 1.0, "datasets": []}', b'{"schema": 1, "datasets": []}',
        b'{"schema": 1, "datasets": {}}', b'{"schema": 1, "datasets": [7]}',
        b'{"schema": 1, "datasets": [{"id": "a-v0"}]}',
        b'{"schema": ' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_refused(parts, refused, text):
    """Whatever stands in its place is one line."""
    refused(zipped({**parts, MANIFEST: text}), NAME)


def test_a_manifest_that_is_missing_or_huge_is_refused(parts, refused):
    """Neither is read."""
    refused(zipped({k: v for k, v in parts.items() if k != MANIFEST}), "manifest.json in it, got none")
    refused(zipped({**parts, MANIFEST: b" " * (2**24 + 1)}), "at most 16,777,216 bytes")


def test_a_huge_directory_is_not_read(tmp_path, monkeypatch):
    """The directory of a zip file is read in one piece, and no piece is larger than the limit."""
    monkeypatch.setattr("smeoffline.data.bundle.archive.MAX_PIECE", 10_000)
    data = zipped({f"{i:0100}": b"" for i in range(200)})
    path = tmp_path / "a.zip"
    path.write_bytes(data)
    with path.open("rb") as file, pytest.raises(BundleError, match="expected a bundle"):
        Archive(file)


def test_a_missing_member_and_missing_files_are_refused(parts, refused):
    """A manifest names two files of each dataset, and both are there."""
    refused(zipped({k: v for k, v in parts.items() if k != DATA}), f"{DATA}: expected it in the bundle")
    manifest = json.loads(parts[MANIFEST])
    del manifest["datasets"][0]["files"][1]
    refused(zipped({**parts, MANIFEST: json.dumps(manifest).encode()}), "expected the files")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (lambda m: m.update(eval_env_spec=m["env_spec"]), "eval_env_spec"),
        (lambda m: m.update(env_spec=m["env_spec"].replace("smeoffline.sme.env:SMEEnv", "os:system")), "entry_point"),
        (lambda m: m.update(env_spec=m["env_spec"].replace('"seed": 1', '"seed": 2')), "kwargs"),
        (lambda m: m.update(env_spec=None), "env_spec"),
        (lambda m: m.pop("minari_version"), "minari_version"),
        (lambda m: m.update(minari_version=["0.5.4"]), "minari_version"),
        (lambda m: m.update(requirements=["evil"]), "requirements"),
        (lambda m: m.update(dataset_id="sme/other-v0"), "dataset_id"),
        (lambda m: m.update(data_format="arrow"), "data_format"),
        (lambda m: m.update(total_episodes=10**12), "total_episodes"),
        (lambda m: m.update(total_steps=10**12), "total_steps"),
        (lambda m: m.update(observation_space=m["observation_space"].replace("1.0", "2.0")), "observation_space"),
        (lambda m: m.update(action_space='{"type": "Discrete"}'), "action_space"),
        (lambda m: m.pop("smeoffline"), "was not made by smeoffline"),
        (lambda m: m["smeoffline"]["task"].update(complexity=2), "env_spec"),
        (lambda m: m["smeoffline"]["task"].update(state_dim=10**9), "state_dim"),
        (lambda m: m["smeoffline"].update(task=None), "task"),
        (lambda m: m["smeoffline"]["behavior"][0].update(nu=0.1), "scores"),
        (lambda m: m["smeoffline"]["scores"].update(behavior_score=0.99), "scores"),
        (lambda m: m.update(ref_max_score=1e9), "ref_max_score"),
        (lambda m: m["smeoffline"]["dataset"].update(episodes=10**9), "total_episodes"),
        (lambda m: m["smeoffline"]["dataset"].update(seed=5), "scores|seed"),
    ],
)
def test_metadata_that_the_data_do_not_bear_out_are_refused(parts, refused, change, match):
    """What Minari would import, trust or show of a dataset is what follows from its recipe, and nothing else."""
    refused(zipped(bundles.with_metadata(parts, change)), match)


def test_a_manifest_that_contradicts_the_metadata_is_refused(parts, refused):
    """What one sees before downloading is what one gets."""
    manifest = json.loads(parts[MANIFEST])
    manifest["datasets"][0]["task"]["complexity"] = 50
    refused(zipped({**parts, MANIFEST: json.dumps(manifest).encode()}), f"{METADATA}: task: expected what {NAME} says")


def test_a_wrong_content_hash_is_found_by_verify(tmp_path, parts):
    """The hash of all numbers, which names a dataset in results, is recomputed."""
    changed = bundles.with_metadata(parts, lambda m: m["smeoffline"].update(sha256="0" * 64))
    file = tmp_path / "a.zip"
    file.write_bytes(zipped(changed))
    with pytest.raises(BundleError, match="content hash"):
        verify(str(file))


def _replace(path, make):
    """A change of an HDF5 file: something else in the place of an object."""

    def change(file):
        if path in file:
            del file[path]
        make(file, path)

    return change


def _virtual(file, path):
    layout = h5py.VirtualLayout((5, 2), np.float32)
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (5, 2))
    file.create_virtual_dataset(path, layout)


def _external(file, path):
    file.create_dataset(path, (5, 2), np.float32, external=[("/etc/passwd", 0, 40)])


def _unwritten(file, path):
    file.create_dataset(path, (10**9, 2), np.float32, chunks=(10**6, 2))


def _nothing(file, path):
    """Leave it away."""


@pytest.mark.parametrize(
    ("path", "make", "match"),
    [
        ("episode_1", lambda f, p: f.update({p: h5py.ExternalLink("/etc/passwd", "/x")}), "link"),
        ("episode_1", lambda f, p: f.update({p: h5py.SoftLink("/episode_0")}), "link"),
        ("episode_1/actions", lambda f, p: f.update({p: h5py.ExternalLink("other.hdf5", "/x")}), "link"),
        ("episode_1/actions", lambda f, p: f.update({p: h5py.SoftLink("/episode_0/actions")}), "link"),
        ("episode_1/infos", lambda f, p: f.update({p: h5py.SoftLink("/episode_0/infos")}), "link"),
        ("episode_1/infos/more", lambda f, p: f.update({p: h5py.ExternalLink("/etc/passwd", "/x")}), "link"),
        ("episode_1/actions", _external, "outside the file"),
        ("episode_1/infos/more", _external, "no other"),
        ("episode_1/more", _external, "no other"),
        ("more", _external, "nothing else"),
        ("episode_1/actions", _virtual, "outside the file"),
        ("episode_1/infos/log_density", lambda f, p: f.create_dataset(p, (6,), np.float32), "0 stored bytes"),
        ("episode_1/actions", _unwritten, "stored bytes"),
        ("episode_1/actions", lambda f, p: f.update({p: np.zeros((4, 2), np.float32)}), "shape"),
        ("episode_1/actions", lambda f, p: f.update({p: f["episode_1"]}), "episode 1"),
        ("episode_1/infos", lambda f, p: f.update({p: f["episode_1"]}), "no other"),
        ("episode_1/infos", lambda f, p: f.update({p: np.zeros(3)}), "episode 1"),
        ("episode_1/infos/optimal_action", _nothing, "optimal_action"),
        ("episode_1/infos/log_density", _nothing, "log density"),
        ("episode_1/truncations", lambda f, p: f.update({p: np.array([b"x"] * 5)}), "booleans"),
        ("episode_2", _nothing, "total_episodes"),
    ],
)  # fmt: skip
def test_hdf5_that_leads_elsewhere_or_holds_other_things_is_refused(parts, refused, tmp_path, path, make, match):
    """Links, external and virtual storage, unwritten data, other objects: in every episode, also those not sampled."""
    refused(zipped(bundles.with_data(parts, _replace(path, make), tmp_path)), match)


def test_an_unknown_filter_is_refused(parts, refused, tmp_path):
    """A coding that is not built in would have HDF5 load code from outside."""

    def change(file):
        del file["episode_1/actions"]
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((5, 2))
        created.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((5, 2))
        made = h5py.h5d.create(file["episode_1"].id, b"actions", h5py.h5t.NATIVE_FLOAT, space, created)
        made.write_direct_chunk((0, 0), bytes(40))

    refused(zipped(bundles.with_data(parts, change, tmp_path)), "not built in")


@pytest.mark.parametrize(
    ("path", "index", "match"),
    [
        ("episode_2/rewards", 4, "episode 2, step 4: reward"),
        ("episode_0/observations", (3, 1), r"episode 0, step [23]"),
        ("episode_1/actions", (0, 0), "episode 1, step 0"),
        ("episode_1/infos/optimal_action", (5, 1), "episode 1, step 5: optimal action"),
    ],
)
def test_numbers_that_do_not_follow_from_the_optimum_are_refused(parts, refused, tmp_path, path, index, match):
    """Rewards, states and optimal actions of the sample are recomputed, and told by episode and step."""

    def change(file):
        file[path][index] += 0.01 if file[path][index] < 0.5 else -0.01

    refused(zipped(bundles.with_data(parts, change, tmp_path)), match)


def test_compressed_hdf5_of_the_same_content_is_accepted(parts, tmp_path):
    """Built-in codings may be used: what counts is the content, whose hash is unchanged."""

    def change(file):
        for name in ("actions", "rewards"):
            values = file[f"episode_1/{name}"][()]
            del file[f"episode_1/{name}"]
            file["episode_1"].create_dataset(name, data=values, compression="gzip")

    path = tmp_path / "a.zip"
    path.write_bytes(zipped(bundles.with_data(parts, change, tmp_path)))
    assert verify(str(path)).datasets == install([str(path)]).datasets == (ID,)


def test_folders_pipes_and_missing_files_are_told(tmp_path):
    """What is no file is refused without waiting for it."""
    os.mkfifo(tmp_path / "pipe")
    for place, match in ((tmp_path, "got a folder"), (tmp_path / "pipe", "folder or device")):
        with pytest.raises(BundleError, match=match):
            verify(str(place))


# Mutations of a whole bundle, or of one member with its hashes made right again.
_EDITS = st.lists(
    st.tuples(
        st.sampled_from(["flip", "set", "cut", "insert", "repeat"]),
        st.floats(0, 1, exclude_max=True),
        st.binary(min_size=1, max_size=16),
    ),
    min_size=1,
    max_size=4,
)
_JSON = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just([]), st.just({}),
    st.sampled_from([10**30, -1, "../x", "sme/x-v0", "policy", "/etc/passwd", [[]], {"schema": 9}]),
)  # fmt: skip


def _edited(data, edits):
    """Bytes after some edits."""
    changed = bytearray(data)
    for kind, place, some in edits:
        at = int(place * len(changed)) if changed else 0
        if kind == "flip" and changed:
            changed[at] ^= some[0] or 1
        elif kind == "set":
            changed[at : at + len(some)] = some
        elif kind == "cut":
            del changed[at : at + 1 + some[0] * len(some)]
        elif kind == "insert":
            changed[at:at] = some
        elif kind == "repeat":
            changed[at:at] = changed[at : at + 200]
    return bytes(changed)


def _grafted(value, place, other):
    """JSON with another value in one place, which the digits of `place` choose."""
    if isinstance(value, (dict, list)) and value and place % 7:
        keys = list(value) if isinstance(value, dict) else range(len(value))
        key = keys[place % len(keys)]
        changed = dict(value) if isinstance(value, dict) else list(value)
        changed[key] = _grafted(value[key], place // 7, other)
        return changed
    return other


def _told(work):
    """The text of an expected failure, or nothing."""
    try:
        work()
    except SmeofflineError as fault:
        return str(fault)
    return ""


@pytest.mark.filterwarnings("ignore:Duplicate name")
@given(
    member=st.sampled_from([None, METADATA, DATA, DATA, MANIFEST]),
    edits=_EDITS,
    graft=st.one_of(st.none(), st.tuples(st.integers(0, 10**9), _JSON)),
)
@settings(max_examples=MUTATIONS, suppress_health_check=list(HealthCheck), deadline=None)
def test_a_mutated_bundle_is_installed_whole_or_refused_in_one_line(bundle, tmp_path, member, edits, graft):
    """No mutation gives a traceback, writes outside the target, or leaves anything of a failure behind."""
    parts = members(bundle)
    if member is None:
        data = _edited(bundle, edits)
    elif graft is not None and member in (METADATA, MANIFEST):
        changed = json.dumps(_grafted(json.loads(parts[member]), *graft)).encode()
        changed = {**parts, member: changed}
        data = zipped(bundles.described(changed) if member == METADATA else changed)
    else:
        changed = {**parts, member: _edited(parts[member], edits)}
        data = zipped(bundles.described(changed) if member != MANIFEST else changed)
    with tempfile.TemporaryDirectory(dir=tmp_path) as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place)
        root, file = folder / "deep" / "minari", folder / "a.zip"
        file.write_bytes(data)
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        patch.setattr("tempfile.tempdir", str(folder))
        assert "\n" not in _told(lambda: verify(str(file)))
        assert set(everything(folder)) == {"a.zip"}
        told = _told(lambda: install([str(file)]))
        if told:
            assert "\n" not in told
            assert set(everything(folder)) == {"a.zip"}
        else:
            expected = {"a.zip", "deep", "deep/minari", *(f"deep/minari/{p}" for p in
                        ("sme", "sme/namespace_metadata.json", ID, f"{ID}/data", METADATA, DATA))}  # fmt: skip
            assert set(everything(folder)) == expected
        assert file.read_bytes() == data
