"""A dataset appears whole or not at all, whatever happens to its writer."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from minari.dataset.minari_dataset import parse_dataset_id
from stored import ID, SPEC, block, data_file, same_bits, write

from smeoffline.data.storage import staging, store
from smeoffline.data.storage.folders import DatasetId
from smeoffline.errors import DatasetError, DatasetExistsError

TESTS = Path(__file__).parent
SIZES = {"observation_dim": 5, "action_dim": 2, "env_spec_json": SPEC}


def names(root):
    """Everything below a root, hidden or not."""
    return sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))


def files(root):
    """Every file below a root with its bytes."""
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


@contextlib.contextmanager
def python(code, *args):
    """A process of its own that runs code from the tests' folder; it does not outlive the test."""
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ["PYTHONPATH"]])}
    command = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_nothing_is_seen_until_the_commit(minari_root):
    """While it is written a dataset is hidden from listings, ours and Minari's; then it is whole."""
    import minari

    with store.create(ID, **SIZES) as writer:
        writer.write(block([2]))
        assert not (minari_root / ID).exists()
        assert store.list_datasets() == []
        assert minari.list_local_datasets() == {}
        path = writer.commit({})
        assert path == minari_root / ID
        assert store.read(ID).lengths.tolist() == [2]
    expected = ["sme", f"{ID}", f"{ID}/data", f"{ID}/data/main_data.hdf5", f"{ID}/data/metadata.json"]
    assert names(minari_root) == sorted([*expected, "sme/namespace_metadata.json"])
    assert (minari_root / "sme/namespace_metadata.json").read_text() == "{}"


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("fault", [RuntimeError, KeyboardInterrupt, SystemExit, None])
def test_leaving_without_a_commit_leaves_nothing(minari_root, fault, there):
    """An exception, Ctrl-C or a forgotten commit removes all that was made, and nothing else."""
    if there:
        write(block([1]), dataset_id="sme/other-v0")
    before = files(minari_root), names(minari_root)
    with contextlib.suppress(*([fault] if fault else [])), store.create("sme/deep/x-v0", **SIZES) as writer:
        writer.write(block([2]))
        if fault is not None:
            raise fault
    assert (files(minari_root), names(minari_root)) == before
    assert write(block([1]), dataset_id="sme/deep/x-v0").is_dir()


def test_a_failed_commit_leaves_nothing(minari_root):
    """Metadata that can't be written as JSON fail the commit, and the next one works."""
    with pytest.raises(TypeError):
        write(block([1]), more={"x": object()})
    assert names(minari_root) == []
    write(block([1]))


@pytest.mark.parametrize(
    "change",
    [
        {"actions": np.zeros((1, 2, 3), np.float32)},
        {"actions": np.zeros((1, 2, 2), np.float64)},
        {"rewards": np.zeros((1, 3), np.float32)},
        {"observations": np.zeros((1, 2, 5), np.float32)},
        {"observations": np.zeros((1, 3, 10), np.float32)[:, :, ::2]},
        {"optimal_actions": None},
        {"log_densities": np.zeros((1, 2), np.float32)},
        {"lengths": np.array([0])},
        {"lengths": np.array([3])},
        {"digests": []},
        {"seeds": np.zeros(1, np.int32)},
        {"log_densities": np.zeros((1, 3), np.float32)},
    ],
)
def test_a_block_of_another_shape_is_a_mistake(minari_root, change):
    """What would make a dataset nobody can read is refused before a byte of it is written."""
    good = block([2])
    with pytest.raises(ValueError, match="block: "):
        write(good, type(good)(**vars(good) | change))
    assert names(minari_root) == []


def test_a_dataset_without_episodes_is_a_mistake(minari_root):
    """A commit needs an episode, and a writer is used in a `with` statement and once."""
    with pytest.raises(ValueError, match="at least one episode"), store.create(ID, **SIZES) as writer:
        writer.commit({})
    for step in (lambda: writer.write(block([1])), lambda: writer.commit({})):
        with pytest.raises(ValueError, match="with"):
            step()
    assert names(minari_root) == []


FORBIDDEN = [
    "", "x", "sme/x", "x-v", "-v0", "sme/x-v0/", "/sme/x-v0", "sme//x-v0", "sme/../x-v0", "../x-v0", "./x-v0",
    "a/x-v0", "sme/x y-v0", "sme/x.y-v0", "x-v0\n", "x\0-v0", "sme\\x-v0", "data/x-v0", "sme/data/x-v0",
    "x-v-1", "~/x-v0", "sme/" + "x" * 300 + "-v0", "é" * 200 + "-v0",
]  # fmt: skip


@pytest.mark.parametrize("name", FORBIDDEN)
def test_a_forbidden_id_is_refused_before_anything_is_made(minari_root, name):
    """An id that Minari does not take, or that would hide other datasets from it, is one line."""
    with pytest.raises(DatasetError, match="dataset id") as told:
        store.create(name, **SIZES)
    assert "\n" not in str(told.value)
    assert names(minari_root) == []


@given(st.text(alphabet="ab-_/v01é. \n", max_size=12) | st.from_regex(r"[-_\w/]{0,8}-v\d{1,3}", fullmatch=True))
def test_every_id_that_is_taken_is_minaris(name):
    """An id we take is one that Minari parses; one that we refuse though Minari parses it has a reason."""
    try:
        theirs = parse_dataset_id(name)
    except (ValueError, TypeError):  # TypeError: no version
        theirs = None
    try:
        ours = DatasetId.parse(name)
    except DatasetError:
        assert theirs is None or "//" in name or "data" in name.split("/")
    else:
        assert theirs is not None
        assert ("/".join(ours.namespace) or None, ours.name) == (
            theirs[0],
            f"{theirs[1]}-v{name.rsplit('-v', 1)[1]}",
        )


def test_the_longest_names_work():
    """A name as long as a file's may be is written, hidden folder included."""
    name = "x" * 252 + "-v0"
    assert write(block([1]), dataset_id=f"sme/{name}").name == name


def test_an_existing_id_is_kept_unless_overwriting(minari_root):
    """The second creation fails before any work; with overwrite the new replaces the old at its commit."""
    write(block([1]))
    before = files(minari_root)
    with pytest.raises(DatasetExistsError, match="--overwrite"):
        store.create(ID, **SIZES)
    assert files(minari_root) == before
    with store.create(ID, **SIZES, overwrite=True) as writer:
        writer.write(block([2, 2]))
        assert store.read(ID).lengths.tolist() == [1]
        writer.commit({})
    assert store.read(ID).lengths.tolist() == [2, 2]
    assert {path.relative_to(minari_root) for path in before} == {
        p.relative_to(minari_root) for p in files(minari_root)
    }


@pytest.mark.parametrize("fault", [OSError(5, "Input/output error"), KeyboardInterrupt()])
def test_a_failed_overwrite_puts_the_old_one_back(minari_root, monkeypatch, fault):
    """When the new dataset can't be brought in, the old one is back in its place, byte for byte."""
    write(block([1]))
    before = files(minari_root)
    rename = Path.rename

    def failing(self, target):
        if self.name.endswith(".tmp") and not (minari_root / ID).exists():
            raise fault
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises((DatasetError, KeyboardInterrupt)):
        write(block([2, 2]), overwrite=True)
    assert files(minari_root) == before


def test_a_linked_dataset_is_replaced_not_emptied(minari_root, tmp_path):
    """Overwriting a dataset that is a link to another disk replaces the link, and leaves what it led to."""
    real = write(block([1])).rename(tmp_path / "elsewhere")
    (minari_root / ID).symlink_to(real)
    before = files(real)
    write(block([2]), overwrite=True)
    assert store.read(ID).lengths.tolist() == [2]
    assert files(real) == before


@pytest.mark.parametrize("stub", ["sme/mine-v0", "sme/mine-v0/data"])
def test_what_a_failed_creation_by_minari_leaves_does_not_block(minari_root, stub):
    """An empty folder of the id, with or without an empty `data`, is no dataset."""
    (minari_root / stub).mkdir(parents=True)
    write(block([2]))
    assert store.read(ID).lengths.tolist() == [2]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize(
    ("kind", "where", "word"),
    [
        ("file", "sme", "got a file"),
        ("file", "sme/mine-v0", "got a file"),
        ("folder", "sme/mine-v0/other-v0/data", "no dataset"),
        ("folder", "sme/data", "not a namespace"),
    ],
)
def test_what_is_in_the_way_is_told_and_kept(minari_root, kind, where, word, overwrite):
    """A file for a folder, a namespace under the id, a dataset for a namespace: one line, nothing touched."""
    path = minari_root / where
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "file":
        path.write_text("mine")
    else:
        path.mkdir()
        (path / "metadata.json").write_text("{}")
    before = files(minari_root), names(minari_root)
    with pytest.raises(DatasetError, match=word) as told:
        store.create(ID, **SIZES, overwrite=overwrite)
    assert "\n" not in str(told.value)
    assert (files(minari_root), names(minari_root)) == before


@pytest.mark.parametrize("below", ["", "deeper/still"])
def test_a_root_that_is_a_file_is_told(tmp_path, below):
    """A root that can't be made names the file that is in the way."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DatasetError, match="file: expected a folder"):
        write(block([1]), root=tmp_path / "file" / below)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_root_that_does_not_exist_is_made_and_unmade(tmp_path):
    """Folders above the root are made for a dataset, and go with it if it fails."""
    with pytest.raises(KeyboardInterrupt), store.create(ID, **SIZES, root=tmp_path / "a" / "b"):
        raise KeyboardInterrupt
    assert not (tmp_path / "a").exists()
    write(block([1]), root=tmp_path / "a" / "b")
    assert store.read(ID, root=tmp_path / "a" / "b").lengths.tolist() == [1]


@contextlib.contextmanager
def file_system(folder, options):
    """A small file system of its own; skipped where it may not be mounted."""
    folder.mkdir(exist_ok=True)
    if shutil.which("mount") is None or sys.platform != "linux":
        pytest.skip("needs Linux and mount")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder], check=False, capture_output=True)
    if done.returncode != 0:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.parametrize("kilobytes", [4, 16, 64, 128])
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path, kilobytes):
    """Wherever the space runs out, one line says so, nothing stays, and with more space the retry works."""
    many = block([50] * 50)
    with file_system(tmp_path / "disk", "size=8m") as disk:
        subprocess.run(["mount", "-o", f"remount,size={kilobytes}k", disk], check=True)
        with pytest.raises(DatasetError, match="disk full") as told:
            write(many, root=disk)
        assert "\n" not in str(told.value)
        assert names(disk) == []
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        write(many, root=disk)
        assert same_bits(store.read(ID, root=disk).seeds, many.seeds)


def test_a_read_only_file_system_is_told(tmp_path):
    """As root too, a folder that may not be written is one line."""
    with file_system(tmp_path / "disk", "size=1m,ro") as disk:
        with pytest.raises(DatasetError, match="may not be written") as told:
            write(block([1]), root=disk)
        assert "\n" not in str(told.value)


WRITE_SLOWLY = """
import sys
from stored import ID, SPEC, block
from smeoffline.data.storage import store
with store.create(ID, observation_dim=5, action_dim=2, env_spec_json=SPEC) as writer:
    writer.write(block([2]))
    print("writing", flush=True)
    sys.stdin.readline()
    writer.commit({})
"""


def test_ctrl_c_in_another_process_leaves_nothing(minari_root):
    """SIGINT in the middle of a write removes what was written."""
    with python(WRITE_SLOWLY) as process:
        assert process.stdout.readline() == "writing\n"
        assert names(minari_root) != []
        process.send_signal(signal.SIGINT)
        process.wait(timeout=30)
    assert names(minari_root) == []


def test_a_killed_writer_does_not_block_and_is_cleaned_up_after(minari_root):
    """After SIGKILL nothing but a hidden folder is left; the retry works and removes it."""
    with python(WRITE_SLOWLY) as process:
        assert process.stdout.readline() == "writing\n"
        process.kill()
        process.wait(timeout=30)
    assert store.list_datasets() == []
    assert any(name.endswith(".tmp") for name in names(minari_root))
    write(block([3]))
    assert store.read(ID).lengths.tolist() == [3]
    assert not any(".tmp" in name for name in names(minari_root))


def test_a_living_writer_is_not_cleaned_up(minari_root):
    """Another process's hidden folder stays as long as that process writes; the slower one is told."""
    with python(WRITE_SLOWLY) as process:
        assert process.stdout.readline() == "writing\n"
        write(block([3]))
        process.communicate("go\n", timeout=30)
    assert process.returncode == 1
    assert store.read(ID).lengths.tolist() == [3]
    assert not any(".tmp" in name or ".old" in name for name in names(minari_root))


RACE = """
import sys
from stored import block, write
from smeoffline.errors import DatasetExistsError
made = block([2] * (1 + int(sys.argv[1])))
print("ready", flush=True)
sys.stdin.readline()
try:
    for _ in range(int(sys.argv[3])):
        write(made, overwrite=sys.argv[2] == "True")
    print("won")
except DatasetExistsError as fault:
    print("lost", fault)
"""


@pytest.mark.parametrize("overwrite", [False, True])
def test_processes_that_make_one_dataset_at_once(minari_root, overwrite):
    """Without overwriting exactly one of four wins; with it the last does. It is whole, and alone."""
    with contextlib.ExitStack() as stack:
        racers = [stack.enter_context(python(RACE, i, overwrite, 5 if overwrite else 1)) for i in range(4)]
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 4
        for racer in racers:
            racer.stdin.write("go\n")
            racer.stdin.flush()
        ends = [racer.communicate(timeout=60)[0].split(" ")[0].strip() for racer in racers]
    assert set(ends) <= {"won", "lost"}
    assert (ends.count("won") >= 1) if overwrite else (ends.count("won") == 1)
    assert len(store.read(ID).lengths) in range(1, 5)
    assert not any(".tmp" in name or ".old" in name for name in names(minari_root))


def test_what_was_published_meanwhile_is_not_replaced(minari_root):
    """Without overwriting, a dataset that appeared after the start of ours is kept, and we are told."""
    with store.create(ID, **SIZES) as writer:
        writer.write(block([1]))
        write(block([2]))
        with pytest.raises(DatasetExistsError, match="meanwhile"):
            writer.commit({})
    assert store.read(ID).lengths.tolist() == [2]
    assert not any(".tmp" in name for name in names(minari_root))


def test_a_namespace_that_vanishes_is_made_again(monkeypatch):
    """A failing process may take its empty namespace away while another is about to use it."""
    mkdir, taken = Path.mkdir, []

    def vanishing(self, *args, **kwargs):
        if self.name.endswith(".tmp") and not taken:
            taken.append(self.parent.rmdir())
        return mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", vanishing)
    write(block([1]))
    assert len(taken) == 1
    assert store.read(ID).lengths.tolist() == [1]


def test_a_file_system_without_locks_is_written_and_not_swept(minari_root, monkeypatch):
    """Where nothing can be locked, writing works, and nobody's hidden folder is removed."""
    (minari_root / "sme").mkdir()
    other = minari_root / "sme" / f".mine-v0.{'0' * 16}.tmp"
    other.mkdir()

    def unsupported(*_):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(staging.fcntl, "flock", unsupported)
    write(block([1]))
    assert store.read(ID).lengths.tolist() == [1]
    assert other.is_dir()


def test_a_published_folder_has_the_users_permissions():
    """A dataset can be shared: its folder and files have the permissions that the user's mask gives."""
    before = os.umask(0o027)
    try:
        folder = write(block([1]))
    finally:
        os.umask(before)
    assert folder.stat().st_mode & 0o777 == 0o750
    assert data_file(folder).stat().st_mode & 0o777 == 0o640


def test_the_file_is_readable_by_old_versions_of_hdf5():
    """The file has superblock version 2 (HDF5 1.8), and uses no feature newer than that."""
    folder = write(block([2]), components=True)
    assert data_file(folder).read_bytes()[8] == 2
    with h5py.File(data_file(folder), "a", libver=("v108", "v108")) as file:
        assert file["episode_0/actions"].chunks is None
        assert json.loads((folder / "data" / "metadata.json").read_text())["total_steps"] == 2


def test_memory_does_not_grow_with_the_episodes():
    """Five times as many episodes take hardly more memory while they are written."""
    code = """
import resource, sys
from stored import block, write
made = block([1] * 1000)
write(*[made] * int(sys.argv[1]))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""
    peaks = []
    for blocks in (2, 10):
        with python(code, blocks) as process:
            peaks.append(int(process.communicate(timeout=100)[0]))
        shutil.rmtree(store.datasets_root() / "sme")
    assert peaks[1] < peaks[0] + 12_000


def test_writing_does_not_slow_down_with_the_episodes():
    """The last of 6,000 episodes takes no longer than the first, within a bound that only growth breaks."""
    made, times = block([4] * 1000), []
    with store.create(ID, **SIZES) as writer:
        for _ in range(6):
            start = time.process_time()
            writer.write(made)
            times.append(time.process_time() - start)
        writer.commit({})
    assert min(times[3:]) < 3 * min(times[:3])


def test_a_dataset_that_vanishes_while_it_is_looked_at_is_replaced(monkeypatch):
    """Another process may take the old dataset aside in the moment in which we look whether it is a stub."""
    write(block([1]))
    listed, calls = Path.iterdir, []

    def vanishing(self):
        if self.name == ID.split("/")[1] and not calls:
            calls.append(self)
            raise FileNotFoundError(str(self))
        return listed(self)

    with store.create(ID, overwrite=True, **SIZES) as writer:
        writer.write(block([2]))
        monkeypatch.setattr(Path, "iterdir", vanishing)
        writer.commit({})
    assert calls
    assert store.read(ID).lengths.tolist() == [2]
