"""Bundles: packed the same every time, verified to the last byte, installed whole or not at all."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import threading
import time
import tracemalloc
import zipfile
from concurrent.futures import ThreadPoolExecutor

import bundles
import minari
import numpy as np
import pytest
from bundles import DATA, ID, MANIFEST, METADATA, everything, members, packed, tiny, zipped
from command import ROOT, invoke, python, running

import smeoffline as so
from smeoffline.data.bundle.install import install
from smeoffline.data.bundle.pack import ensure, pack
from smeoffline.data.bundle.sources import find_sources, registered
from smeoffline.data.bundle.verify import verify
from smeoffline.data.exploration import EXPLORATIONS
from smeoffline.data.recipe import Recipe
from smeoffline.data.storage import store
from smeoffline.errors import BundleError, DatasetError, DatasetExistsError, SpecError, VersionError
from smeoffline.sme.model import Sme

Gaussian = EXPLORATIONS["gaussian"]
SAMPLE = ROOT / "datasets" / "sample.zip"


@pytest.fixture
def put(tmp_path):
    """A function that writes bytes to a file and returns its name."""

    def write(data):
        path = tmp_path / "a.zip"
        path.write_bytes(data)
        return str(path)

    return write


def refused(file, minari_root, match):
    """Neither verified nor installed, with a line that matches, and nothing is left behind."""
    before = everything(minari_root)
    for use in (verify, lambda name: install([name])):
        with pytest.raises((BundleError, VersionError), match=match) as told:
            use(file)
        assert "\n" not in str(told.value)
    assert everything(minari_root) == before


def test_packing_twice_gives_the_same_bytes(tmp_path):
    """A bundle follows from its datasets: not from when, where, by whom or in which order they are packed."""
    names = tiny("sme/b-v0", seed=1), tiny("sme/a-v0")
    one = packed(tmp_path, *names)
    for name in names:
        shutil.copytree(store.read(name).path, tmp_path / "elsewhere" / name)
    os.utime(tmp_path / "elsewhere" / names[0] / "data" / "metadata.json", (1, 1))
    assert packed(tmp_path, *(tmp_path / "elsewhere" / name for name in reversed(names))) == one
    assert list(members(one)) == [*(f"sme/{x}-v0/data/{f}" for x in "ab" for f in ("metadata.json", "main_data.hdf5")),
                                  MANIFEST]  # fmt: skip


def test_the_manifest_says_what_is_in_it(bundle):
    """It tells ids, task, behavior, platform, versions, and the size and hash of each file."""
    parts = members(bundle)
    manifest = json.loads(parts[MANIFEST])
    (entry,) = manifest["datasets"]
    provenance = json.loads(parts[METADATA])["smeoffline"]
    assert manifest["schema"] == 1
    assert entry["id"] == ID
    for key in ("task", "behavior", "dataset", "sha256", "platform", "versions"):
        assert entry[key] == provenance[key]
    assert provenance["versions"]["smeoffline"] == so.__version__
    assert [(f["name"], f["size"]) for f in entry["files"]] == [(n, len(parts[n])) for n in (METADATA, DATA)]


def test_what_is_installed_is_what_was_packed(bundle, put, minari_root):
    """Every byte comes back, Minari loads and lists it, and the audit finds nothing."""
    made = install([put(bundle)])
    assert made.datasets == (ID,)
    assert made.recomputed == 15
    parts = members(bundle)
    for name in (METADATA, DATA):
        assert (minari_root / name).read_bytes() == parts[name]
    assert list(minari.list_local_datasets()) == [ID]
    assert minari.load_dataset(ID)[0].observations.shape == (6, 4)
    assert so.inspect(ID).ok


def test_provenance_and_seeds_of_every_part_survive(tmp_path, put, monkeypatch):
    """Combining datasets in one bundle loses none of their metadata, episode seeds or components [Minari#144]."""
    mix = [(so.Behavior(nu=0.3, explore="probit", sigma=0.3), 0.5), (so.Behavior(base="random"), 0.5)]
    so.generate(so.Task(state_dim=2, action_dim=2, episode_length=4), mix, episodes=9, dataset_id="mixed-v0")
    names = ["mixed-v0", tiny("sme/a-v0"), tiny("sme/deep/b-v3", seed=7, reward_every=2)]
    before = [store.read(name) for name in names]
    file = put(packed(tmp_path, *names))
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "other"))
    assert sorted(install([file]).datasets) == sorted(names)
    for name, old in zip(names, before, strict=True):
        new = store.read(name)
        assert new.metadata == old.metadata
        assert np.array_equal(new.seeds, old.seeds)
        assert (new.components is None) == (old.components is None) == (name != "mixed-v0")
        if old.components is not None:
            assert len(set(old.components.tolist())) == 2
            assert np.array_equal(new.components, old.components)
    assert sorted(minari.list_local_datasets()) == sorted(names)


@pytest.mark.parametrize("member", [METADATA, DATA, MANIFEST])
@pytest.mark.parametrize("where", [0.0, 0.5, 1.0])
def test_a_flipped_byte_is_a_checksum_error_that_names_the_member(bundle, put, minari_root, member, where, monkeypatch):
    """Wherever in a member a byte is flipped, its name is told before HDF5 opens anything [D4RL#160]."""
    monkeypatch.setattr("smeoffline.data.storage.hdf5.open_file", lambda _: pytest.fail("opened"))
    parts, data = members(bundle), bytearray(bundle)
    start = bundle.index(parts[member])
    data[start + round(where * (len(parts[member]) - 1))] ^= 1
    refused(put(bytes(data)), minari_root, rf"{member}: checksum")


def test_a_checksum_that_hides_a_change_from_zip_is_found(bundle, put, minari_root):
    """A change that the zip file's own checksum agrees with is found by the manifest's sha256."""
    parts = members(bundle)
    refused(put(zipped({**parts, DATA: parts[DATA][::-1]})), minari_root, f"{DATA}: checksum: expected [0-9a-f]{{64}}")


@pytest.mark.parametrize("part", [0, 1, 100, 0.5, 0.9, -30, -1])
def test_a_file_that_is_cut_off_is_told(bundle, put, minari_root, part):
    """However much of a bundle is missing, one line says so, and a whole file then installs [CORL#34]."""
    end = int(part * len(bundle)) if isinstance(part, float) else part
    refused(put(bundle[:end]), minari_root, r"got an empty file|got one that is damaged or cut off|: .* cut off")
    assert install([put(bundle)]).datasets == (ID,)


@pytest.mark.parametrize("data", [b"\x89PNG\r\n\x1a\n" + bytes(99), b"seeds = 3\n", b"\0" * 5000])
def test_a_file_of_another_kind_is_not_called_damaged(put, minari_root, data):
    """A picture or a suite's file is no zip file; fetching it again would not help."""
    refused(put(data), minari_root, r"^((?!fetch it again).)*got a file of another kind, no zip file; name one[^;]*$")


@pytest.mark.parametrize("data", [b"garbage" * 99, b"\0" * 5000, b"PK\x03\x04" * 99, b"PK\x05\x06" + bytes(18)])
def test_what_is_no_bundle_is_told(put, minari_root, data):
    """Any other file is refused in one line."""
    refused(put(data), minari_root, "expected a bundle|manifest.json")


def test_a_wrong_hash_of_the_file_is_told(bundle, put, minari_root):
    """With --sha256 another file is refused before it is looked into, and the hash is told."""
    file = put(bundle)
    with pytest.raises(BundleError, match=f"expected sha256 {'0' * 64}, got [0-9a-f]{{64}}"):
        install([file], sha256="0" * 64)
    assert everything(minari_root) == {}
    with pytest.raises(SpecError, match="sha256: expected 64 hex digits"):
        install([file], sha256="xyz")


@pytest.mark.parametrize("schema", [2, 10**30])
def test_a_newer_bundle_is_a_version_message(bundle, put, minari_root, schema):
    """A manifest of a later schema is told as what it is [d3rlpy#430]."""
    parts = members(bundle)
    manifest = json.dumps({"schema": schema, "anything": 1}).encode()
    refused(put(zipped({**parts, MANIFEST: manifest})), minari_root, "newer smeoffline.*upgrade")


def test_newer_metadata_are_a_version_message(bundle, put, minari_root):
    """A dataset of a later schema, in a bundle of this one, is told as what it is, by the member's name."""
    newer = bundles.with_metadata(members(bundle), lambda m: m["smeoffline"].update(schema=2))
    refused(put(zipped(newer)), minari_root, f"{METADATA}: written by a newer smeoffline")


def test_an_existing_id_needs_overwrite(bundle, put, minari_root):
    """Installing over a dataset is refused, and changes nothing, unless it is asked for."""
    tiny(seed=5)
    before = everything(minari_root)
    advice = f"{minari_root / ID}; set MINARI_DATASETS_PATH to another folder, or pass --overwrite"  # there is no --id
    with pytest.raises(DatasetExistsError, match=re.escape(advice)):
        install([put(bundle)])
    assert everything(minari_root) == before
    install([put(bundle)], overwrite=True)
    assert (minari_root / DATA).read_bytes() == members(bundle)[DATA]
    broken = bytearray(bundle)
    broken[bundle.index(members(bundle)[DATA])] ^= 1
    before = everything(minari_root)
    with pytest.raises(BundleError, match="checksum"):
        install([put(bytes(broken))], overwrite=True)
    assert everything(minari_root) == before


def test_several_datasets_appear_together_or_not_at_all(tmp_path, put, monkeypatch):
    """Where one of two is faulty or taken, the other doesn't appear either."""
    data = packed(tmp_path, tiny("sme/a-v0"), tiny("sme/b-v0"))
    broken = bytearray(data)
    broken[data.rindex(members(data)["sme/b-v0/data/main_data.hdf5"]) + 5000] ^= 1
    root = tmp_path / "other"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    with pytest.raises(BundleError, match=r"sme/b-v0/data/main_data\.hdf5: checksum"):
        install([put(bytes(broken))])
    assert not root.exists()
    tiny("sme/b-v0")
    before = everything(root)
    with pytest.raises(DatasetExistsError, match="sme/b-v0"):
        install([put(data)])
    assert everything(root) == before


def test_installing_at_once_gives_one_whole_dataset(bundle, put, minari_root):
    """Of several that install the same bundle at once one succeeds, the others say it is there, and it is whole."""
    file, barrier = put(bundle), threading.Barrier(4)

    def attempt(_):
        barrier.wait()
        try:
            return install([file]).datasets
        except DatasetExistsError as fault:
            return str(fault)

    with ThreadPoolExecutor(4) as pool:
        told = list(pool.map(attempt, range(4)))
    assert told.count((ID,)) == 1
    assert sum("--overwrite" in text for text in told) == 3
    assert sorted(everything(minari_root)) == sorted(
        ["sme", "sme/namespace_metadata.json", ID, f"{ID}/data", DATA, METADATA]
    )
    assert so.inspect(ID).ok


def test_an_interrupted_install_leaves_nothing(tmp_path, minari_root):
    """Stopped while it unpacks and checks, it ends in one line with exit 1, and no file is left."""
    names = [tiny(f"sme/n{i}-v0", episodes=300, steps=20) for i in range(6)]
    data = packed(tmp_path, *names)
    shutil.rmtree(minari_root / "sme")
    file = tmp_path / "a.zip"
    file.write_bytes(data)
    with running("bundle", "install", file) as process:
        while not list(minari_root.rglob("main_data.hdf5")) and process.poll() is None:
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    assert process.returncode == 1, told
    assert told.startswith("interrupted: ")
    assert told.count("\n") == 1
    assert everything(minari_root) == {}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_root_that_may_not_be_written_is_told(bundle, put, minari_root):
    """Without permission one line says what to do."""
    minari_root.chmod(0o500)
    with pytest.raises(DatasetError, match="may not be written"):
        install([put(bundle)])
    minari_root.chmod(0o700)


def test_a_full_disk_is_told_before_anything_is_written(bundle, put, minari_root, monkeypatch):
    """Where the datasets would not fit, nothing is begun; neither for an installation nor to verify."""
    monkeypatch.setattr("shutil.disk_usage", lambda _: shutil._ntuple_diskusage(10**9, 10**9, 1000))
    for use in (verify, lambda name: install([name])):
        with pytest.raises(DatasetError, match="disk full"):
            use(put(bundle))
    assert everything(minari_root) == {}


@pytest.fixture
def small_files():
    """A function that lets no file grow beyond a size until the test ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("use", ["install", "verify", "pack"])
def test_a_disk_that_fills_up_is_told_and_nothing_stays(tmp_path, use, minari_root, monkeypatch, put, small_files):
    """Where a write fails half-way, one line says so and nothing of it is left."""
    name = tiny("sme/larger-v0", episodes=200, steps=20)
    file = put(packed(tmp_path, name))
    if use != "pack":
        shutil.rmtree(minari_root / "sme")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = everything(tmp_path)
    work = {
        "install": lambda: install([file]),
        "verify": lambda: verify(file),
        "pack": lambda: pack([name], tmp_path / "b"),
    }
    small_files(100_000)
    with pytest.raises(DatasetError, match="File too large") as told:
        work[use]()
    assert "TMPDIR" in str(told.value) or use != "verify"
    assert everything(tmp_path) == before


def test_only_a_sound_dataset_of_ours_can_be_packed(tmp_path, minari_root):
    """A dataset of another package, a faulty one, and one that is named twice are refused; no file is made."""
    from stored import block, write

    described = write(block([3, 3]), dataset_id="other/x-v0") / "data" / "metadata.json"
    fields = json.loads(described.read_text())
    del fields["smeoffline"]
    described.write_text(json.dumps(fields))
    out = tmp_path / "x.zip"
    with pytest.raises(BundleError, match="'other/x-v0' was not made by smeoffline: its optimum is not known"):
        pack(["other/x-v0"], out)
    with pytest.raises(BundleError, match="expected each once"):
        pack([tiny(), str(minari_root / ID)], out)
    with pytest.raises(DatasetError, match="not found"):
        pack(["sme/none-v0"], out)
    import h5py

    with h5py.File(minari_root / DATA, "r+") as file:
        file["episode_1/rewards"][3] += 0.01
    with pytest.raises(BundleError, match=f"{DATA}: episode 1, step 3: reward"):
        pack([ID], out)
    assert [p.name for p in tmp_path.iterdir()] == ["minari"]


@pytest.mark.parametrize("broken", ["main_data.hdf5", "metadata.json"])
def test_packing_names_the_folder_that_was_given(tmp_path, minari_root, broken):
    """A fault in a copy is told of the copy, not of the dataset whose id its metadata have."""
    copy = minari_root / "sme" / "copy-v0"
    shutil.copytree(minari_root / tiny(), copy)
    file = copy / "data" / broken
    file.write_text(
        "no hdf5" if broken.endswith("hdf5") else json.dumps(json.loads(file.read_text()) | {"eval_env_spec": "x"})
    )
    with pytest.raises(BundleError, match=f"^{re.escape(str(file))}: ") as told:
        pack(["sme/copy-v0"], tmp_path / "x.zip")
    assert f"{ID}/data" not in str(told.value)


def test_packing_never_replaces_a_file_unasked(tmp_path):
    """An existing file stays as it is, unless overwriting is asked for."""
    out = tmp_path / "mine.txt"
    out.write_text("precious")
    with pytest.raises(BundleError, match="exists; choose another name"):
        pack([tiny()], out)
    done = invoke("bundle", "pack", ID, "-o", out)
    told = f"error: {out}: exists; choose another name, or pass --overwrite to replace it\n"
    assert (done.exit_code, done.stderr) == (1, told)
    assert out.read_text() == "precious"
    assert invoke("bundle", "pack", ID, "-o", out, "--overwrite").exit_code == 0
    assert verify(str(out)).datasets == (ID,)
    with pytest.raises(BundleError, match="no such folder"):
        pack([ID], tmp_path / "none" / "x.zip")


@pytest.mark.parametrize(
    "fields", [{}, {"reward_every": 3}, {"kill_threshold": 0.6}, {"complexity": 4, "shaping": 0.5}]
)
def test_regenerating_proves_a_dataset_on_its_platform(tmp_path, put, fields):
    """On the platform that made it a dataset is generated again from its recipe and found equal."""
    file = put(packed(tmp_path, tiny(**fields)))
    assert verify(file, regenerate=True).regenerated


def test_regenerating_finds_data_that_the_recipe_does_not_give(tmp_path, put, monkeypatch):
    """Data that follow the task in every step, but not from the recipe's own rollout, are found by episode."""
    step = Sme.step_states
    with monkeypatch.context() as patch:
        nudge = np.float32(1e-6)
        patch.setattr(Sme, "step_states", lambda self, s, a: np.clip(step(self, s, a) + nudge, 0, 1))
        file = put(packed(tmp_path, tiny(steps=30)))
    assert not verify(file).regenerated
    with pytest.raises(BundleError, match=rf"{DATA}: episode 0, step \d+: bytes"):
        verify(file, regenerate=True)


def test_regenerating_elsewhere_compares_states_noise_and_steps(tmp_path, put, monkeypatch):
    """Trajectories of another platform that part from ours pass where start, noise and each step agree."""
    step, draw = Sme.step_states, Gaussian.draw
    task, behavior = so.Task(state_dim=2, action_dim=2), so.Behavior(base="optimal", explore="gaussian", sigma=0.1)
    with monkeypatch.context() as patch:
        nudge = np.float32(1e-6)
        patch.setattr(Sme, "step_states", lambda self, s, a: np.clip(step(self, s, a) + nudge, 0, 1))
        patch.setattr("smeoffline.data.generate.platform_tag", lambda: {"machine": "another"})
        data = packed(tmp_path, so.generate(task, behavior, episodes=3, dataset_id=ID).dataset_id)
        patch.setattr(Gaussian, "draw", lambda *args: draw(*args) * np.float32(1.01))
        louder = so.generate(task, behavior, episodes=3, dataset_id=ID, overwrite=True).path
    assert verify(put(data), regenerate=True).regenerated
    parts = members(data)
    seeded = bundles.with_metadata(parts, lambda m: m["smeoffline"]["dataset"].update(seed=1))
    with pytest.raises(BundleError, match=rf"{DATA}: episode 0: seed"):
        verify(put(zipped(seeded)), regenerate=True)
    parts[METADATA] = (louder / "data" / "metadata.json").read_bytes()
    parts[DATA] = (louder / "data" / "main_data.hdf5").read_bytes()
    with pytest.raises(BundleError, match=rf"{DATA}: episode 0, step \d+: behavior action"):
        verify(put(zipped(bundles.with_metadata(parts, lambda _: None))), regenerate=True)


def test_a_policys_dataset_says_why_it_cannot_be_regenerated(tmp_path, put, monkeypatch):
    """The file of base `policy` is in no bundle: the data are verified, and --regenerate says what is missing."""
    policy = tmp_path / "p.onnx"
    policy.write_bytes(b"a policy")
    task = so.Task(state_dim=2, action_dim=2, episode_length=5)
    with monkeypatch.context() as patch:
        patch.setattr("smeoffline.data.policy_file.load_policy", lambda *_, **__: lambda o: o[:, :2] / 2)
        so.generate(task, so.Behavior(base="policy", policy=str(policy)), episodes=3, dataset_id="sme/p-v0")
        file = put(packed(tmp_path, "sme/p-v0"))
    policy.unlink()
    assert verify(file).datasets == ("sme/p-v0",)
    with pytest.raises(BundleError, match=r"cannot be generated again: .*p\.onnx"):
        verify(file, regenerate=True)


def test_missing_datasets_are_generated_and_others_are_used(minari_root):
    """`ensure` makes what is missing, keeps what is there, and refuses another dataset under the name."""
    recipe = Recipe.load("table1-c1-nu0p1")
    tables = recipe.to_dict() | {"dataset": {"episodes": 2, "seed": 0}}
    small = Recipe.from_dict(tables)
    (name,) = ensure([small])
    before = (minari_root / name / "data" / "main_data.hdf5").stat()
    assert ensure([small]) == [name]
    assert (minari_root / name / "data" / "main_data.hdf5").stat() == before
    for nu, episodes in ((0.2, 2), (0.1, 3)):
        so.generate(small.task, so.Behavior(nu=nu), episodes=episodes, dataset_id=name, overwrite=True)
        with pytest.raises(BundleError, match="of another recipe"):
            ensure([small])


def test_a_suites_datasets_are_packed_by_one_command(tmp_path):
    """`--suite` packs each dataset of each seed once, generating them."""
    suite = tmp_path / "mine.toml"
    suite.write_text(
        "seeds = 3\nsteps = 1\n[[datasets]]\ntask.episode_length = [3, 4]\ndataset.episodes = 2\n"
        "[[algorithms]]\nname = 'bc'\n[[algorithms]]\nname = 'iql'\n"
    )
    out = tmp_path / "suite.zip"
    done = invoke("bundle", "pack", "--suite", suite, "--seeds", 2, "-o", out, "--json")
    assert done.exit_code == 0, done.stderr
    made = json.loads(done.stdout)
    assert len(made["datasets"]) == 4
    assert verify(str(out)).datasets == tuple(made["datasets"])


def test_the_sample_installs_offline_and_is_small():
    """`bundle install sample` works at once: ten episodes, in under 200 KiB, equal to what the registry says."""
    (entry,) = registered()
    assert entry.name == "sample"
    assert SAMPLE.stat().st_size < 200 * 1024
    done = invoke("bundle", "install", "sample", "--json")
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["datasets"] == ["sme/sample-v0"]
    assert len(store.read("sme/sample-v0").lengths) == 10
    assert so.inspect("sme/sample-v0").ok
    assert verify(str(SAMPLE), regenerate=True).regenerated


def test_the_registry_is_readable_and_its_faults_are_told(tmp_path):
    """Comments and blank lines are left out, mirrors kept in order, and a bad line is named."""
    path = tmp_path / "registry.txt"
    path.write_text(f"# mine\n\n  one {'a' * 64} https://u:p@h.example/x.zip?token=1 y.zip\n")
    (entry,) = registered(path)
    assert [s.place for s in entry.sources] == ["https://u:p@h.example/x.zip?token=1", str(tmp_path / "y.zip")]
    assert entry.shown == ("https://h.example/x.zip", str(tmp_path / "y.zip"))
    for line in ("one", f"one {'a' * 64}", "one abc x.zip", f"a {'a' * 64} x\na {'a' * 64} y"):
        path.write_text(f"# mine\n{line}\n")
        with pytest.raises(BundleError, match=r"line [23]"):
            registered(path)


def test_an_unknown_name_tells_the_nearest():
    """A misspelled name is answered with those there are."""
    with pytest.raises(
        BundleError, match=r"'smaple': no such file, and no bundle of that name .*did you mean 'sample'"
    ):
        find_sources(["smaple"], None)


def test_the_command_line_tells_results_and_faults(tmp_path, bundle, put):
    """Each command prints a table or one JSON object, and a fault as one line with exit 1."""
    file = put(bundle)
    for args in (["verify", file], ["install", file], ["list"]):
        done = invoke("bundle", *args, "--json")
        assert done.exit_code == 0, done.stderr
        assert isinstance(json.loads(done.stdout), dict)
    assert ID in invoke("bundle", "list").stdout
    assert "ok: all hashes are right, and 15 steps" in invoke("bundle", "verify", file, "--regenerate").stdout
    assert ID in invoke("bundle", "install", file, "--overwrite").stdout
    packed_now = invoke("bundle", "pack", ID, "-o", tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == bundle
    assert "sme-offline bundle install URL --sha256" in packed_now.stdout
    put(bundle[:-1])
    done = invoke("bundle", "verify", file)
    assert done.exit_code == 1
    assert done.stderr.startswith(f"error: {file}: ")
    assert done.stderr.count("\n") == 1
    for args in (["pack", "-o", "x.zip"], ["pack", ID], ["pack", ID, "--seeds", 2, "-o", "x.zip"], ["install"]):
        assert invoke("bundle", *args).exit_code == 2
    done = invoke("bundle", "install", file, "--sha256", "zz")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: --sha256: expected 64 hex digits, got 'zz'")


@pytest.mark.parametrize(
    "arguments",
    [["install", "sample", "--sha256", "abc"], ["install", "smaple"], ["pack", "sme/x-v0", "-o", str(SAMPLE)]],
)
def test_what_is_typed_wrong_is_told_before_anything_heavy_is_loaded(arguments):
    """A hash that is none, an unknown bundle and a file that exists are refused without torch: at once."""
    shown = python(
        f"import sys\nfrom smeoffline_cli.main import program\ntry: program.main({['bundle', *arguments]!r})\n"
        "except SystemExit as end: print(end.code, [m for m in ('torch', 'minari', 'h5py') if m in sys.modules])"
    )
    assert re.fullmatch(r"[12] \[\]\n", shown)


@pytest.mark.filterwarnings("default")
def test_a_list_warns_of_a_stray_in_one_line(minari_root):
    """A copy is left out of the list, and told without a line of source, with what to do."""
    shutil.copytree(minari_root / tiny(), minari_root / "sme" / "copy-v0")
    done = invoke("bundle", "list")
    assert done.exit_code == 0
    assert done.stderr.startswith(
        f"warning: skipping {minari_root / 'sme' / 'copy-v0'}: its metadata calls it {ID!r}; "
    )
    assert "this is a copy: remove it, or set dataset_id in its metadata.json to 'sme/copy-v0'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_memory_is_bounded_by_parts_not_by_the_dataset(tmp_path, monkeypatch):
    """Packing, verifying and installing take memory for a part of the data, whatever their size."""
    monkeypatch.setattr("smeoffline.data.bundle.check.SAMPLE_STEPS", 5000)
    made = so.generate(so.Task(episode_length=1000), so.Behavior(nu=0.3), episodes=400, dataset_id="sme/large-v0")
    size = (made.path / "data" / "main_data.hdf5").stat().st_size
    file = tmp_path / "a.zip"
    tracemalloc.start()
    try:
        for work in (
            lambda: pack(["sme/large-v0"], file),
            lambda: verify(str(file)),
            lambda: install([str(file)], overwrite=True),
        ):
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            work()
            assert tracemalloc.get_traced_memory()[1] - before < size / 2
    finally:
        tracemalloc.stop()


def test_a_bundle_is_a_plain_zip_of_minari_datasets(bundle, minari_root, put):
    """Unpacked by hand below Minari's root, it is the datasets."""
    with zipfile.ZipFile(put(bundle)) as archive:
        archive.extractall(minari_root)
    assert minari.load_dataset(ID).total_steps == 15
