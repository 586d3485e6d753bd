"""The rooms of the package: who may import whom, and what no module may do, read from the source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("sme", "data", "train", "score", "bench")  # a room imports only itself and those to its left
FOLDERS = {  # within a room: a folder imports only itself and those to its left; "" are the room's own modules
    "data": ("storage", "", "audit", "bundle"),
    "bench": ("drawing", "", "report", "leaderboard", "pictures", "audit"),
}
SOLE_IMPORTERS = {
    "minari": {"smeoffline/data/storage/store.py", "smeoffline/data/storage/hdf5.py"},
    "h5py": {"smeoffline/data/storage/store.py", "smeoffline/data/storage/hdf5.py"},
    "d3rlpy": {"smeoffline/train/trainer.py"},
}
FORKS_TORCH = "smeoffline/train/trainer.py"  # d3rlpy draws from torch's global generator; it forks that
FORBIDDEN_MODULES = {"random", "pickle", "cPickle", "dill", "cloudpickle", "shelve", "marshal"}
NUMPY_RANDOM = {"default_rng", "Generator", "SeedSequence", "BitGenerator", "PCG64", "Philox"}
TORCH_DRAWS = {"rand", "randn", "randint", "randperm", "normal", "bernoulli", "multinomial", "poisson"}
TENSOR_DRAWS = {"uniform_", "normal_", "bernoulli_", "exponential_", "random_", "orthogonal_", "log_normal_"}
TORCH_GLOBAL = {"manual_seed", "seed", "initial_seed", "set_rng_state", "get_rng_state"}
NEVER_CALLED = {"recover_environment", "get_minari", "load_learnable"}


def sources() -> list[Path]:
    """Every module of the package and of the command line."""
    return sorted([*(ROOT / "smeoffline").rglob("*.py"), *(ROOT / "cli").rglob("*.py")])


def imported(tree: ast.AST) -> Iterator[str]:
    """The dotted names of all imports, wherever they stand; `from a import b` gives `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and dotted(node.func) in ("importlib.import_module", "__import__"):
            yield from (a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str))


def dotted(node: ast.expr) -> str:
    """`a.b.c` of an attribute chain; `?` stands for what is no name."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else "?"


def direction_faults(path: str, tree: ast.AST) -> list[str]:
    """Imports that point the wrong way."""
    faults = []
    room = path.split("/")[1] if path.startswith("smeoffline/") else "cli"
    for name in imported(tree):
        parts = name.split(".")
        if parts[0] == "smeoffline_cli" and room != "cli":
            faults.append(f"{path} imports {name}")
        if parts[0] in SOLE_IMPORTERS and path not in SOLE_IMPORTERS[parts[0]]:
            faults.append(f"{path} imports {name}")
        if parts[0] != "smeoffline" or room in ("cli", "__init__.py"):
            continue
        target = parts[1] if len(parts) > 1 else "__init__.py"
        if target in ("errors", "__version__"):
            continue
        if room not in ROOMS or target not in ROOMS or ROOMS.index(target) > ROOMS.index(room):
            faults.append(f"{path} imports {name}")
        elif room == target and room in FOLDERS:
            order = FOLDERS[room]
            if order.index(folder(parts[2], room)) > order.index(folder(path.split("/")[2], room)):
                faults.append(f"{path} imports {name}")
    return faults


def folder(name: str, room: str) -> str:
    """The folder of a room that a name below it is, or "" where it is one of the room's own modules."""
    return name if name in FOLDERS[room] else ""


def hazards(path: str, tree: ast.AST) -> list[str]:
    """Global random generators, pickles, and library calls that are traps."""
    faults = [f"{path} imports {n}" for n in imported(tree) if n.split(".")[0] in FORBIDDEN_MODULES]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner, attr = dotted(node.value), node.attr
            legacy = owner in ("np.random", "numpy.random") and attr not in NUMPY_RANDOM
            reseeds = owner in ("torch", "torch.random", "torch.cuda") and attr in TORCH_GLOBAL
            if legacy or attr in NEVER_CALLED or (reseeds and path != FORKS_TORCH):
                faults.append(f"{path}:{node.lineno} uses {owner}.{attr}")
        if isinstance(node, ast.Call):
            faults += [f"{path}:{node.lineno} {fault}" for fault in call_hazards(node)]
    return faults


def call_hazards(node: ast.Call) -> Iterator[str]:
    """What is wrong with one call."""
    name = dotted(node.func)
    owner, _, attr = name.rpartition(".")
    keywords = {k.arg: k.value for k in node.keywords}
    draws = (owner == "torch" and attr in TORCH_DRAWS) or attr in TENSOR_DRAWS
    if draws and "generator" not in keywords:
        yield f"{name} draws without generator="
    if attr == "rvs" and "random_state" not in keywords:
        yield f"{name} draws without random_state="
    if attr == "default_rng" and not node.args and not keywords:
        yield f"{name} draws a seed nobody knows"
    if name in ("torch.load", "joblib.load") and not is_true(keywords.get("weights_only")):
        yield f"{name} may unpickle"
    if is_true(keywords.get("allow_pickle")):
        yield f"{name} may unpickle"


def is_true(node: ast.expr | None) -> bool:
    """Whether an argument is the literal True."""
    return isinstance(node, ast.Constant) and node.value is True


def test_there_is_something_to_check():
    """The walk finds every room that has modules, so that an empty walk cannot pass for a clean one."""
    names = {path.relative_to(ROOT).as_posix() for path in sources()}
    assert {"smeoffline/errors.py", "smeoffline/sme/task.py", "smeoffline/data/recipe.py"} <= names
    assert "cli/smeoffline_cli/main.py" in names


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_imports_point_one_way(path):
    """A room or a folder imports only itself and those to its left, and a library's sole importer is its only one."""
    relative = path.relative_to(ROOT).as_posix()
    assert direction_faults(relative, ast.parse(path.read_text(encoding="utf-8"))) == []


def test_the_folders_of_the_rooms_are_all_named():
    """Each folder of a room that has an order is in that order, so that none can be added unnoticed."""
    for room, order in FOLDERS.items():
        found = {path.parent.name for path in (ROOT / "smeoffline" / room).glob("*/__init__.py")}
        assert found == set(order) - {""}


@pytest.mark.parametrize("path", sources(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_global_randomness_no_pickle_no_known_trap(path):
    """No module draws from a global generator, opens a pickle, or calls what the design forbids."""
    relative = path.relative_to(ROOT).as_posix()
    assert hazards(relative, ast.parse(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("path", "source"),
    [
        ("smeoffline/sme/model.py", "from smeoffline.data import store"),
        ("smeoffline/data/audit/inspection.py", "def f():\n    import smeoffline.train.trainer"),
        ("smeoffline/train/policy.py", "from smeoffline.score.probes import x"),
        ("smeoffline/score/values.py", "import importlib\nimportlib.import_module('smeoffline.bench.run')"),
        ("smeoffline/bench/run.py", "from smeoffline_cli.main import main"),
        ("smeoffline/bench/run.py", "import smeoffline"),
        ("smeoffline/data/audit/inspection.py", "import h5py"),
        ("smeoffline/data/audit/inspection.py", "from minari.dataset import MinariDataset"),
        ("smeoffline/train/policy.py", "import d3rlpy"),
        ("smeoffline/errors.py", "from smeoffline.sme.task import Task"),
        ("smeoffline/data/storage/store.py", "from smeoffline.data.recipe import Recipe"),
        ("smeoffline/data/generate.py", "from smeoffline.data.audit import inspection"),
        ("smeoffline/bench/drawing/points.py", "from smeoffline.bench.report.study import Study"),
    ],
)
def test_an_import_in_the_wrong_direction_is_found(path, source):
    """The check above finds each kind of wrong import, wherever in the module it stands."""
    assert len(direction_faults(path, ast.parse(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "import random",
        "from pickle import loads",
        "np.random.seed(0)",
        "x = numpy.random.rand(3)",
        "rng = np.random.default_rng()",
        "torch.manual_seed(1)",
        "torch.rand(3)",
        "weight.uniform_(0, 1)",
        "torch.nn.init.orthogonal_(w)",
        "stats.norm.rvs(3)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path, allow_pickle=True)",
        "dataset.recover_environment()",
    ],
)
def test_a_hazard_is_found(source):
    """The check above finds each kind of hazard."""
    assert hazards("smeoffline/data/x.py", ast.parse(source))


@pytest.mark.parametrize(
    "source",
    [
        "rng = np.random.default_rng(seed)",
        "torch.rand(3, generator=g)",
        "torch.nn.init.orthogonal_(w, generator=g)",
        "torch.load(path, weights_only=True)",
        "stream.standard_normal(3)",
    ],
)
def test_a_seeded_draw_is_no_hazard(source):
    """What names its generator passes."""
    assert hazards("smeoffline/data/x.py", ast.parse(source)) == []


def test_folders_that_are_no_packages():
    """Nothing installs a top-level `cli`, `datasets`, `reports` or `tests`."""
    assert [d for d in ("cli", "datasets", "reports", "tests") if (ROOT / d / "__init__.py").exists()] == []


def test_no_file_is_called_utils():
    """A module's name says what is in it."""
    assert [path for path in sources() if path.stem in ("util", "utils", "helpers", "misc", "common")] == []
