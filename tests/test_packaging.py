"""What is built and installed: the wheel's contents, the pins, and the public names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import PurePosixPath

import pytest
from command import ROOT, environment, python

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = re.compile(r"[A-Za-z0-9._-]+")


def canonical(name):
    """A distribution's name as an index normalizes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def build(target, folder):
    """Build one target with hatchling into a folder; returns the file."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", target, "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, env=environment())
    (built,) = folder.iterdir()
    return built


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The wheel of this checkout, built once."""
    with zipfile.ZipFile(build("wheel", tmp_path_factory.mktemp("wheel"))) as archive:
        yield archive


def test_the_wheel_holds_the_library_the_commands_and_the_recipes(wheel):
    """Both packages, their type markers and all of `datasets/` are in it, and every source file."""
    names = set(wheel.namelist())
    sources = {p.relative_to(ROOT).as_posix() for p in (ROOT / "smeoffline").rglob("*.py")}
    commands = {p.relative_to(ROOT / "cli").as_posix() for p in (ROOT / "cli").rglob("*.py")}
    recipes = {f"smeoffline/_datasets/{p.name}" for p in (ROOT / "datasets").glob("*.toml")}
    assert recipes
    assert sources | commands | recipes <= names
    assert {"smeoffline/py.typed", "smeoffline_cli/py.typed"} <= names


def test_the_wheel_installs_nothing_else(wheel):
    """Its top level is the two packages; no tests, no `cli`, no datasets in HDF5."""
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"smeoffline", "smeoffline_cli"}
    assert [name for name in wheel.namelist() if name.endswith((".hdf5", ".pyc"))] == []
    # What the library reads at run time, and no more; beyond this size something was packed by mistake.
    endings = {".py", ".typed", ".csv", ".toml", ".md", ".txt", ".zip", ".json", ".css", ".js", ".j2"}
    files = [info for info in wheel.infolist() if ".dist-info/" not in info.filename]
    assert {PurePosixPath(info.filename).suffix for info in files} - {""} <= endings
    assert sum(info.file_size for info in files) < 4_000_000


def test_the_wheel_says_what_it_is(wheel):
    """Its metadata has the version of the source, the license, the Python it needs and the script."""
    (info,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    metadata = Parser().parsestr(wheel.read(f"{info}/METADATA").decode())
    assert metadata["Version"] == python("import smeoffline; print(smeoffline.__version__)").strip()
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert f"{info}/licenses/LICENSE" in wheel.namelist()
    assert "sme-offline = smeoffline_cli.main:main" in wheel.read(f"{info}/entry_points.txt").decode()


def test_the_wheel_finds_its_recipes_outside_the_checkout(wheel, tmp_path):
    """Unpacked elsewhere, the package lists and loads the recipes that are shipped in it."""
    wheel.extractall(tmp_path)  # noqa: S202 - we have just built it
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import smeoffline.data.recipe as r\n"
        f"assert r.__file__.startswith({str(tmp_path)!r}), r.__file__\n"
        "print(*[r.Recipe.load(name).dataset_id for name in r.shipped_recipes()], sep='\\n')"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(done.stdout.split()) == len(list((ROOT / "datasets").glob("*.toml"))) > 0


def test_the_source_distribution_holds_what_it_is_built_and_tested_from(tmp_path):
    """Sources, recipes, tests, docs, examples and pins are in the sdist; nothing from a developer's machine is."""
    with tarfile.open(build("sdist", tmp_path / "sdist")) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    files = {"Makefile", "constraints.txt", "CITATION.cff", "mkdocs.yml", "tests/command.py", "docs/index.md"}
    examples = {f"examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert files | examples | {"cli/smeoffline_cli/main.py"} <= names
    tops = {name.split("/")[0] for name in names}
    folders = {"smeoffline", "cli", "datasets", "tests", "benchmarks", "examples", "docs"}
    assert {top for top in tops if (ROOT / top).is_dir()} == folders  # no reports, runs or virtual environment
    assert [name for name in names if name.endswith((".hdf5", ".pyc", ".onnx"))] == []
    assert any(name.startswith("datasets/") for name in names)
    assert [name for name in names if name.split("/")[0].startswith(".") and name != ".gitignore"] == []


def test_the_citation_is_of_this_version():
    """CITATION.cff names the version of the source, its license, and the paper."""
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    version = python("import smeoffline; print(smeoffline.__version__)").strip()
    assert f"\nversion: {version}\n" in cited
    assert f"\nlicense: {PROJECT['license']}\n" in cited
    assert "arXiv:2603.06252" in cited


def test_every_dependency_is_pinned():
    """Each dependency and extra has exactly one pin, and torch's has no local version."""
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    pinned = {canonical(name) for name in pins}
    extras = [item for group in PROJECT["optional-dependencies"].values() for item in group]
    wanted = {canonical(NAME.match(item)[0]) for item in [*PROJECT["dependencies"], *extras]} - {"smeoffline"}
    assert wanted <= pinned
    assert pins["torch"] == "2.13.0"
    assert [version for version in pins.values() if "+" in version] == []


def test_the_public_names_agree():
    """`__all__`, the lazy table and the imports that type checkers read list the same names."""
    import smeoffline as so

    tree = ast.parse((ROOT / "smeoffline" / "__init__.py").read_text())
    typed = {
        alias.asname: node.module
        for block in tree.body
        if isinstance(block, ast.If)
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    rooms = {name for name, home in so._HOME.items() if home == "smeoffline"}  # rooms that can be called
    assert set(typed) == set(so._HOME)
    assert {n: h for n, h in typed.items() if n not in rooms} == {n: h for n, h in so._HOME.items() if n not in rooms}
    assert all(callable(getattr(so, name)) for name in rooms)
    assert set(so.__all__) == {*so._HOME, "__version__"}
    assert so.__all__ == sorted(so.__all__)


def test_every_public_name_can_be_imported():
    """Each name in `__all__` exists where the lazy table says, and is in `dir()` before it is used."""
    shown = python(
        "import smeoffline as so\n"
        "listed = dir(so)\n"
        "print(all(n in listed for n in so.__all__), [n for n in so.__all__ if not hasattr(so, n)])"
    )
    assert shown.strip() == "True []"


def test_an_unknown_name_is_an_attribute_error():
    """A misspelled name fails as in any module."""
    import smeoffline as so

    with pytest.raises(AttributeError, match="'smeoffline' has no attribute 'genrate'"):
        _ = so.genrate


@pytest.mark.parametrize("first", ["smeoffline", "gymnasium"])
def test_gymnasium_finds_the_environment_whichever_is_imported_first(first):
    """`gymnasium.make("smeoffline:smeoffline/SME-v0")` works in any import order, and the plain id does."""
    shown = python(
        f"import {first}, gymnasium, smeoffline\n"
        "env = gymnasium.make('smeoffline:smeoffline/SME-v0', state_dim=3)\n"
        "print(env.observation_space.shape, gymnasium.make('smeoffline/SME-v0').action_space.shape)"
    )
    assert shown.strip() == "(5,) (4,)"
