"""A result depends on the task and the row alone: not on batch, threads, process or any global state."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import threading

import cloudpickle
import numpy as np
import pytest
import torch

from smeoffline.sme.task import Task

TASKS = [Task(complexity=1), Task(complexity=20), Task(state_dim=3, action_dim=2, complexity=5, seed=9)]


def states(task: Task, n: int, seed: int = 0) -> np.ndarray:
    """(n, N_s) uniform states."""
    return np.random.default_rng(seed).random((n, task.state_dim), dtype=np.float32)


# Batches


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"C={task.complexity}")
def test_a_row_has_the_same_bytes_in_any_batch_of_more_than_32(task):
    """Whatever rows come before and after, and however many, a state's optimal action is the same bytes."""
    sme = task.build()
    whole = states(task, 1100)
    expected = sme.optimal_action(whole)
    for start, stop in ((0, 33), (7, 263), (500, 1100), (1, 258), (1060, 1100)):
        np.testing.assert_array_equal(sme.optimal_action(whole[start:stop]), expected[start:stop])
    backwards = np.ascontiguousarray(whole[::-1])
    np.testing.assert_array_equal(sme.optimal_action(backwards)[::-1], expected)
    np.testing.assert_array_equal(sme.preactivation(whole[100:200]), sme.preactivation(whole)[100:200])


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"C={task.complexity}")
def test_small_batches_agree_up_to_rounding(task):
    """Batches of 0 to 32 rows run unpadded and agree with the large batch to 1e-5."""
    sme = task.build()
    whole = states(task, 100)
    expected = sme.optimal_action(whole)
    for n in (0, 1, 2, 31, 32):
        np.testing.assert_allclose(sme.optimal_action(whole[:n]), expected[:n], rtol=0, atol=1e-5)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: f"C={task.complexity}")
def test_transition_score_and_potential_do_not_depend_on_the_batch(task):
    """Next states, scores and potentials of a row are the same bytes alone and in any batch."""
    sme = task.build()
    s, a = states(task, 300), np.random.default_rng(1).random((300, task.action_dim), dtype=np.float32)
    optimal = sme.optimal_action(s)
    whole = sme.transition(s, a), sme.score(a, optimal), sme.potential(s)
    for rows in (slice(0, 1), slice(5, 12), slice(37, 300)):
        part = sme.transition(s[rows], a[rows]), sme.score(a[rows], optimal[rows]), sme.potential(s[rows])
        for got, expected in zip(part, whole, strict=True):
            np.testing.assert_array_equal(got, expected[rows])


@pytest.mark.parametrize("n", [20, 1000])
def test_the_callers_threads_change_no_bytes(n):
    """With torch at 1 and at 2 threads the weights and the optimal actions are the same bytes."""
    before, seen = torch.get_num_threads(), []
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            sme = Task(complexity=20).build()
            seen.append((sme.optimal_action(states(sme.task, n)), sme.network.layers[1].numpy()))
    finally:
        torch.set_num_threads(before)
    for one, two in zip(*seen, strict=True):
        np.testing.assert_array_equal(one, two)


def test_concurrent_callers_get_their_own_results():
    """Threads that ask at once, for small and large batches, get what each gets alone."""
    sme = Task(complexity=5).build()
    batches = [states(sme.task, n, seed=n) for n in (1, 20, 32, 33, 300) * 4]
    expected = [sme.optimal_action(batch) for batch in batches]
    got: list[np.ndarray | None] = [None] * len(batches)

    def ask(i: int) -> None:
        for _ in range(5):
            got[i] = sme.optimal_action(batches[i])

    callers = [threading.Thread(target=ask, args=(i,)) for i in range(len(batches))]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    for one, other in zip(got, expected, strict=True):
        # A new thread may start with more threads than ours; small batches then still run on one.
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("n", [3, 300])
def test_input_is_neither_changed_nor_required_to_be_writable(n):
    """Read-only, float64, strided and nested-list states give the same actions, and no warning."""
    sme = Task(complexity=3).build()
    plain = states(sme.task, n)
    expected = sme.optimal_action(plain)
    np.testing.assert_array_equal(plain, states(sme.task, n))
    locked = plain.copy()
    locked.setflags(write=False)
    strided = np.repeat(plain, 2, axis=1)[:, ::2]
    for same in (locked, strided, plain.astype(np.float64), plain.tolist()):
        np.testing.assert_array_equal(sme.optimal_action(same), expected)


def test_results_are_the_callers_own():
    """Writing into a result changes no later result, so no work buffer leaks out."""
    sme = Task(complexity=3).build()
    for n in (3, 300):
        first = sme.optimal_action(states(sme.task, n))
        kept = first.copy()
        first[:] = -1
        np.testing.assert_array_equal(sme.optimal_action(states(sme.task, n)), kept)


# Global state


def test_building_and_acting_touch_no_global_state(threads, capsys):
    """torch's and numpy's global generators, torch's settings and the screen stay as they were."""
    torch.rand(5)  # a state that no build before this one can have left behind
    torch_before, numpy_before = torch.get_rng_state(), np.random.get_state()  # noqa: NPY002  # it is what we test
    flags = torch.are_deterministic_algorithms_enabled(), torch.is_grad_enabled(), torch.get_default_dtype()
    sme = Task(complexity=3).build()
    s = states(sme.task, 300)
    sme.transition(s, sme.optimal_action(s))
    sme.optimal_action(s[:1])
    assert torch.equal(torch.get_rng_state(), torch_before)
    numpy_after = np.random.get_state()  # noqa: NPY002  # as above
    assert numpy_after[2:] == numpy_before[2:]
    np.testing.assert_array_equal(numpy_after[1], numpy_before[1])
    assert flags == (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_grad_enabled(),
        torch.get_default_dtype(),
    )
    assert torch.get_num_threads() == threads
    assert capsys.readouterr() == ("", "")


def test_global_generators_do_not_steer_the_draws():
    """Whatever state the global generator is in, the same spec draws the same task."""
    first = Task(complexity=2, seed=7).build()
    torch.rand(5)
    second = Task(complexity=2, seed=7).build()
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(first.network.layers[0].numpy(), second.network.layers[0].numpy())
    assert not np.array_equal(first.weights, Task(complexity=2, seed=8).build().weights)


FRESH_PROCESS = """
import threading, torch
torch.set_num_threads(3)
from smeoffline.sme.cores import default_workers
from smeoffline.sme.task import Task
import numpy as np
Task(complexity=2).build().optimal_action(np.zeros((2000, 8), np.float32))
seen = []
thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
thread.start(); thread.join()
assert torch.get_num_threads() == 3, torch.get_num_threads()
assert seen == [3], seen
"""


def test_the_first_use_leaves_the_thread_counts_of_its_process_alone():
    """In a fresh process, after the first build and batch, caller and new threads have torch's own count."""
    subprocess.run([sys.executable, "-c", FRESH_PROCESS], check=True, timeout=120)


FORK = """
import os, signal, sys
import numpy as np, torch
torch.set_num_threads(2)
a = torch.rand(800, 800)
(a @ a).sum()  # starts OpenMP's threads, which a forked child does not have
from smeoffline.sme.task import Task
sme = Task(complexity=50).build()
states = np.random.default_rng(0).random((1000, 8), dtype=np.float32)
sizes = (1, 32, 33, 1000)
expected = [sme.optimal_action(states[:n]) for n in sizes]
child = os.fork()
if child == 0:
    signal.alarm(60)  # a child that hangs must not outlive the test
    same = all(np.array_equal(sme.optimal_action(states[:n]), e) for n, e in zip(sizes, expected))
    same = same and np.array_equal(Task(complexity=50).build().bias, sme.bias)
    os._exit(0 if same else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform cannot fork")
def test_a_forked_child_gets_the_same_bytes():
    """After os.fork, with OpenMP's threads already running, the child builds and acts, and does not hang."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=90)


# Copies


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: cloudpickle.loads(cloudpickle.dumps(x))])
def test_copies_of_a_built_task_are_the_same_task(duplicate):
    """Deep copies and pickled copies give the same bytes, and share no weights with the original."""
    sme = Task(complexity=4, shaping=0.5).build()
    twin = duplicate(sme)
    s = states(sme.task, 50)
    assert twin.task == sme.task
    np.testing.assert_array_equal(twin.optimal_action(s), sme.optimal_action(s))
    np.testing.assert_array_equal(twin.potential(s), sme.potential(s))
    a = sme.optimal_action(s)
    expected = sme.transition(s, a)
    twin.weights[:] = 0
    np.testing.assert_array_equal(sme.transition(s, a), expected)
