from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smeoffline.errors import SmeofflineError, SpecError
from smeoffline.sme.task import SEED_LIMIT, Task

WHOLE = {
    "state_dim": (1, 1024),
    "action_dim": (1, 1024),
    "complexity": (1, 1000),
    "episode_length": (1, 100_000),
    "reward_every": (1, 100_000),
    "seed": (0, SEED_LIMIT - 1),
}
# name: (highest allowed value, lowest refused value above it)
REAL = {
    "min_reward": (np.nextafter(1.0, 0.0), 1.0),
    "kill_threshold": (1.0, np.nextafter(1.0, 2.0)),
    "shaping": (1000.0, 1000.5),
    "discount": (np.nextafter(1.0, 0.0), 1.0),
}
NAN, INF = float("nan"), float("inf")
NEITHER = [NAN, INF, -INF, True, False, np.True_, "1", "0.5", b"0", "", None, [1], {}, 1j]

tasks = st.builds(
    Task,
    **{name: st.integers(low, high) for name, (low, high) in WHOLE.items()},
    **{name: st.floats(0.0, float(high)) for name, (high, _) in REAL.items()},
)


def refusal(name: str, value: object) -> str:
    """The text of the error that `value` for the field `name` must raise."""
    with pytest.raises(SpecError) as caught:
        Task(**{name: value})
    return str(caught.value)


def test_every_field_is_covered_by_the_tables_of_this_file():
    """A field added to Task without a test of its range fails here."""
    assert {*WHOLE, *REAL} == {f.name for f in dataclasses.fields(Task)}


@pytest.mark.parametrize("name", WHOLE)
def test_whole_numbers_hold_their_range(name):
    """Both ends of a whole-number field's range are allowed, and the next number beyond each is refused."""
    low, high = WHOLE[name]
    assert getattr(Task(**{name: low}), name) == low
    assert getattr(Task(**{name: high}), name) == high
    for value in (low - 1, -5, high + 1, 10**30):
        text = refusal(name, value)
        assert name in text
        assert str(value) in text
        assert f"[{low}, {high}]" in text


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("value", [*NEITHER, 1.0, 2.5, np.float32(3)], ids=repr)
def test_whole_numbers_refuse_other_types(name, value):
    """A whole-number field takes no float, bool, text or missing value; the one-line error names it."""
    text = refusal(name, value)
    assert text.startswith(f"task: {name} ")
    assert repr(value) in text
    assert "\n" not in text


@pytest.mark.parametrize("name", REAL)
def test_real_numbers_hold_their_range(name):
    """Both ends of a real field's range are allowed, and the next number beyond each is refused."""
    high, beyond = REAL[name]
    assert getattr(Task(**{name: 0.0}), name) == 0.0
    assert getattr(Task(**{name: high}), name) == high
    for value in (beyond, np.nextafter(0.0, -1.0), -0.5, 1e30):
        text = refusal(name, value)
        assert text.startswith(f"task: {name} ")
        assert repr(float(value)) in text


@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("value", [*NEITHER, 10**400, np.float64("nan")], ids=lambda v: repr(v)[:12])
def test_real_numbers_refuse_nan_infinity_and_other_types(name, value):
    """A real field takes no NaN, infinity, bool, text or missing value; the one-line error names it."""
    text = refusal(name, value)
    assert text.startswith(f"task: {name} must be a number in [0, ")
    assert "got" in text
    assert "\n" not in text


def test_an_error_of_a_task_is_caught_as_ours_and_as_a_value_error():
    """SpecError is both a SmeofflineError (for our command line) and a ValueError (for everybody else)."""
    with pytest.raises(SmeofflineError):
        Task(complexity=0)
    with pytest.raises(ValueError, match="complexity"):
        Task(complexity=0)


def test_numbers_are_normalized_so_that_equal_tasks_are_equal():
    """Numpy numbers, fractions and negative zero become plain Python values: equal, same hash, same JSON."""
    given_task = Task(
        state_dim=np.int64(8),
        seed=np.uint32(1),
        min_reward=-0.0,
        shaping=np.float32(0.5),
        discount=Fraction(1, 2),
    )
    plain = Task(shaping=0.5, discount=0.5)
    assert given_task == plain
    assert hash(given_task) == hash(plain)
    assert json.dumps(given_task.to_dict()) == json.dumps(plain.to_dict())
    assert all(type(value) in (int, float) for value in given_task.to_dict().values())


def test_a_task_cannot_be_changed():
    """A task is frozen: assigning to a field raises, and the field keeps its value."""
    task = Task()
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.seed = 2
    assert task.seed == 1


def test_defaults_are_the_documented_ones():
    """The defaults are those that dataset ids leave out, so changing one would rename every dataset."""
    assert Task().to_dict() == {
        "state_dim": 8,
        "action_dim": 4,
        "complexity": 1,
        "episode_length": 100,
        "reward_every": 1,
        "min_reward": 0.0,
        "kill_threshold": 0.0,
        "shaping": 0.0,
        "discount": 0.99,
        "seed": 1,
    }


@given(tasks)
def test_json_round_trip(task):
    """Any task survives JSON unchanged, to the last bit of every float."""
    back = Task.from_dict(json.loads(json.dumps(task.to_dict(), allow_nan=False)))
    assert back == task
    assert back.to_dict() == task.to_dict()


def test_fields_left_out_take_their_defaults():
    """`from_dict` of a part of the fields is the task of those fields."""
    assert Task.from_dict({}) == Task()
    assert Task.from_dict({"complexity": 50, "seed": 0}) == Task(complexity=50, seed=0)


@pytest.mark.parametrize("name", [*WHOLE, *REAL])
def test_an_unknown_key_names_the_nearest_field(name):
    """A misspelled key is refused, and the error names it and the field that was meant."""
    misspelled = name.replace("_", "-") + "s"
    with pytest.raises(SpecError) as caught:
        Task.from_dict({misspelled: 1})
    assert f"unknown key {misspelled!r}" in str(caught.value)
    assert f"did you mean {name!r}?" in str(caught.value)


def test_an_unknown_key_near_to_nothing_lists_what_there_is():
    """A key near no field gets no guess, and the list of the fields."""
    with pytest.raises(SpecError) as caught:
        Task.from_dict({"zzz": 1})
    assert "did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in [*WHOLE, *REAL])


@pytest.mark.parametrize("value", [None, [], "task", 3, [("seed", 1)]], ids=repr)
def test_only_a_table_is_a_task(value):
    """`from_dict` of something that is no mapping is a SpecError, not a traceback."""
    with pytest.raises(SpecError, match="task: expected a table"):
        Task.from_dict(value)


def test_a_spec_alone_does_not_import_torch():
    """Making and checking a Task loads no torch, so commands that only read specs start fast."""
    program = "import sys; from smeoffline.sme.task import Task; Task(); sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
