"""Your own algorithm: any `train(data, *, seed, steps)` that returns a policy.

    def train(data: Transitions, *, seed: int, steps: int) -> Policy: ...

Named `module:function`, where the module is found as `python -m` finds it: the current folder first, then
what is installed. The folder is put on `sys.path` and stays there, as gunicorn and uvicorn do it, so that
the module may import its neighbors later too.

What it returns decides what a run keeps:

- a `torch.nn.Module` from observations (B, D) to actions (B, A), float32 tensors, goes to `policy.onnx`;
- an object with `to_onnx(path)` writes that file itself (scikit-learn and JAX have exporters to do it with);
- any other callable, numpy arrays in and out, can't be written to a file without running a stranger's pickle
  later: it is handed back as it is, to be evaluated now, by the process that trained it.

torch's global generator is seeded with `seed` around the call, and put back.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data.action_box import ActionBox
from smeoffline.data.policy_file import checked_actions, load_policy
from smeoffline.errors import PolicyError, SpecError, nearest
from smeoffline.sme.arrays import Floats
from smeoffline.train.transitions import Policy, Transitions

SIGNATURE = "train(data, *, seed, steps)"
TRIAL_ROWS = 64

Train = Callable[..., Any]


def find_train(name: str) -> Train:
    """The function that `module:function` names.

    Raises:
        SpecError: The form, the module, the attribute or its signature is wrong, or the import fails.
    """
    module_name, colon, attribute = name.partition(":")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *attribute.split(".")]):
        raise SpecError(f"algorithm: expected module:function, as in my_algorithms.awr:train, got {name!r}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    importlib.invalidate_caches()
    module = _import(name, module_name)
    found: Any = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            known = [n for n in dir(found) if not n.startswith("_")]
            raise SpecError(f"algorithm {name!r}: {module_name} has no {attribute!r}{nearest(part, known)}")
        found = getattr(found, part)
    check_signature(name, found)
    train: Train = found
    return train


def _import(name: str, module_name: str) -> Any:
    """Import a user's module."""
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise SpecError(f"algorithm {name!r}: importing {module_name} failed: {error}") from error
        near = nearest(module_name.split(".")[0], [p.stem for p in Path.cwd().glob("*.py")])
        raise SpecError(
            f"algorithm {name!r}: no module {error.name!r} in {Path.cwd()} or among installed packages{near}"
        ) from error
    # a stranger's module may fail in any way while it is imported
    except (Exception, SystemExit) as error:
        raise SpecError(
            f"algorithm {name!r}: importing {module_name} failed: {type(error).__name__}: {error}"
        ) from error


def check_signature(name: str, train: Any) -> None:
    """Refuse what can't be called as `train(data, seed=0, steps=1)`.

    Raises:
        SpecError: It isn't callable, or takes other arguments.
    """
    if not callable(train):
        raise SpecError(f"algorithm {name!r}: expected a function {SIGNATURE}, got {type(train).__name__}")
    try:
        signature = inspect.signature(train)
    except (TypeError, ValueError):
        return  # written in C without a text signature: calling will tell
    try:
        signature.bind(object(), seed=0, steps=1)
    except TypeError as error:
        raise SpecError(f"algorithm {name!r}: expected {SIGNATURE}, got {signature} ({error})") from error


def name_of(train: Train) -> str:
    """`module:function` of a callable."""
    kind = train if hasattr(train, "__qualname__") else type(train)
    return f"{kind.__module__}:{kind.__qualname__}"


def run_train(train: Train, data: Transitions, box: ActionBox, *, seed: int, steps: int) -> tuple[Policy, Any]:
    """Call a user's algorithm and check what it returns.

    Returns:
        The policy, numpy in and out and checked at every call; and the object that was returned.

    Raises:
        PolicyError: It is no policy: not callable, or wrong shapes, values that aren't finite or lie outside.
    """
    from smeoffline.train.trainer import TorchStream

    stream = TorchStream(seed)
    with stream.use():
        returned = train(data, seed=seed, steps=steps)
    policy = as_policy(name_of(train), returned, box)
    policy(data.observations[:TRIAL_ROWS])
    return policy, returned


def as_policy(name: str, returned: Any, box: ActionBox) -> Policy:
    """What a user's algorithm returned, as a checked function of arrays."""
    import torch

    from smeoffline.train.trainer import one_thread

    who = f"policy of {name}"
    if not callable(returned):
        raise PolicyError(
            f"{who}: expected a callable from observations to actions or a torch.nn.Module, got "
            f"{type(returned).__name__}; return it from train"
        )
    if isinstance(returned, torch.nn.Module):
        returned.eval()

    def ask(observations: Floats) -> Any:
        if not isinstance(returned, torch.nn.Module):
            return returned(observations)
        with one_thread(), torch.no_grad():
            actions = returned(torch.from_numpy(observations))
        return actions.numpy() if isinstance(actions, torch.Tensor) else actions

    def policy(observations: Floats, /) -> Floats:
        rows = np.ascontiguousarray(observations, np.float32)
        return checked_actions(who, ask(rows), (len(rows), len(box.low)), box)

    return policy


def save_policy(returned: Any, path: Path, *, sample: Floats, box: ActionBox, metadata: dict[str, Any]) -> bool:
    """Write a user's policy as ONNX, if it is of a kind that can be.

    Args:
        returned: What `train` returned.
        path: The file.
        sample: (n, D) observations to try it on.
        box: The action space.
        metadata: JSON values for the file of a torch module.

    Returns:
        Whether it was written.

    Raises:
        PolicyError: It can't be exported, its `to_onnx` raised, or its file does not act as it does.
    """
    import torch

    from smeoffline.train.export import check_agreement, export_policy

    if isinstance(returned, torch.nn.Module):
        export_policy(returned, path, sample=sample, box=box, metadata=metadata)
        return True
    if not callable(getattr(returned, "to_onnx", None)):
        return False
    # a stranger's exporter may fail in any way
    try:
        returned.to_onnx(path)
    except Exception as error:
        raise PolicyError(f"policy: its to_onnx raised {type(error).__name__}: {error}") from error
    policy = load_policy(path, observation_dim=sample.shape[1], action_dim=len(box.low))
    check_agreement(policy, sample[:TRIAL_ROWS], np.asarray(returned(sample[:TRIAL_ROWS])))
    return True
