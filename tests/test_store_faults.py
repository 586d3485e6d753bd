"""What is wrong with a dataset is told by episode and step; what can't be read at all, in one line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pytest
from stored import ID, block, data_file, same_bits, write

from smeoffline.data.storage import store, twins
from smeoffline.errors import DatasetError, DatasetFaultError, DatasetNotFoundError, VersionError

LENGTHS = [3, 2, 3, 3, 1]
LONG = pytest.param("x" * 100_000, id="long")  # an id's pattern takes quadratic time


@pytest.fixture
def folder():
    """A dataset of five episodes, one of which has a length of its own."""
    return write(block(LENGTHS, densities=True), more={"smeoffline": {}})


def replace(group, name, data):
    """Put other data in the place of a dataset of an episode."""
    del group[name]
    group[name] = data


def the_finding():
    """The one finding of the dataset; `read` refuses it in one line with the same place and numbers."""
    (finding,) = store.check(ID).findings
    with pytest.raises(DatasetFaultError) as told:
        store.read(ID)
    assert str(finding) in str(told.value)
    assert "\n" not in str(told.value)
    return finding


@pytest.mark.parametrize("episode", [0, 2, 4])
@pytest.mark.parametrize(
    ("name", "change", "expected", "got"),
    [
        # as many observations as actions [Minari#199]
        ("observations", lambda x: x[:-1], "one row more", None),
        ("observations", lambda x: np.concatenate([x, x[:1]]), "one row more", None),
        ("observations", lambda x: x[:, :-1], "5)", "4)"),
        # a single step's action without its own axis [Minari#245], and other wrong shapes
        ("actions", lambda x: x[0], "2)", "(2,)"),
        ("actions", lambda x: x.reshape(-1), "2)", ",)"),
        ("actions", lambda x: x[:, np.newaxis], "2)", "1, 2)"),
        ("actions", lambda x: np.concatenate([x, x]), "2)", None),
        ("terminations", lambda x: np.concatenate([x, x]), ",)", None),
        ("truncations", lambda x: x.astype(np.int8), "stored in this file", "not booleans"),
        ("rewards", lambda x: x[:, np.newaxis], "one number a step", ", 1)"),
        ("rewards", lambda x: x[:0], "at least one step", "(0,)"),
        ("rewards", lambda x: x.astype("S4"), "stored in this file", "not numbers"),
        ("infos/optimal_action", lambda x: x[:-1], "one row more", None),
        ("infos/log_density", lambda x: x[:-1], "one row more", None),
    ],
)
def test_a_wrong_shape_or_type_names_the_episode(folder, episode, name, change, expected, got):
    """Wherever it stands, an episode whose arrays do not fit together is found, and it alone."""
    with h5py.File(data_file(folder), "r+") as file:
        group = file[f"episode_{episode}"]
        replace(group, name, change(group[name][()]))
    finding = the_finding()
    assert (finding.check, finding.episode, finding.step) == (name, episode, None)
    assert expected in finding.expected
    assert got is None or got in finding.got
    kept = store.check(ID).dataset
    assert kept.numbers.tolist() == [i for i in range(5) if i != episode]
    assert kept.lengths.tolist() == [n for i, n in enumerate(LENGTHS) if i != episode]
    assert len(kept.observations) == kept.lengths.sum() + 4


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30, -1e30, 1.1e12])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("observations", "observations"),
        ("actions", "actions"),
        ("rewards", "rewards"),
        ("infos/optimal_action", "optimal_actions"),
        ("infos/log_density", "log_densities"),
    ],
)
def test_a_number_no_learner_survives_is_found(folder, name, shown, value):
    """One NaN, infinity or 1e30 anywhere is refused at load, with episode and step."""
    with h5py.File(data_file(folder), "r+") as file:
        dataset = file["episode_2"][name]
        dataset[(1, *([1] * (dataset.ndim - 1)))] = value
    finding = the_finding()
    assert (finding.check, finding.episode, finding.step) == (shown, 2, 1)
    assert finding.got == f"{np.float32(value):g}"


def test_the_largest_numbers_allowed_are_read(folder):
    """A million in size is still a number, and log-densities may be larger: those of much noise are."""
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/rewards"][1:] = [1e6, -1e6]
        file["episode_2/infos/log_density"][1] = 1e7
    assert store.read(ID).rewards[6:8].tolist() == [1e6, -1e6]
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_2/rewards"][1] = 1.1e6
    assert the_finding().expected == "finite numbers, at most 1e+06 in size"


def test_each_episode_and_array_is_told_once():
    """Many bad numbers in one array of one episode are one finding, at the first; others are their own."""
    made = block([3, 3])
    made.actions[0, 1:] = np.nan
    made.actions[1, 2] = np.nan
    made.rewards[1] = np.inf
    write(made)
    found = [(f.check, f.episode, f.step) for f in store.check(ID).findings]
    assert found == [("actions", 0, 1), ("actions", 1, 2), ("rewards", 1, 0)]
    with pytest.raises(DatasetFaultError, match=r"episode 0, step 1.*and 2 more"):
        store.read(ID)


@pytest.mark.parametrize(("key", "right"), [("total_episodes", 5), ("total_steps", 12)])
@pytest.mark.parametrize("wrong", [0, 4, 13, 10**15])
def test_metadata_that_contradicts_the_data_is_found(folder, key, right, wrong):
    """Counts in the metadata are compared with the data, and no memory is taken on their word."""
    path = folder / "data" / "metadata.json"
    raw = json.loads(path.read_text())
    assert raw[key] == right
    path.write_text(json.dumps(raw | {key: wrong}))
    finding = the_finding()
    assert (finding.check, finding.episode, finding.step) == (key, None, None)
    assert str(right) in finding.expected
    assert str(wrong) in finding.got


def test_an_episodes_own_count_is_compared(folder):
    """The attribute total_steps of an episode contradicting its rewards is found."""
    with h5py.File(data_file(folder), "r+") as file:
        file["episode_3"].attrs["total_steps"] = 4
    assert (the_finding().check, the_finding().episode) == ("total_steps", 3)


@pytest.mark.parametrize("episode", [0, 2, 4])
def test_a_missing_episode_is_found(folder, episode):
    """Episodes are numbered without gaps, and there are as many as the metadata say."""
    with h5py.File(data_file(folder), "r+") as file:
        del file[f"episode_{episode}"]
    checks = {f.check for f in store.check(ID).findings}
    assert "total_episodes" in checks
    assert checks <= {"total_episodes", "total_steps", "episodes"}
    assert ("episodes" in checks) == (episode != 4)


def test_a_stray_object_is_found(folder):
    """What is no episode is named."""
    with h5py.File(data_file(folder), "r+") as file:
        file["mine"] = [1.0]
    assert any(f.check == "episodes" and "mine" in f.got for f in store.check(ID).findings)


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "terminations", "truncations"])
def test_a_missing_array_is_found(folder, name):
    """An episode without one of Minari's arrays is named."""
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_1"][name]
    finding = the_finding()
    assert (finding.check, finding.episode, finding.got) == (name, 1, "none")


@pytest.mark.parametrize("where", ["episode_1", "episode_1/actions", "episode_1/infos/optimal_action"])
@pytest.mark.parametrize("kind", ["soft", "external"])
def test_links_to_elsewhere_are_not_followed(folder, tmp_path, where, kind):
    """A dataset from a stranger cannot make us read another file, or pass one episode off as two."""
    with h5py.File(tmp_path / "secret.h5", "w") as file:
        file["x"] = np.zeros((2, 2), np.float32)
    with h5py.File(data_file(folder), "r+") as file:
        del file[where]
        target = "/" + where.replace("episode_1", "episode_0")
        file[where] = h5py.SoftLink(target) if kind == "soft" else h5py.ExternalLink(tmp_path / "secret.h5", "/x")
    assert {(f.check, f.episode) for f in store.check(ID).findings if f.episode is not None} == {("links", 1)}


@pytest.mark.parametrize("kind", ["external", "virtual", "unwritten"])
def test_data_kept_outside_the_file_is_not_read(folder, tmp_path, kind):
    """External storage and virtual datasets could name any file; data never written are not there."""
    secret = tmp_path / "secret"
    secret.write_bytes(bytes(16))
    with h5py.File(data_file(folder), "r+") as file:
        group = file["episode_1"]
        del group["actions"]
        if kind == "external":
            group.create_dataset("actions", (2, 2), np.float32, external=[(secret, 0, 16)])
        elif kind == "virtual":
            layout = h5py.VirtualLayout((2, 2), np.float32)
            layout[:] = h5py.VirtualSource(secret, "x", (2, 2))
            group.create_virtual_dataset("actions", layout)
        else:
            group.create_dataset("actions", (2, 2), np.float32)
    assert (the_finding().check, the_finding().episode) == ("actions", 1)


def test_a_small_file_cannot_claim_to_hold_much(folder):
    """A sparse dataset of 4 TB is refused by what the file has stored of it, without asking for memory."""
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_1/rewards"]
        file["episode_1"].create_dataset("rewards", (10**12,), np.float32, chunks=(1000,))
    finding = the_finding()
    assert (finding.check, finding.episode, finding.got) == ("rewards", 1, "0 stored bytes for 4000000000000")


def test_arrays_that_share_their_bytes_are_refused(folder):
    """Links to one array from many episodes would have a small file fill any memory."""
    with h5py.File(data_file(folder), "r+") as file:
        for i in range(1, 5):
            del file[f"episode_{i}"]
        for i in range(1, 2000):
            file[f"episode_{i}"] = file["episode_0"]
    checked = store.check(ID)
    assert "arrays that share no bytes" in {finding.expected for finding in checked.findings}
    assert checked.dataset.observations.nbytes <= data_file(folder).stat().st_size


@pytest.mark.usefixtures("folder")
def test_an_array_is_read_in_as_many_parts_as_the_system_gives(monkeypatch):
    """Linux reads at most 2 GiB at once; what is longer is no fault of the file."""
    whole, real = store.read(ID), os.preadv
    monkeypatch.setattr(os, "preadv", lambda file, into, place: real(file, [memoryview(into[0]).cast("B")[:7]], place))
    assert same_bits(store.read(ID).observations, whole.observations)


def test_a_header_cut_off_within_a_number_has_no_twin():
    """What the end of a file cuts off is opened through HDF5, which tells what is wrong."""
    known = twins.Twins()
    header = b"OHDR\x02\x00" + bytes([36]) + bytes(28) + b"ADDRESS!" + b"sums"
    known.learn(b"a", header, [35], "facts")
    assert known.find(b"a", header) is not None
    assert known.find(b"a", header[:38]) is None


def test_compressed_data_are_read_but_not_by_a_plugin(folder):
    """Built-in filters are fine; a filter that HDF5 would load as code is refused."""
    with h5py.File(data_file(folder), "r+") as file:
        group = file["episode_1"]
        actions = group["actions"][()]
        del group["actions"]
        group.create_dataset("actions", data=actions, compression="gzip", shuffle=True)
    assert same_bits(store.read(ID).actions[3:5], actions)
    with h5py.File(data_file(folder), "r+") as file:
        created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        created.set_chunk((2, 2))
        created.set_filter(32015, h5py.h5z.FLAG_OPTIONAL)
        del file["episode_1/actions"]
        group, space = file["episode_1"].id, h5py.h5s.create_simple((2, 2))
        h5py.h5d.create(group, b"actions", h5py.h5t.IEEE_F32LE, space, created)
    assert "32015" in the_finding().got


def test_ours_without_optimal_actions_in_one_episode(folder):
    """Optimal actions that one episode lacks are not given for any."""
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_4/infos/optimal_action"]
    found = store.read(ID)
    assert found.optimal_actions is None
    assert len(found.log_densities) == 17


@pytest.mark.parametrize("schema", [2, 99])
def test_a_newer_version_is_told(folder, schema):
    """A dataset of a newer schema gives a version message, not a KeyError."""
    path = folder / "data" / "metadata.json"
    raw = json.loads(path.read_text())
    path.write_text(json.dumps(raw | {"smeoffline": {"schema": schema, "tasks": []}}))
    with pytest.raises(VersionError, match=f"got {schema}; upgrade"):
        store.read(ID)


@pytest.mark.parametrize(
    "edit",
    [
        lambda raw: raw | {"smeoffline": {"schema": "1"}},
        lambda raw: raw | {"smeoffline": [1]},
        lambda raw: raw | {"data_format": "arrow"},
        lambda raw: raw | {"total_steps": -1},
        lambda raw: raw | {"total_steps": "12"},
        lambda raw: raw | {"total_episodes": True},
        lambda raw: raw | {"total_episodes": None},
        lambda raw: raw | {"dataset_id": 3},
        lambda raw: {k: v for k, v in raw.items() if k != "observation_space"},
        lambda raw: raw | {"observation_space": "[]"},
        lambda raw: raw | {"observation_space": 3},
        lambda raw: raw | {"action_space": '{"type": "Box", "shape": [0], "dtype": "float32"}'},
        lambda raw: raw | {"action_space": '{"type": "Box", "shape": [2], "dtype": "int32"}'},
        lambda raw: raw | {"action_space": '{"type": "Box", "shape": [1000000000000000000000], "dtype": "float32"}'},
        lambda raw: [raw],
    ],
)
def test_metadata_of_another_kind_is_one_line(folder, edit):
    """Whatever stands in metadata.json, the answer is one line that names the file."""
    path = folder / "data" / "metadata.json"
    path.write_text(json.dumps(edit(json.loads(path.read_text()))))
    with pytest.raises(DatasetError, match=r"metadata\.json: ") as told:
        store.read(ID)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b'{"total_steps": ' + b"1" * 5000])
def test_metadata_that_is_no_json_is_one_line(folder, text):
    """A metadata file that was cut or overwritten is told as that."""
    (folder / "data" / "metadata.json").write_bytes(text)
    with pytest.raises(DatasetError, match=r"metadata\.json: not JSON") as told:
        store.read(ID)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("damage", "word"),
    [
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: data[:-1], "cut off"),
        (lambda _: b"garbage" * 1000, "signature"),
        (lambda _: b"", "signature"),
        (lambda data: data[:8] + bytes(100) + data[108:], "HDF5"),
    ],
)
def test_a_damaged_file_is_one_line(folder, damage, word):
    """A data file that was cut or overwritten is told as that, with what to do."""
    data_file(folder).write_bytes(damage(data_file(folder).read_bytes()))
    with pytest.raises(DatasetError, match=word) as told:
        store.read(ID)
    assert "\n" not in str(told.value)
    assert "generate the dataset again" in str(told.value)


def test_bytes_overwritten_inside_never_end_in_a_traceback(folder):
    """Zeroing any stretch of the file gives arrays, findings or one line; nothing else."""
    sound = data_file(folder).read_bytes()
    told = []
    for start in range(0, len(sound), 97):
        if not sound[start : start + 97].strip(b"\0"):
            continue
        data_file(folder).write_bytes(sound[:start] + bytes(97) + sound[start + 97 :])
        try:
            told += [str(finding) for finding in store.check(ID).findings]
        except DatasetError as fault:
            told.append(str(fault))
    assert len(told) > 20
    assert not any("\n" in text for text in told)


def test_a_missing_data_file_is_one_line(folder):
    """Metadata without data says which file is missing."""
    data_file(folder).unlink()
    with pytest.raises(DatasetError, match=r"main_data\.hdf5.*no such file"):
        store.read(ID)


def test_a_dataset_that_is_being_written_is_told(folder):
    """While another process has the file open for appending, reading says so; afterwards it works."""
    code = """
import h5py, sys
with h5py.File(sys.argv[1], "a"):
    print("open", flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, data_file(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout.readline() == "open\n"
        with pytest.raises(DatasetError, match="another process is writing it"):
            store.read(ID)
        other.communicate("")
    assert store.read(ID).lengths.tolist() == LENGTHS


def test_reading_gives_up_its_lock(folder):
    """After a reading, and after one that failed, the file can be opened for writing at once."""
    store.read(ID)
    with h5py.File(data_file(folder), "r+") as file:
        del file["episode_1/actions"]
    store.check(ID)
    with h5py.File(data_file(folder), "r+") as file:
        assert "episode_1" in file


def test_a_dataset_is_found_by_id_and_by_folder(folder, tmp_path, monkeypatch):
    """An id, a Path, a path as text, and a copy elsewhere all lead to the same data."""
    monkeypatch.chdir(folder.parent.parent)
    for name in (ID, folder, str(folder), f"./{ID}"):
        assert store.read(name).lengths.tolist() == LENGTHS
    moved = folder.rename(tmp_path / "moved")
    assert store.read(moved).id == ID
    with pytest.raises(DatasetNotFoundError):
        store.read(ID)


@pytest.mark.parametrize("name", ["sme/mime-v0", "sme/mine", "sme/mine-v1", "mine-v0"])
@pytest.mark.usefixtures("folder")
def test_an_unknown_id_is_told_with_those_near(name):
    """A misspelled id names the ones it may have been."""
    with pytest.raises(DatasetNotFoundError, match="did you mean 'sme/mine-v0'"):
        store.read(name)


@pytest.mark.parametrize("name", ["", "x" * 5000, LONG, "a\0b", "no/such\nfolder", "/nowhere/at-v0", "~nobody/at-v0"])
def test_any_text_may_be_asked_for(name):
    """Whatever is asked for, the answer is one line."""
    with pytest.raises(DatasetError) as told:
        store.read(name)
    assert "\n" not in str(told.value)


def test_a_folder_that_is_no_dataset_is_told(folder):
    """A namespace's folder, or any other, is not a dataset."""
    with pytest.raises(DatasetError, match="holds no data"):
        store.read(folder.parent)


def test_strays_do_not_break_a_listing(folder, minari_root):
    """Malformed folders are warned about and skipped; the rest is listed [Minari#204]."""
    write(block([1]), dataset_id="plain-v0")
    (minari_root / "stray" / "data").mkdir(parents=True)
    (minari_root / "not an id-v0" / "data").mkdir(parents=True)
    (minari_root / "broken-v0" / "data").mkdir(parents=True)
    (minari_root / "broken-v0" / "data" / "metadata.json").write_text("{")
    folder.rename(folder.with_name("renamed-v0"))
    (minari_root / ".hidden-v0" / "data").mkdir(parents=True)
    (minari_root / "empty").mkdir()
    (minari_root / "file-v0").write_text("")
    (minari_root / "loop").symlink_to(minari_root)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        listed = store.list_datasets()
    assert [one.id for one in listed if "loop" not in one.id] == ["plain-v0"]
    texts = [str(w.message) for w in told if "loop" not in str(w.message)]
    assert len(texts) == 4
    for name in ("stray", "not an id-v0", "broken-v0", "renamed-v0"):
        assert sum(f"/{name}:" in text for text in texts) == 1
    assert (listed[0].episodes, listed[0].steps, listed[0].provenance["schema"]) == (1, 1, 1)
    assert listed[0].size_mb == pytest.approx(0.0, abs=0.2)


def test_a_root_that_does_not_exist_has_no_datasets(tmp_path):
    """Listing before anything was generated is empty, and makes nothing."""
    assert store.list_datasets(tmp_path / "none") == []
    assert not (tmp_path / "none").exists()


def test_the_root_is_minaris(monkeypatch, tmp_path):
    """MINARI_DATASETS_PATH, else .minari/datasets at home, else what is asked for."""
    from minari.storage.datasets_root_dir import get_dataset_path

    assert store.datasets_root() == get_dataset_path()
    assert store.datasets_root(tmp_path) == tmp_path
    monkeypatch.delenv("MINARI_DATASETS_PATH")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.datasets_root() == get_dataset_path()
    assert os.fspath(store.datasets_root()).startswith(str(tmp_path))
