"""The contracts of policies and algorithms, as checks to run on your own.

    from smeoffline.train.conformance import check_algorithm, check_policy

    def test_my_algorithm():
        check_algorithm(my_package.train)

Each raises AssertionError with one line that says what was expected and what was found.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import SmeofflineError
from smeoffline.sme.arrays import Floats
from smeoffline.train.own import as_policy, check_signature, name_of
from smeoffline.train.transitions import Transitions

ROWS = 32
SAME = 1e-5  # what the same row may differ by in another batch: other shapes round differently


def check_policy(policy: Any, observation_dim: int, action_dim: int, *, seed: int = 0) -> None:
    """Check that a policy is a deterministic function of observations, row by row.

    Args:
        policy: A callable on arrays, or a torch.nn.Module.
        observation_dim: D = N_s + 2.
        action_dim: A = N_a.
        seed: Draws the observations it is tried on, inside the cube and outside.

    Raises:
        AssertionError: Another shape or type, values that are not finite or not in [0, 1], another answer to
            the same question, an answer that depends on the batch around it, observations written to, or a
            module that can't be exported.
    """
    rng = np.random.default_rng(seed)
    rows = rng.random((ROWS, observation_dim), dtype=np.float32)
    rows[ROWS // 2 :] = 3 * rows[ROWS // 2 :] - 1  # probes lie outside the cube too
    box = ActionBox.unit(action_dim)
    ask = _asserting(lambda: as_policy("check_policy", policy, box))
    given = rows.copy()
    first = _asserting(lambda: ask(given))
    _check(
        np.array_equal(given, rows),
        "policy: expected it to leave the observations as they are, got them changed",
    )
    again = _asserting(lambda: ask(rows.copy()))
    _check(
        np.array_equal(first, again),
        f"policy: expected the same actions for the same observations, got up to {_gap(first, again):g} "
        "apart; a policy is deterministic (freeze its noise)",
    )
    alone = _asserting(lambda: np.concatenate([ask(row[np.newaxis].copy()) for row in rows]))
    _check_export(policy, rows, box)
    _check(
        _gap(first, alone) <= SAME,
        f"policy: expected an action to depend on its own row alone, got up to {_gap(first, alone):g} apart "
        "between a batch and single rows",
    )


def _check_export(policy: Any, rows: Floats, box: ActionBox) -> None:
    """Check that a torch module can be exported, which a run would find out only after training."""
    import torch

    from smeoffline.train.export import export_policy

    if isinstance(policy, torch.nn.Module):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "policy.onnx"
            _asserting(lambda: export_policy(policy, path, sample=rows, box=box, metadata={}))


def check_algorithm(
    train: Callable[..., Any], *, observation_dim: int = 6, action_dim: int = 3, steps: int = 3, seed: int = 0
) -> None:
    """Check that an algorithm can be benchmarked: its signature, its policy, its determinism.

    Args:
        train: `train(data, *, seed, steps)`.
        observation_dim: D of the small dataset it is tried on.
        action_dim: A.
        steps: How many it is asked for.
        seed: Draws the dataset.

    Raises:
        AssertionError: Another signature, a policy that breaks `check_policy`, other results from the same
            data, seed and steps, or data written to.
    """
    from smeoffline.train.trainer import TorchStream

    _asserting(lambda: check_signature(name_of(train), train))
    data = small_dataset(observation_dim, action_dim, seed)
    before = {f.name: getattr(data, f.name).copy() for f in fields(data)}
    answers = []
    for _ in range(2):
        with TorchStream(0).use():  # as a run does it
            policy = train(data, seed=0, steps=steps)
        changed = [name for name, values in before.items() if not np.array_equal(values, getattr(data, name))]
        _check(
            not changed,
            f"algorithm: expected it to leave the data as they are, got {', '.join(changed)} changed",
        )
        check_policy(policy, observation_dim, action_dim)
        answers.append(as_policy("check_algorithm", policy, ActionBox.unit(action_dim))(data.observations))
    _check(
        np.array_equal(answers[0], answers[1]),
        f"algorithm: expected the same policy from the same data, seed and steps, got actions up to "
        f"{_gap(answers[0], answers[1]):g} apart; draw everything from seed",
    )


def small_dataset(observation_dim: int = 6, action_dim: int = 3, seed: int = 0) -> Transitions:
    """Five episodes of 20, 20, 20, 7 and 1 steps, the last two of which terminated."""
    lengths = np.array([20, 20, 20, 7, 1])
    rng = np.random.default_rng(seed)
    n, rows = int(lengths.sum()), np.arange(int(lengths.sum())) + np.repeat(np.arange(len(lengths)), lengths)
    states = rng.random((n + len(lengths), observation_dim), dtype=np.float32)
    last = np.cumsum(lengths) - 1
    terminals, timeouts = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    terminals[last[3:]], timeouts[last[:3]] = True, True
    return Transitions(
        observations=states[rows],
        actions=rng.random((n, action_dim), dtype=np.float32),
        rewards=rng.random(n, dtype=np.float32),
        next_observations=states[rows + 1],
        terminals=terminals,
        timeouts=timeouts,
        episodes=np.repeat(np.arange(len(lengths)), lengths),
    )


def _asserting(call: Callable[[], Any]) -> Any:
    """The result of a call whose expected failures become failed assertions."""
    try:
        return call()
    except SmeofflineError as error:
        raise AssertionError(str(error)) from error


def _check(holds: bool, message: str) -> None:
    """`assert` that `python -O` keeps."""
    if not holds:
        raise AssertionError(message)


def _gap(one: Floats, other: Floats) -> float:
    """The largest difference."""
    return float(np.abs(one - other).max())
