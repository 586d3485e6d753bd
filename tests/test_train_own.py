# ruff: noqa: ARG001, ARG005 -- what an algorithm takes is its contract, whether it uses it or not
from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from train_data import A, D, dataset

from smeoffline.data.policy_file import load_policy
from smeoffline.errors import PolicyError, SpecError, TrainingError
from smeoffline.train import own
from smeoffline.train.conformance import check_algorithm, check_policy, small_dataset
from smeoffline.train.interrupt import TrainingInterrupted
from smeoffline.train.record import read_run
from smeoffline.train.run import train
from smeoffline.train.run_folder import open_run
from smeoffline.train.trainer import TorchStream

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_algorithm.py"


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty current folder, and sys.path and sys.modules as they were afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return tmp_path


def module(actions: int = A) -> torch.nn.Module:
    """A small network with actions in (0, 1)."""
    return torch.nn.Sequential(torch.nn.Linear(D, actions), torch.nn.Sigmoid())


def train_module(data, *, seed, steps):
    """Train nothing; the weights come from torch's global generator."""
    return module()


def train_callable(data, *, seed, steps):
    """A policy of plain numpy."""
    return lambda observations: np.full((len(observations), A), 0.25)


class ToOnnx:
    """A policy that writes its own file, from a module that may be another one."""

    def __init__(self, acts, writes):
        self.acts, self.writes = acts, writes

    def __call__(self, observations):
        """Act."""
        with torch.no_grad():
            return self.acts(torch.from_numpy(observations)).numpy()

    def to_onnx(self, path):
        """Write the other module."""
        import io
        import warnings

        buffer = io.BytesIO()
        names = {"input_names": ["o"], "output_names": ["a"], "dynamic_axes": {"o": {0: "b"}, "a": {0: "b"}}}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(self.writes, (torch.zeros(2, D),), buffer, dynamo=False, **names)
        Path(path).write_bytes(buffer.getvalue())


def run(out, algo, **options):
    """Train an own algorithm for a few steps."""
    return train(dataset(), algo=algo, steps=3, out=out, **options)


def test_a_module_becomes_a_policy_file(tmp_path):
    """A torch module is exported, and the file acts as the module did."""
    made = run(tmp_path, train_module, seed=7)
    assert made.policy == made.run / "policy.onnx"
    rows = np.random.default_rng(0).random((9, D), dtype=np.float32)
    loaded = load_policy(made.policy)
    np.testing.assert_allclose(loaded(rows), made.act(rows), atol=1e-6)
    assert loaded.metadata["algorithm"] == f"{__name__}:train_module"
    record = read_run(made.run)
    assert (record.status, record.step, record.reloadable) == ("done", 3, True)
    assert made.run.name == f"sme-small-v0--{__name__}.train_module-s7"


def test_torchs_generator_is_seeded_and_put_back(tmp_path):
    """An algorithm that draws from torch's generator is repeatable, and the caller's stays as it was."""
    before = torch.get_rng_state()
    rows = np.full((2, D), 0.5, np.float32)
    same = [run(tmp_path / str(i), train_module, seed=7).act(rows) for i in range(2)]
    other = run(tmp_path / "other", train_module, seed=8).act(rows)
    np.testing.assert_array_equal(*same)
    assert not np.array_equal(same[0], other)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_plain_callable_is_handed_back(tmp_path):
    """A callable that no file can hold acts in this process; the run has no policy file and says so."""
    made = run(tmp_path, train_callable)
    assert made.policy is None
    assert made.to_dict()["policy"] is None
    assert (made.act(np.zeros((2, D), np.float32)) == 0.25).all()
    assert "plain callable" in made.notes[0]
    with pytest.raises(TrainingError, match=r"has no policy file, since .*train_callable returned a plain callable"):
        open_run(made.run)
    assert not read_run(made.run).reloadable


def test_a_policy_may_write_its_own_file(tmp_path):
    """An object with to_onnx is asked for its file, which must act as it does."""
    net = module()
    made = run(tmp_path / "good", lambda data, *, seed, steps: ToOnnx(net, net))
    rows = np.random.default_rng(0).random((9, D), dtype=np.float32)
    np.testing.assert_allclose(load_policy(made.policy)(rows), made.act(rows), atol=1e-6)
    with pytest.raises(PolicyError, match="expected the exported file to act as the module"):
        run(tmp_path / "bad", lambda data, *, seed, steps: ToOnnx(net, module()))
    with pytest.raises(PolicyError, match=r"policy: its to_onnx raised \w+: "):
        run(tmp_path / "raises", lambda data, *, seed, steps: ToOnnx(net, None))


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "expected a callable from observations to actions or a torch.nn.Module, got NoneType"),
        (module(A + 1), r"expected actions of shape \(64, 3\), got \(64, 4\)"),
        (lambda o: np.full((len(o), A), np.nan), "expected finite actions"),
        (
            lambda o: np.full((len(o), A), 2.0),
            r"expected actions in \[0, 1\], got values from 2 to 2; scale or clip",
        ),
        (lambda o: [["a"] * A] * len(o), "expected actions as numbers, got <U1 values"),
        (lambda o: np.zeros(A), r"expected actions of shape \(64, 3\), got \(3,\)"),
    ],
)
def test_what_is_no_policy_fails_the_run(tmp_path, returned, message):
    """A policy of wrong kind, shape or values is one line that names the algorithm; the run has failed."""

    def bad(data, *, seed, steps):
        return returned

    with pytest.raises(PolicyError, match=f"policy of .*bad: {message}") as caught:
        run(tmp_path, bad)
    assert "\n" not in str(caught.value)
    (folder,) = [p for p in tmp_path.iterdir() if "bad" in p.name]
    assert read_run(folder).status == "failed"


def test_an_algorithm_that_raises_keeps_its_traceback(tmp_path):
    """What it raised is one line, and its author finds the traceback in the run's folder."""

    def broken(data, *, seed, steps):
        raise ZeroDivisionError("my mistake")

    with pytest.raises(TrainingError, match=r"broken: raised ZeroDivisionError: my mistake \(traceback in ") as caught:
        run(tmp_path, broken)
    place = Path(str(caught.value).rpartition("traceback in ")[2].rstrip(")"))
    assert 'raise ZeroDivisionError("my mistake")' in place.read_text()


def test_a_run_that_worked_keeps_no_old_traceback(tmp_path):
    """What an earlier attempt raised is gone once the algorithm works, and so is an evaluation of another policy."""
    attempts = []

    def mended(data, *, seed, steps):
        attempts.append(steps)
        if len(attempts) == 1:
            raise ZeroDivisionError
        return module()

    with pytest.raises(TrainingError, match="raised ZeroDivisionError"):
        run(tmp_path, mended)
    (error,) = tmp_path.rglob("error.txt")
    error.with_name("evaluation.json").touch()
    made = run(tmp_path, mended, resume=True)
    assert not [path.name for path in made.run.iterdir() if path.name in ("error.txt", "evaluation.json")]


def test_an_interrupted_algorithm_can_begin_again(tmp_path):
    """Ctrl-C is recorded, and --resume starts over, since an own algorithm has no checkpoint."""
    calls = []

    def slow(data, *, seed, steps):
        calls.append(steps)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return module()

    with pytest.raises(TrainingInterrupted, match="run the same with --resume to start over"):
        run(tmp_path, slow)
    with pytest.raises(TrainingError, match=r"exists already \(interrupted"):
        run(tmp_path, slow)
    assert run(tmp_path, slow, resume=True).policy is not None
    run(tmp_path, slow, resume=True)  # done: nothing to do
    assert len(calls) == 2


def test_settings_are_not_for_own_algorithms(tmp_path):
    """An own algorithm takes no settings, and one that is given is not ignored."""
    with pytest.raises(SpecError, match="takes none, got gamma"):
        run(tmp_path, train_module, settings={"gamma": "0.9"})


ALGORITHMS = """
from mine.networks import make

class Deep:
    @staticmethod
    def train(data, *, seed, steps):
        return make()
"""
NETWORKS = f"""
import torch

def make():
    return torch.nn.Sequential(torch.nn.Linear({D}, {A}), torch.nn.Sigmoid())
"""


def test_a_module_in_the_current_folder_is_found(here):
    """`module:function` is imported from the current folder, also from a package in it, by name."""
    package = here / "mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "algorithms.py").write_text(ALGORITHMS)
    (package / "networks.py").write_text(NETWORKS)
    made = run(here / "runs", "mine.algorithms:Deep.train")
    assert made.run.name == "sme-small-v0--mine.algorithms.Deep.train-s0"
    assert read_run(made.run).algorithm == "mine.algorithms:Deep.train"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mymodul:train", r"no module 'mymodul' in .*; did you mean 'mymodule'\?"),
        ("mymodule.sub:train", "no module 'mymodule.sub'"),
        ("mymodule:trian", r"mymodule has no 'trian'; did you mean 'train'\?"),
        ("mymodule:NUMBER.train", "mymodule has no 'NUMBER.train'"),
        ("mymodule:NUMBER", "expected a function train\\(data, \\*, seed, steps\\), got int"),
        ("mymodule:two", r"expected train\(data, \*, seed, steps\), got \(data, labels, seed, steps\)"),
        ("mymodule:", "expected module:function"),
        (":train", "expected module:function"),
        ("my module:train", "expected module:function"),
        ("needs:train", "importing needs failed: No module named 'nothing_like_this'"),
        ("fails:train", "importing fails failed: ValueError: at import"),
        ("syntax:train", "importing syntax failed: SyntaxError"),
    ],
)
def test_a_name_that_leads_nowhere(here, name, message):
    """A wrong module, attribute or signature is one line with what is near."""
    (here / "mymodule.py").write_text(
        "NUMBER = 3\n\ndef train(data, *, seed, steps): ...\n\ndef two(data, labels, seed, steps): ...\n"
    )
    (here / "needs.py").write_text("import nothing_like_this\n")
    (here / "fails.py").write_text("raise ValueError('at import')\n")
    (here / "syntax.py").write_text("def (\n")
    with pytest.raises(SpecError, match=message) as caught:
        own.find_train(name)
    assert "\n" not in str(caught.value)


def test_nothing_is_made_for_a_wrong_name(here):
    """A name that leads nowhere leaves no run behind."""
    with pytest.raises(SpecError):
        run(here / "runs", "nowhere:train")
    assert not (here / "runs").exists()


def test_a_conforming_policy_passes():
    """A torch module and a function of arrays that are functions of each row pass."""
    check_policy(module(), D, A)
    check_policy(lambda o: np.clip(o[:, :A], 0, 1), D, A)


class Branching(torch.nn.Module):
    """A module with control flow that no graph has."""

    def forward(self, x):
        """Act."""
        return torch.zeros(len(x), A) if x.sum() > 1e9 else torch.ones(len(x), A)


def drawing():
    """A policy that draws."""
    rng = np.random.default_rng(0)
    return lambda o: rng.random((len(o), A))


def scribbling(observations):
    """A policy that writes into what it is given."""
    observations[:] = 0
    return np.zeros((len(observations), A))


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (drawing(), "the same actions for the same observations"),
        (lambda o: np.repeat(np.clip(o.mean(), 0, 1), len(o) * A).reshape(-1, A), "its own row alone"),
        (scribbling, "leave the observations as they are"),
        (lambda o: np.zeros((len(o), A + 1)), "expected actions of shape"),
        (lambda o: o[:, :A], r"expected actions in \[0, 1\]"),
        (lambda o: np.full((len(o), A), np.inf), "expected finite actions"),
        (3, "expected a callable"),
        (Branching(), "torch can't export this module"),
    ],
)
def test_a_policy_that_breaks_the_contract_fails(policy, message):
    """Each clause of a policy's contract is checked, with a message that says which."""
    with pytest.raises(AssertionError, match=message):
        check_policy(policy, D, A)


def test_a_conforming_algorithm_passes():
    """An algorithm that draws from its seed, or from torch's seeded generator, passes."""
    check_algorithm(train_module, observation_dim=D, action_dim=A)
    check_algorithm(lambda data, *, seed, steps: lambda o: np.zeros((len(o), A)))


UNSEEDED = np.random.default_rng(0)


def train_unseeded(data, *, seed, steps):
    """Draws from a generator that goes on from call to call."""
    level = UNSEEDED.random()
    return lambda o: np.full((len(o), A), level)


def train_scaling(data, *, seed, steps):
    """Scales its data in place."""
    data.rewards[:] -= data.rewards.mean()
    return module()


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        (train_unseeded, "the same policy from the same data, seed and steps"),
        (train_scaling, "leave the data as they are, got rewards changed"),
        (lambda data, steps: None, r"expected train\(data, \*, seed, steps\)"),
        (lambda data, *, seed, steps: None, "expected a callable"),
        (lambda data, *, seed, steps: drawing(), "the same actions for the same observations"),
    ],
)
def test_an_algorithm_that_breaks_the_contract_fails(algorithm, message):
    """Each clause of an algorithm's contract is checked, with a message that says which."""
    with pytest.raises(AssertionError, match=message):
        check_algorithm(algorithm)


def test_the_dataset_of_the_check_has_both_kinds_of_ends():
    """Algorithms are tried on truncated and terminated episodes, and on one of a single step."""
    data = small_dataset()
    assert (data.terminals.sum(), data.timeouts.sum(), len(data)) == (2, 3, 68)
    assert np.bincount(data.episodes).tolist() == [20, 20, 20, 7, 1]


def test_the_example_is_short_and_conforms():
    """The example for the README has at most 20 lines of code, and passes the contract."""
    source = EXAMPLE.read_text()
    tree = ast.parse(source)
    texts = {line for node in ast.walk(tree) if is_docstring(node) for line in range(node.lineno, node.end_lineno + 1)}
    lines = [i for i, line in enumerate(source.splitlines(), start=1) if line.strip() and i not in texts]
    assert len(lines) <= 20
    spec = importlib.util.spec_from_file_location("own_algorithm", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    check_algorithm(example.train)


def is_docstring(node):
    """Whether a node is a bare string."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def test_the_example_learns():
    """The example's policy comes close to the better of two actions, which a mean of both would not."""
    rng = np.random.default_rng(0)
    data = small_dataset()
    good = rng.random(len(data)) < 0.5
    actions = np.where(good[:, np.newaxis], 0.8, 0.2).repeat(3, axis=1).astype(np.float32)
    made = type(data)(**{**vars(data), "actions": actions, "rewards": good.astype(np.float32)})
    spec = importlib.util.spec_from_file_location("own_algorithm", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with TorchStream(0).use():
        policy = example.train(made, seed=0, steps=400)
        with torch.no_grad():
            acted = policy(torch.from_numpy(made.observations)).numpy()
    assert np.abs(acted - 0.8).mean() < 0.1
