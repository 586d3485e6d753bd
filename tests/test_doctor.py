"""`sme-offline doctor`: a sound installation passes, and each fault is named with what to do."""

from __future__ import annotations

import importlib.metadata
import json
import shutil

import pytest
from command import SMALL, invoke
from packaging.requirements import Requirement

from smeoffline_cli import health


def doctor():
    """Run it; returns the exit code and the checks by name (the last of each)."""
    result = invoke("doctor", "--json")
    record = json.loads(result.stdout)
    assert record["ok"] == (result.exit_code == 0)
    assert result.stderr.count("\n") == (0 if record["ok"] else 1)
    return result.exit_code, record["checks"]


def named(checks, name, status):
    """The checks of a name and a status."""
    return [check for check in checks if (check["name"], check["status"]) == (name, status)]


def test_a_sound_installation_passes():
    """Everything that matters is listed, nothing must be fixed, and a generated dataset is readable."""
    assert invoke("generate", *SMALL, "--id", "sme/x-v0").exit_code == 0
    code, checks = doctor()
    assert code == 0, [check for check in checks if check["status"] == "fix"]
    names = {check["name"] for check in checks}
    assert {"python", "torch", "d3rlpy", "minari", "torch build", "import d3rlpy", "cores", "memory", "disk"} <= names
    assert named(checks, "datasets", "ok")[0]["found"].startswith("1 found")
    assert all((check["fix"] is None) == (check["status"] == "ok") for check in checks)


@pytest.fixture
def light(monkeypatch):
    """Without the imports that take seconds; one test above has them."""
    monkeypatch.setattr(health, "_imports", lambda: iter(()))


@pytest.mark.usefixtures("light")
def test_a_version_out_of_bounds_is_named_with_the_command_that_mends_it(monkeypatch):
    """Ours and those of our dependencies: what is there, what is expected, who wants it."""
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda n: "1.1.0" if n == "gymnasium" else real(n))
    code, checks = doctor()
    assert code == 1
    (fault,) = named(checks, "gymnasium", "fix")  # ours asks for <2, d3rlpy 2.8.1 for exactly 1.0.0
    assert fault["found"] == "1.1.0, expected ==1.0.0, as d3rlpy wants it"
    assert fault["fix"] == "pip install 'gymnasium==1.0.0'"


def test_what_is_not_installed_is_named():
    """A requirement without a distribution."""
    check = health.against(Requirement("no-such-thing-at-all>=2"), "smeoffline")
    assert (check.status, check.found) == ("fix", "not installed")
    assert check.fix == "pip install 'no-such-thing-at-all>=2'"


@pytest.mark.parametrize(("bounds", "status"), [(">=0.1", "ok"), (">=999", "fix"), ("", "ok"), ("<0.1", "fix")])
def test_bounds_are_compared_as_versions(bounds, status):
    """Not as text."""
    assert health.against(Requirement(f"click{bounds}"), "smeoffline").status == status


def test_extras_count_only_where_they_are_asked_for():
    """`minari[hdf5]` needs h5py; `minari` alone needs none of its extras."""
    with_extra, without = (
        {need.name for need in health.needs("minari", frozenset(extras))} for extras in (["hdf5"], [])
    )
    assert "h5py" in with_extra - without


def test_a_library_that_cannot_be_imported_is_named(monkeypatch):
    """Whatever it raises."""

    def broken():
        raise OSError("libfoo.so: cannot open shared object file")

    monkeypatch.setattr(health, "_torch", broken)
    monkeypatch.setattr(health, "_d3rlpy", lambda: "works")
    checks = {check.name: check for check in health._imports()}
    assert checks["torch build"].status == "fix"
    assert "libfoo.so" in checks["torch build"].found
    assert "torch" in checks["torch build"].fix


@pytest.mark.usefixtures("light")
@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ("{", "fix"),
        ("[]", "fix"),
        (None, "fix"),
        ('{"dataset_id": "a/other-v0", "data_format": "arrow"}', "fix"),
        ('{"dataset_id": "x/y-v0", "data_format": "arrow"}', "note"),  # sound, for Minari
    ],
)
def test_a_malformed_dataset_is_named(minari_root, metadata, status):
    """Its folder, and what to do; a dataset of another kind is a remark, and exit 0."""
    (minari_root / "x" / "y-v0" / "data").mkdir(parents=True)
    if metadata is not None:
        (minari_root / "x" / "y-v0" / "data" / "metadata.json").write_text(metadata)
    code, checks = doctor()
    assert code == (status == "fix")
    (found,) = named(checks, "dataset", status)
    assert str(minari_root / "x" / "y-v0") in found["found"]


@pytest.mark.usefixtures("light")
def test_a_damaged_or_renamed_dataset_is_named(minari_root):
    """A data file that was cut off, and a folder that its metadata does not know."""
    assert invoke("generate", *SMALL, "--id", "sme/x-v0").exit_code == 0
    (minari_root / "sme" / "x-v0").rename(minari_root / "sme" / "y-v0")
    (found,) = named(doctor()[1], "dataset", "fix")
    assert "'sme/x-v0'" in found["found"]
    assert f"move it to {minari_root / 'sme' / 'x-v0'}, or set dataset_id" in found["fix"]
    (minari_root / "sme" / "y-v0").rename(minari_root / "sme" / "x-v0")
    with (minari_root / "sme" / "x-v0" / "data" / "main_data.hdf5").open("r+b") as file:
        file.truncate(1000)
    (found,) = named(doctor()[1], "dataset", "fix")
    assert "main_data.hdf5" in found["found"]


@pytest.mark.usefixtures("light")
def test_a_copy_is_called_a_copy_and_looked_into(minari_root):
    """No advice to move it onto the original; and a copy that is damaged too is told so, yet counted once."""
    assert invoke("generate", *SMALL, "--id", "sme/x-v0").exit_code == 0
    copy = minari_root / "sme" / "y-v0"
    shutil.copytree(minari_root / "sme" / "x-v0", copy)
    (copy / "data" / "main_data.hdf5").write_bytes(b"garbage")
    checks = doctor()[1]
    name, damage = named(checks, "dataset", "fix")
    assert "this is a copy: remove it, or set dataset_id in its metadata.json to 'sme/y-v0'" in name["fix"]
    assert str(copy / "data" / "main_data.hdf5") in damage["found"]
    assert named(checks, "datasets", "ok")[0]["found"] == "2 found, 1 at fault"


@pytest.mark.usefixtures("light")
def test_a_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    """Here since it is a file; and one that does not exist yet is no fault."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "file"))
    code, checks = doctor()
    assert code == 1
    assert "MINARI_DATASETS_PATH" in named(checks, "datasets folder", "fix")[0]["fix"]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "new" / "er"))
    assert doctor()[0] == 0
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("light")
def test_a_person_reads_a_table(minari_root):
    """What was found, then what to do."""
    (minari_root / "x-v0" / "data").mkdir(parents=True)
    result = invoke("doctor")
    assert result.exit_code == 1
    assert result.stderr == "error: 1 thing to fix\n"
    assert "to do" in result.stdout
    assert f"move {minari_root / 'x-v0'} away" in result.stdout
