"""Write a torch module as a policy file."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from smeoffline.data.action_box import ActionBox
from smeoffline.data.policy_file import METADATA_KEY, SCHEMA, OnnxPolicy, load_policy
from smeoffline.errors import PolicyError
from smeoffline.sme.arrays import Floats
from smeoffline.train.files import write_atomically
from smeoffline.train.trainer import one_thread

OPSET = 20
AGREEMENT = 1e-5  # of the action space's range, between the module and its file
TIES = 0.1  # of the rows may differ: a policy that takes the best of candidates may break a tie the other way
TRIAL_ROWS = 64
INPUTS, OUTPUTS = ["observations"], ["actions"]


def export_policy(
    module: nn.Module,
    path: Path,
    *,
    sample: Floats,
    box: ActionBox,
    metadata: Mapping[str, Any],
    straight: bool = False,
) -> OnnxPolicy:
    """Write a module as ONNX with dynamic batch, then load it again and compare.

    Args:
        module: From observations (B, D) to actions (B, A), both float32.
        path: The file; an existing one is replaced in one step.
        sample: (n, D) observations to compare on.
        box: The action space.
        metadata: JSON values to write into the file.
        straight: The module has no control flow that depends on values; exporting takes 0.02 s, not 1 s.

    Returns:
        The policy, as loaded from the file.

    Raises:
        PolicyError: The module can't be exported, or its file acts differently.
    """
    rows = np.ascontiguousarray(sample[:TRIAL_ROWS], np.float32)
    rows = np.concatenate([rows, rows]) if len(rows) == 1 else rows  # one row would be taken for a constant
    module.eval()
    with one_thread(), torch.no_grad():
        expected = module(torch.from_numpy(rows))
        if not isinstance(expected, torch.Tensor) or expected.shape != (len(rows), len(box.low)):
            got = tuple(expected.shape) if isinstance(expected, torch.Tensor) else type(expected).__name__
            raise PolicyError(f"policy: expected actions of shape {(len(rows), len(box.low))}, got {got}")
        convert = _traced if straight else _exported
        try:
            with _quiet():
                model = convert(module, torch.from_numpy(rows))
        # the exporters raise what their many stages raise
        except Exception as error:
            line = next(iter(str(error).strip().splitlines()), type(error).__name__)
            raise PolicyError(f"policy: torch can't export this module to ONNX: {line}") from error
    _forget_sources(model.graph)
    _declare_shape(model.graph.output[0], len(box.low))
    bounds = {"action_low": list(box.low), "action_high": list(box.high)}
    text = json.dumps({"schema": SCHEMA, **metadata, **bounds}, sort_keys=True)
    model.metadata_props.add(key=METADATA_KEY, value=text)
    write_atomically(path, model.SerializeToString())
    policy = load_policy(path, observation_dim=rows.shape[1], action_dim=len(box.low))
    check_agreement(policy, rows, expected.numpy())
    return policy


def _exported(module: nn.Module, rows: torch.Tensor) -> Any:
    """Any module as an ONNX model, by torch's exporter, which refuses what a graph can't express."""
    program = torch.onnx.export(
        module,
        (rows,),
        input_names=INPUTS,
        output_names=OUTPUTS,
        opset_version=OPSET,
        dynamo=True,
        dynamic_shapes=({0: torch.export.Dim("batch")},),
        verbose=False,
    )
    return cast(torch.onnx.ONNXProgram, program).model_proto  # as every export to memory has it


def _traced(module: nn.Module, rows: torch.Tensor) -> Any:
    """A straight module as an ONNX model, by running it once; torch calls this way deprecated."""
    import onnx

    buffer = io.BytesIO()
    batch = {0: "batch"}
    torch.onnx.export(
        module,
        (rows,),
        buffer,  # type: ignore[arg-type]  # the deprecated way takes files in memory
        input_names=INPUTS,
        output_names=OUTPUTS,
        opset_version=OPSET,
        dynamo=False,
        dynamic_axes={INPUTS[0]: batch, OUTPUTS[0]: batch},
    )
    return onnx.load_model_from_string(buffer.getvalue())


def _declare_shape(value: Any, channels: int) -> None:
    """Declare (batch, channels), which the exporters' shape inference may lose on the way."""
    shape = value.type.tensor_type.shape
    shape.ClearField("dim")
    shape.dim.add(dim_param="batch")
    shape.dim.add(dim_value=channels)


def _forget_sources(graph: Any) -> None:
    """Drop stack traces and names of Python code; they hold paths of this machine and triple a small file."""
    for part in [graph, *graph.node, *graph.input, *graph.output, *graph.value_info, *graph.initializer]:
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's progress, warnings and missing-torchvision notes off the user's screen."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def check_agreement(policy: OnnxPolicy, rows: Floats, expected: Floats) -> None:
    """Refuse a file that acts differently from what it was made from."""
    low, high = np.asarray(policy.box.low, np.float32), np.asarray(policy.box.high, np.float32)
    differences = np.abs((policy(rows) - np.clip(expected, low, high)) / (high - low)).max(axis=1)
    differ = float(np.mean(~(differences <= AGREEMENT)))
    if differ > TIES:
        raise PolicyError(
            f"policy {policy.path}: expected the exported file to act as the module within {AGREEMENT:g}, "
            f"got up to {float(differences.max()):g} off in {differ:.0%} of rows; does it mix rows?"
        )
