from __future__ import annotations

import json
import sys

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper, numpy_helper
from train_data import NAMES, A, D, small_settings, small_trainer

from smeoffline.data.action_box import ActionBox
from smeoffline.data.policy_file import CHUNK, MAX_BYTES, load_policy
from smeoffline.errors import PolicyError, VersionError
from smeoffline.train.algorithms import ALGORITHMS
from smeoffline.train.export import export_policy
from smeoffline.train.trainer import _config, d3rlpy

UNIT = ActionBox.unit(A)
ROWS = 40


def observations(rows: int = ROWS) -> np.ndarray:
    """Observations inside the unit cube and up to 1 outside."""
    return np.random.default_rng(0).random((rows, D), dtype=np.float32) * 3 - 1


def export(trainer, path, box=UNIT):
    """A trainer's policy in a file, loaded again."""
    net = trainer.learner.policy_net()
    metadata = {"noise": net.noise}
    return export_policy(net, path, sample=observations(), box=box, metadata=metadata, straight=True)


def freeze(net, monkeypatch):
    """Make torch draw the policy's own frozen noise, for each observation in the batch."""
    inner = net.inner

    def randn(*shape, **_):
        latents = len(shape) == 2  # (batch n, width), else (batch, n, width)
        return inner.noise.repeat(shape[0] // inner.n, 1) if latents else inner.noise.expand(shape)

    def multinomial(weights, count, *, replacement):
        assert (count, replacement) == (1, True)
        return (weights.cumsum(1) < inner.level).long().sum(dim=1, keepdim=True)

    monkeypatch.setattr(torch, "randn", randn)
    monkeypatch.setattr(torch, "multinomial", multinomial)


@pytest.mark.parametrize("name", NAMES)
def test_the_exported_policy_is_d3rlpys(name, tmp_path, monkeypatch, capfd):
    """For every algorithm, trained a few steps, the file acts as d3rlpy's `predict` within 1e-5."""
    trainer = small_trainer(name)
    trainer.advance(6)
    policy = export(trainer, tmp_path / "policy.onnx")
    assert capfd.readouterr() == ("", "")
    algorithm = ALGORITHMS[name]
    config = _config(algorithm, small_settings(algorithm))
    bounds = np.zeros(A, np.float32), np.ones(A, np.float32)
    config.action_scaler = d3rlpy().preprocessing.MinMaxActionScaler(minimum=bounds[0], maximum=bounds[1])
    algo = config.create("cpu:0")
    algo._impl = trainer.learner.impl
    net, ours = trainer.learner.policy_net(), trainer.learner.act(observations())
    if net.noise is not None:
        freeze(net, monkeypatch)
    theirs = algo.predict(observations())
    if name != "plas":  # whose decoder is not squashed
        assert theirs.min() >= 0
        assert theirs.max() <= 1
    actions = policy(observations())
    np.testing.assert_allclose(actions, np.clip(theirs, 0, 1), atol=1e-5)
    np.testing.assert_allclose(actions, ours, atol=1e-5)


@pytest.mark.parametrize("name", ["bcq", "bear", "crr"])
def test_frozen_noise_is_recorded_and_makes_a_function(name, tmp_path):
    """A policy that samples is deterministic once exported, and its file says how its noise was drawn."""
    trainer = small_trainer(name)
    trainer.advance(6)
    policy = export(trainer, tmp_path / "policy.onnx")
    rows = observations()
    np.testing.assert_array_equal(policy(rows), policy(rows))
    alone = np.concatenate([policy(row[np.newaxis]) for row in rows])
    np.testing.assert_allclose(policy(rows), alone, atol=1e-5)
    again = load_policy(tmp_path / "policy.onnx").metadata["noise"]
    assert again["seed"] == 0
    assert again["shape"] == list(trainer.learner.policy_net().inner.noise.shape)


def test_batches_of_any_size(tmp_path):
    """Zero, one and more rows than a chunk all work, and give each row its own action."""
    policy = export(small_trainer("bc"), tmp_path / "policy.onnx")
    rows = observations(CHUNK + 5)
    actions = policy(rows)
    assert policy(rows[:0]).shape == (0, A)
    np.testing.assert_allclose(policy(rows[CHUNK + 2 : CHUNK + 3])[0], actions[CHUNK + 2], atol=1e-6)


def test_another_action_space_is_kept_in_the_file(tmp_path):
    """A policy for actions in [-2, 2] x [0, 4] x [5, 6] reaches that space after loading too."""
    box = ActionBox((-2.0, 0.0, 5.0), (2.0, 4.0, 6.0))
    trainer = small_trainer("bc")
    trainer.learner.box = box
    unit = small_trainer("bc").learner.act(observations())
    policy = export(trainer, tmp_path / "policy.onnx", box)
    assert load_policy(tmp_path / "policy.onnx").box == box
    low, high = np.array(box.low), np.array(box.high)
    np.testing.assert_allclose(policy(observations()), low + unit * (high - low), atol=1e-5)


def test_a_file_tells_nothing_about_this_machine(tmp_path):
    """The exporter's notes on Python files and stack traces are left out of the file."""
    export(small_trainer("iql"), tmp_path / "policy.onnx")
    data = (tmp_path / "policy.onnx").read_bytes()
    assert b".py" not in data
    assert sys.prefix.encode() not in data


def graph_bytes(
    weight: np.ndarray | None = None,
    *,
    nodes=None,
    shape_in=("batch", D),
    shape_out=("batch", A),
    kind=TensorProto.FLOAT,
    metadata: str | None = None,
    external: bool = False,
) -> bytes:
    """An ONNX file that multiplies by a weight, or has the given nodes."""
    tensor = numpy_helper.from_array(weight if weight is not None else np.full((D, A), 0.1, np.float32), "weight")
    if external:
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
    graph = helper.make_graph(
        nodes if nodes is not None else [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        "policy",
        [helper.make_tensor_value_info("x", kind, shape_in)],
        [helper.make_tensor_value_info("y", kind, shape_out)],
        [tensor],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    if metadata is not None:
        model.metadata_props.add(key="smeoffline", value=metadata)
    return model.SerializeToString()


def saved(tmp_path, data: bytes):
    """A file with these bytes."""
    path = tmp_path / "policy.onnx"
    path.write_bytes(data)
    return path


def test_a_strangers_file(tmp_path):
    """Any ONNX graph of the right shape is a policy, in [0, 1] and without metadata."""
    policy = load_policy(saved(tmp_path, graph_bytes()), observation_dim=D, action_dim=A)
    np.testing.assert_allclose(policy(np.ones((2, D), np.float32)), np.full((2, A), 0.1 * D), rtol=1e-6)
    assert (policy.observation_dim, policy.action_dim, policy.metadata, policy.box) == (D, A, {}, UNIT)


def test_a_pickle_is_recognized_and_never_opened(tmp_path):
    """A torch file and a pickle that would make a folder are refused by their first bytes alone."""
    path = tmp_path / "policy.onnx"
    torch.save(torch.nn.Linear(2, 2), path)
    with pytest.raises(PolicyError, match=r"a zip archive, as torch\.save writes it, which is not opened"):
        load_policy(path)
    marker = tmp_path / "ran"
    path.write_bytes(b"\x80\x04" + f"cos\nmkdir\n(V{marker}\ntR.".encode())
    with pytest.raises(PolicyError, match="a pickle, which is not opened"):
        load_policy(path)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "expected an ONNX file with a graph"),
        (b"hello, this is no model", "something else or a damaged one|with a graph"),
        (graph_bytes()[:-20], "something else or a damaged one|can't load it|expected"),
        (b"{}", "JSON"),
        (graph_bytes(external=True), "external data for 'weight'"),
        (graph_bytes(shape_in=(1, D), shape_out=(1, A)), "any batch size, got a fixed size of 1"),
        (graph_bytes(shape_in=("batch", 1, D), shape_out=("batch", 1, A)), "got 3 dimensions of float"),
        (graph_bytes(np.ones((D, A)), kind=TensorProto.DOUBLE), "dimensions of double"),
        (graph_bytes(nodes=[helper.make_node("NoSuchOperator", ["x"], ["y"])]), "onnxruntime can't load it"),
        (graph_bytes(np.full((D, A), np.nan, np.float32)), "expected finite actions"),
        (
            graph_bytes(np.full((D, A), -1, np.float32)),
            r"expected actions in \[0, 1\], got values from -3 to -3",
        ),
        (graph_bytes(np.full((D, A + 1), 0.1, np.float32), shape_out=None), "expected actions of shape"),
        (
            graph_bytes(np.full((D + 1, A), 0.1, np.float32), shape_out=None),
            "can't load it|failed on 1 observations",
        ),
        (graph_bytes(metadata="{"), "is not JSON"),
        (
            graph_bytes(metadata='{"schema": 1, "action_low": [0], "action_high": [1]}'),
            "bounds for 3 action channels",
        ),
        (graph_bytes(metadata='{"schema": 1, "action_low": "no"}'), "unusable action bounds"),
        (
            graph_bytes(metadata='{"schema": 1, "action_low": [0, 0, NaN], "action_high": [1, 1, 1]}'),
            "unusable action bounds",
        ),
        (graph_bytes(shape_in=("batch", -1)), "can't load it|pass observation_dim"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(tmp_path, data, message):
    """Garbage, half a file, external data, other shapes or types, bad values: one clear line each."""
    with pytest.raises(PolicyError, match=message) as caught:
        load_policy(saved(tmp_path, data), action_dim=A)
    assert "\n" not in str(caught.value)


def test_external_data_is_found_wherever_it_hides(tmp_path):
    """A tensor outside the file is found in a node's attribute and in a subgraph too."""
    hidden = numpy_helper.from_array(np.ones(1, np.float32), "hidden")
    hidden.ClearField("raw_data")
    hidden.data_location = TensorProto.EXTERNAL
    constant = helper.make_node("Constant", [], ["c"], value=hidden)
    inner = helper.make_graph([constant], "inner", [], [helper.make_tensor_value_info("c", TensorProto.FLOAT, (1,))])
    branch = helper.make_node("If", ["flag"], ["y"], then_branch=inner, else_branch=inner)
    for node in (constant, branch):
        with pytest.raises(PolicyError, match="external data for 'hidden'"):
            load_policy(saved(tmp_path, graph_bytes(nodes=[node])))


def test_other_dimensions_are_refused(tmp_path):
    """A policy for other observations or actions than wanted is refused with both numbers."""
    path = saved(tmp_path, graph_bytes())
    with pytest.raises(PolicyError, match=rf"expected 11 observation channels, got a policy for {D}"):
        load_policy(path, observation_dim=11)
    with pytest.raises(PolicyError, match=f"expected 2 action channels, got a policy for {A}"):
        load_policy(path, action_dim=2)
    with pytest.raises(PolicyError, match=rf"expected observations of shape \(B, {D}\), got \(2, 4\)"):
        load_policy(path)(np.zeros((2, 4), np.float32))
    with pytest.raises(PolicyError, match="expected finite observations"):
        load_policy(path)(np.full((2, D), np.nan, np.float32))


def test_open_dimensions_need_saying(tmp_path):
    """A file that leaves its number of channels open loads when told, and says what is missing when not."""
    path = saved(tmp_path, graph_bytes(shape_in=("batch", "d"), shape_out=("batch", "a")))
    with pytest.raises(PolicyError, match="pass observation_dim"):
        load_policy(path)
    assert load_policy(path, observation_dim=D, action_dim=A).action_dim == A


def test_rounding_is_cut_and_more_is_not(tmp_path):
    """Actions a rounding error beyond the bound come back inside; further out they are an error."""
    bias = helper.make_node("Constant", [], ["one"], value_floats=[1.0 + 5e-5] * A)
    nodes = [
        bias,
        helper.make_node("MatMul", ["x", "weight"], ["z"]),
        helper.make_node("Add", ["z", "one"], ["y"]),
    ]
    policy = load_policy(saved(tmp_path, graph_bytes(np.zeros((D, A), np.float32), nodes=nodes)))
    assert (policy(observations()) == 1).all()
    tilt = load_policy(saved(tmp_path, graph_bytes(np.full((D, A), 0.3, np.float32))))
    with pytest.raises(PolicyError, match=r"got values from 1\.8 to 1\.8; scale or clip them"):
        tilt(np.ones((2, D), np.float32))


def test_a_file_too_large_is_not_read(tmp_path):
    """A file beyond 64 MiB is refused by its size."""
    path = tmp_path / "policy.onnx"
    with path.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(PolicyError, match="expected at most 67,108,864 bytes, got 67,108,865"):
        load_policy(path)


def test_what_is_not_there_cannot_be_loaded(tmp_path):
    """A missing file and a folder are one line each."""
    with pytest.raises(PolicyError, match="No such file"):
        load_policy(tmp_path / "none.onnx")
    with pytest.raises(PolicyError, match="got a folder"):
        load_policy(tmp_path)


def test_another_version_says_so(tmp_path):
    """A file of a newer schema gives a version message, not a KeyError (case 24)."""
    path = saved(tmp_path, graph_bytes(metadata=json.dumps({"schema": 99})))
    with pytest.raises(VersionError, match="expected schema 1, got 99"):
        load_policy(path)


def test_a_module_that_draws_is_not_exported(tmp_path):
    """A module that acts otherwise each time it is asked is found out after export."""

    class Drawing(torch.nn.Module):
        def forward(self, x):
            return torch.rand(x.shape[0], A)  # never the same twice

    with pytest.raises(PolicyError, match="expected the exported file to act as the module"):
        export_policy(Drawing(), tmp_path / "policy.onnx", sample=observations(), box=UNIT, metadata={})


def test_a_module_of_another_width_is_not_exported(tmp_path):
    """A module with another number of actions is refused with both shapes."""
    module = torch.nn.Linear(D, A + 2)
    with pytest.raises(PolicyError, match=r"expected actions of shape \(40, 3\), got \(40, 5\)"):
        export_policy(module, tmp_path / "policy.onnx", sample=observations(), box=UNIT, metadata={})
    assert not (tmp_path / "policy.onnx").exists()


def test_a_module_torch_cannot_export_is_one_line(tmp_path):
    """Control flow on values, which no graph has, is refused in one line."""

    class Branching(torch.nn.Module):
        def forward(self, x):
            return torch.zeros(x.shape[0], A) if x.sum() > 0 else torch.ones(x.shape[0], A)

    with pytest.raises(PolicyError, match="torch can't export this module to ONNX") as caught:
        export_policy(Branching(), tmp_path / "policy.onnx", sample=observations(), box=UNIT, metadata={})
    assert "\n" not in str(caught.value)


def test_weights_are_stored_in_the_file(tmp_path):
    """The file has its weights inside: no external data for any size of network."""
    trainer = small_trainer("bc", hidden_units=(256, 256))
    export(trainer, tmp_path / "policy.onnx")
    model = onnx.load(tmp_path / "policy.onnx", load_external_data=False)
    assert all(t.data_location == TensorProto.DEFAULT for t in model.graph.initializer)
    assert [p.name for p in tmp_path.iterdir() if p.is_file()] == ["policy.onnx"]
