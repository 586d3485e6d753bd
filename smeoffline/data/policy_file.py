"""Policies in files: ONNX, loaded by onnxruntime, and nothing that could run code of a stranger.

A policy file is one graph from observations (B, D) to actions (B, A), float32, any batch size. Before
onnxruntime sees a file it is checked for size, for being ONNX at all, and for tensors that point outside
(external data), so that opening one reads this one file, bounded, and executes nothing but its graph.

Actions must be finite and inside the action space: the box in the file's metadata if this package wrote it,
else [0, 1]. Rounding beyond a bound (1e-4 of the range) is cut; more is an error, never clipped in silence:
a policy that forgot its scaling should not score as a clipped one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import PolicyError, TrainingError, VersionError
from smeoffline.sme.arrays import Floats
from smeoffline.sme.cores import default_workers

MAX_BYTES = 64 * 2**20
CHUNK = 1024  # rows at once: a policy that compares 100 candidates a row needs 100 MiB for them
ROUNDING = 1e-4  # of the range
METADATA_KEY = "smeoffline"
SCHEMA = 1
NOT_ONNX = {
    b"PK\x03\x04": "a zip archive, as torch.save writes it",
    b"\x80": "a pickle",
    b"\x89HDF": "HDF5",
    b"{": "JSON",
}


@dataclass(frozen=True)
class OnnxPolicy:
    """A policy from a file; call it with observations (B, D) float32 for actions (B, A) float32.

    Attributes:
        path: Where it came from.
        observation_dim: D.
        action_dim: A.
        box: The action space.
        metadata: What this package wrote into the file: algorithm, frozen noise, versions; {} if another did.
    """

    path: Path
    observation_dim: int
    action_dim: int
    box: ActionBox
    metadata: dict[str, Any]
    _run: Callable[[Floats], Any]

    def __call__(self, observations: Floats, /) -> Floats:
        """Act on each row.

        Raises:
            PolicyError: The observations have another shape or are not finite, or the actions have another
                shape, are not finite or lie outside the action space.
        """
        rows = np.ascontiguousarray(observations, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.observation_dim:
            raise PolicyError(
                f"policy {self.path}: expected observations of shape (B, {self.observation_dim}), got {rows.shape}"
            )
        if not np.isfinite(rows).all():
            raise PolicyError(f"policy {self.path}: expected finite observations, got NaN or infinity")
        chunks = [rows[i : i + CHUNK] for i in range(0, len(rows), CHUNK)]
        if len(chunks) > 1:  # a session may run in several threads at once, and is held to one for each run
            with ThreadPoolExecutor(min(len(chunks), default_workers())) as pool:
                parts = list(pool.map(self._act, chunks))
        else:
            parts = [self._act(chunk) for chunk in chunks]
        return np.concatenate([np.empty((0, self.action_dim), np.float32), *parts])

    def _act(self, rows: Floats) -> Floats:
        actions = self._run(rows)
        return checked_actions(f"policy {self.path}", actions, (len(rows), self.action_dim), self.box)


def checked_actions(who: str, actions: Any, shape: tuple[int, int], box: ActionBox) -> Floats:
    """Actions as float32 inside the box.

    Args:
        who: Whose actions, for the message.
        actions: What was returned.
        shape: (B, A).
        box: The action space.

    Raises:
        PolicyError: Another shape, not finite, or outside by more than rounding.
    """
    array = np.asarray(actions)
    if array.shape != shape:
        raise PolicyError(f"{who}: expected actions of shape {shape}, got {array.shape}")
    if array.dtype.kind not in "fiu":
        raise PolicyError(f"{who}: expected actions as numbers, got {array.dtype} values")
    bad = int((~np.isfinite(array)).any(axis=1).sum())
    if bad:
        raise PolicyError(f"{who}: expected finite actions, got NaN or infinity in {bad:,} of {len(array):,} rows")
    low, high = np.asarray(box.low, np.float32), np.asarray(box.high, np.float32)
    slack = ROUNDING * (high - low)
    if (array < low - slack).any() or (array > high + slack).any():
        raise PolicyError(
            f"{who}: expected actions in [{min(box.low):g}, {max(box.high):g}], got values from "
            f"{float(array.min()):g} to {float(array.max()):g}; scale or clip them in the policy"
        )
    return np.clip(array.astype(np.float32), low, high)


def load_policy(path: str | Path, *, observation_dim: int | None = None, action_dim: int | None = None) -> OnnxPolicy:
    """Load a policy from an ONNX file.

    Args:
        path: The file.
        observation_dim: D it must take; None for whatever it says.
        action_dim: A it must return; None for whatever it says.

    Raises:
        PolicyError: No such file, too large, not ONNX (a pickle or torch file is recognized, never opened),
            external data, other inputs or outputs, other dimensions, or it fails on a trial batch.
        VersionError: It was written by a version of this package whose files this one does not read.
    """
    path = Path(path)
    data = read_bounded(path)
    model = _parse(path, data)
    metadata = _metadata(path, model)
    run = _session(path, data)
    inputs, outputs = list(model.graph.input), list(model.graph.output)
    initializers = {tensor.name for tensor in model.graph.initializer}
    inputs = [i for i in inputs if i.name not in initializers]
    if len(inputs) != 1 or len(outputs) != 1:
        raise PolicyError(
            f"policy {path}: expected one input (observations) and one output (actions), got {len(inputs)} "
            f"and {len(outputs)}"
        )
    stated_d, stated_a = _width(path, inputs[0], "input"), _width(path, outputs[0], "output")
    observation_dim = _agreed(path, "observation", stated_d, observation_dim)
    action_dim = _agreed(path, "action", stated_a, action_dim)
    box = _box(path, metadata, action_dim)
    policy = OnnxPolicy(path, observation_dim, action_dim, box, metadata, run)
    for rows in (1, 3):
        policy(np.full((rows, observation_dim), 0.5, np.float32))
    return policy


def read_bounded(path: Path) -> bytes:
    """The file's bytes, if it can be a policy at all."""
    try:
        size = path.stat().st_size
        if path.is_file() and size <= MAX_BYTES:
            data = path.read_bytes()
        elif path.is_file():
            raise PolicyError(f"policy {path}: expected at most {MAX_BYTES:,} bytes, got {size:,}")
        else:
            raise PolicyError(f"policy {path}: expected an ONNX file, got a folder or device")
    except OSError as error:
        raise PolicyError(f"policy {path}: can't be read: {error.strerror or error}") from error
    for start, kind in NOT_ONNX.items():
        if data.startswith(start):
            raise PolicyError(f"policy {path}: expected an ONNX file, got {kind}, which is not opened; export to ONNX")
    return data


def _parse(path: Path, data: bytes) -> Any:
    """The file as an ONNX model with no tensors outside it."""
    import onnx

    # which exceptions the parser raises depends on its build
    try:
        model = onnx.load_model_from_string(data)
    except Exception as error:
        raise PolicyError(f"policy {path}: expected an ONNX file, got something else or a damaged one") from error
    if not model.graph.node or not model.opset_import:
        raise PolicyError(f"policy {path}: expected an ONNX file with a graph, got one without")
    outside = next((t for t in _tensors(model) if t.data_location == onnx.TensorProto.EXTERNAL), None)
    if outside is not None:
        raise PolicyError(
            f"policy {path}: expected all weights inside the file, got external data for {outside.name!r}; "
            "save it as one file"
        )
    return model


def _tensors(message: Any) -> Iterator[Any]:
    """Every TensorProto inside a message: initializers, constants, attributes, subgraphs, functions."""
    if message.DESCRIPTOR.name == "TensorProto":
        yield message
        return
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if hasattr(value, "__len__") and not hasattr(value, "DESCRIPTOR") else [value]:
                if hasattr(part, "ListFields"):
                    yield from _tensors(part)


def _session(path: Path, data: bytes) -> Callable[[Floats], Any]:
    """A function that runs the graph: one thread, CPU, nothing printed."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    options.enable_mem_pattern = False
    # onnxruntime raises a class of its own for each kind of fault, all of them plain Exceptions
    try:
        session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise PolicyError(f"policy {path}: onnxruntime can't load it: {_line(error)}") from error
    quiet = onnxruntime.RunOptions()
    quiet.log_severity_level = 4

    def run(rows: Floats) -> Any:
        try:
            return session.run(None, {session.get_inputs()[0].name: rows}, quiet)[0]
        except Exception as error:
            raise PolicyError(f"policy {path}: failed on {len(rows)} observations: {_line(error)}") from error

    return run


def _line(error: Exception) -> str:
    """An error of onnxruntime as one line of bounded length."""
    return " ".join(str(error).split())[:200]


def _width(path: Path, value: Any, side: str) -> int | None:
    """The number of channels of an input or output (batch, channels); None where the file leaves it open."""
    import onnx

    tensor = value.type.tensor_type
    dims = list(tensor.shape.dim)
    if tensor.elem_type != onnx.TensorProto.FLOAT or (tensor.HasField("shape") and len(dims) != 2):
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        raise PolicyError(
            f"policy {path}: expected {side} of shape (batch, channels) and type float, got {len(dims)} "
            f"dimensions of {kind}"
        )
    if not dims:
        return None
    if dims[0].HasField("dim_value") and dims[0].dim_value != 0:
        raise PolicyError(
            f"policy {path}: expected {side} of any batch size, got a fixed size of {dims[0].dim_value}; "
            "export with a dynamic batch"
        )
    return int(dims[1].dim_value) if dims[1].dim_value > 0 else None


def _agreed(path: Path, what: str, stated: int | None, wanted: int | None) -> int:
    """A dimension that the file and the caller agree on."""
    if stated is not None and wanted is not None and stated != wanted:
        raise PolicyError(f"policy {path}: expected {wanted} {what} channels, got a policy for {stated}")
    found = stated if stated is not None else wanted
    if found is None:
        raise PolicyError(f"policy {path}: doesn't say how many {what} channels it has; pass {what}_dim")
    return found


def _metadata(path: Path, model: Any) -> dict[str, Any]:
    """What this package wrote into the file; {} for a stranger's."""
    text = next((p.value for p in model.metadata_props if p.key == METADATA_KEY), None)
    if text is None:
        return {}
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"policy {path}: its metadata {METADATA_KEY!r} is not JSON; export it again") from error
    schema = found.get("schema") if isinstance(found, dict) else None
    if schema != SCHEMA:
        raise VersionError(f"policy {path}: expected schema {SCHEMA}, got {schema!r}; train it again or update")
    return dict(found)


def _box(path: Path, metadata: dict[str, Any], action_dim: int) -> ActionBox:
    """The action space from the metadata, else [0, 1]."""
    if "action_low" not in metadata:
        return ActionBox.unit(action_dim)
    try:
        box = ActionBox(tuple(map(float, metadata["action_low"])), tuple(map(float, metadata["action_high"])))
    except (KeyError, TypeError, ValueError, OverflowError, TrainingError) as error:
        raise PolicyError(f"policy {path}: its metadata has unusable action bounds; export it again") from error
    if len(box.low) != action_dim:
        raise PolicyError(f"policy {path}: expected bounds for {action_dim} action channels, got {len(box.low)}")
    return box
