"""Critics beside the truth: oracles of which everything is known, values by rollouts, refusals."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from command import invoke
from train_data import small_trainer

from smeoffline.data.behavior import Behavior
from smeoffline.data.generate import generate
from smeoffline.data.recipe import Component, Recipe
from smeoffline.errors import PolicyError, SpecError
from smeoffline.score.critics.agreement import critic_values
from smeoffline.score.ranks import mean_rank_correlation, rank_correlation
from smeoffline.score.true_values import noise_ceiling, policy_q, rollout_steps
from smeoffline.sme import probes
from smeoffline.sme.task import Task
from smeoffline.sme.values import optimal_advantage, optimal_q, optimal_value
from smeoffline.train.algorithms import ALGORITHMS

DISCOUNT = 0.5
TASKS = [
    Task(episode_length=10, discount=DISCOUNT),
    Task(episode_length=10, discount=DISCOUNT, kill_threshold=0.3),
    Task(episode_length=10, discount=DISCOUNT, min_reward=0.5, complexity=3),
    Task(episode_length=10, discount=DISCOUNT, shaping=0.5),
]


def recipe_of(task):
    """A dataset's recipe on a task."""
    return Recipe(task, (Component(Behavior(nu=0.3, sigma=0.3)),))


def oracle(task, change=lambda q: q, value=None):
    """A critic that knows Q*, changed; with `value`, V* changed likewise."""
    sme = task.build()

    def critic(observations, actions):
        states = np.ascontiguousarray(observations[:, :-2])
        said = {"q_funcs": np.atleast_2d(change(optimal_q(sme, states, actions, task.discount)))}
        if value is not None:
            said["value_func"] = value(optimal_q(sme, states, sme.optimal_action(states), task.discount))
        return said

    return critic


def policy_of(task, offset=0.2):
    """A policy that is off by a constant."""
    sme = task.build()
    return lambda o: np.clip(sme.optimal_action(np.ascontiguousarray(o[:, :-2])) + np.float32(offset), 0, 1)


def compare(task, critic, **kwargs):
    """A critic's agreement with Q*, by kind of probes."""
    found = critic_values(
        critic, policy_of(task), recipe_of(task), discount=task.discount, n_probes=500, rolled_probes=0, **kwargs
    )
    return {row.probes: row for row in found.optimal}


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_an_oracle_has_no_error_anywhere(task):
    """A critic that says Q* has no bias and no error on any probes, and ranks actions perfectly."""
    found = compare(task, oracle(task))
    assert list(found) == ["data", "uniform", "policy", "ood"]
    for row in found.values():
        assert row.bias == row.minimum_bias == row.rmse == row.scatter == 0
    assert found["uniform"].action_rank_correlation == pytest.approx(1)
    assert found["ood"].action_rank_correlation == pytest.approx(1)
    assert found["data"].action_rank_correlation is None
    assert found["data"].n == 500


@pytest.mark.parametrize("shift", [7.5, -0.25])
def test_a_shifted_oracle_has_exactly_its_shift(shift):
    """A constant too much is all bias and no scatter, and leaves the ranks."""
    for row in compare(TASKS[0], oracle(TASKS[0], lambda q: q + shift)).values():
        assert row.bias == pytest.approx(shift, abs=1e-9)
        assert row.rmse == pytest.approx(abs(shift), abs=1e-9)
        assert row.scatter == pytest.approx(0, abs=1e-9)
        assert row.action_rank_correlation in (None, pytest.approx(1))


def test_a_scaled_oracle_has_its_scale_and_a_negated_one_reversed_ranks():
    """Twice Q* overestimates by Q*; -Q* ranks every pair of actions the wrong way round."""
    doubled = compare(TASKS[0], oracle(TASKS[0], lambda q: 2 * q))
    for row in doubled.values():
        assert row.estimate == pytest.approx(2 * row.true)
        assert row.bias == pytest.approx(row.true)
    assert doubled["uniform"].action_rank_correlation == pytest.approx(1)
    negated = compare(TASKS[0], oracle(TASKS[0], lambda q: -q))
    assert negated["uniform"].action_rank_correlation == pytest.approx(-1)


def test_q_is_the_mean_of_the_ensemble_and_the_minimum_is_told_beside():
    """Two critics of Q* + 1 and Q* - 1 have no bias, and their minimum has -1."""
    for row in compare(TASKS[0], oracle(TASKS[0], lambda q: np.stack([q + 1, q - 1]))).values():
        assert row.bias == pytest.approx(0, abs=1e-9)
        assert row.minimum_bias == pytest.approx(-1)


def test_a_value_network_is_compared_with_v_star_and_is_the_baseline_of_advantages():
    """With V* - 3 beside Q* the value has bias -3, and advantages rank as A* does."""
    found = compare(TASKS[0], oracle(TASKS[0], value=lambda v: v - 3))
    assert found["value"].bias == pytest.approx(-3)
    assert found["value"].true == pytest.approx(1 / (1 - DISCOUNT))
    assert found["value"].rank_correlation is None  # V* is the same in every state
    assert found["data"].rank_correlation == pytest.approx(1)
    assert found["policy"].rank_correlation == pytest.approx(1)


def test_errors_by_action_distance_cover_all_probes():
    """A critic that knows nothing of actions overestimates more the farther they are from the data."""
    task = TASKS[0]
    critic = oracle(task, lambda q: np.full_like(q, 1 / (1 - DISCOUNT)))
    found = critic_values(critic, policy_of(task), recipe_of(task), discount=DISCOUNT, n_probes=2000, rolled_probes=0)
    assert sum(row.n for row in found.by_distance) == 2000
    biases = [row.bias for row in found.by_distance if row.n > 30]
    assert biases[0] < 0.5 < 0.8 < biases[-1]
    random = Recipe(task, (Component(Behavior(base="random")),))
    assert (
        critic_values(critic, policy_of(task), random, discount=DISCOUNT, n_probes=50, rolled_probes=0).by_distance
        == ()
    )


def test_optimal_q_agrees_with_the_other_exact_values():
    """Q*(s, a*) = V*, and Q* - V* = A*, where those are known."""
    task = TASKS[0]
    sme, states = task.build(), probes.within(8, 300)
    actions = np.random.default_rng(0).random((300, 4), dtype=np.float32)
    best = optimal_q(sme, states, sme.optimal_action(states), DISCOUNT)
    assert best == pytest.approx(optimal_value(sme, states))
    advantage = optimal_q(sme, states, actions, DISCOUNT) - best
    assert advantage == pytest.approx(optimal_advantage(sme, states, actions), abs=1e-6)


@pytest.mark.parametrize("task", TASKS, ids=str)
def test_rollouts_of_the_optimum_measure_q_star(task):
    """Q^pi of the optimal policy, by rollouts, is Q*: for killed episodes and shaped rewards too."""
    sme, states = task.build(), probes.within(8, 20)
    actions = np.random.default_rng(1).random((20, 4), dtype=np.float32) * 0.3 + sme.optimal_action(states) * 0.7
    found = policy_q(sme, policy_of(task, 0.0), states, actions, discount=DISCOUNT, seed=0, rollouts=8)
    exact = optimal_q(sme, states, actions, DISCOUNT)
    assert np.median(np.abs(found.mean - exact)) < 2e-3  # the start is perturbed by 1e-4
    assert found.mean.mean() == pytest.approx(exact.mean(), abs=0.05)
    assert found.steps == rollout_steps(DISCOUNT) == 7


@pytest.mark.parametrize("discount", [0.0, 0.9])
def test_rollouts_of_a_policy_that_earns_nothing_measure_the_first_reward(discount):
    """An action more than 0.25 off earns nothing: such a policy is worth what its first action earns."""
    task = Task(state_dim=3, action_dim=2, episode_length=4)
    sme, states = task.build(), probes.within(3, 10)

    def opposite(observations):
        best = sme.optimal_action(np.ascontiguousarray(observations[:, :-2]))
        return np.where(best > 0.5, 0, 1).astype(np.float32)

    found = policy_q(sme, opposite, states, sme.optimal_action(states), discount=discount, seed=0, rollouts=4)
    assert found.mean == pytest.approx(1, abs=5e-3)
    assert found.tail == 0
    assert np.all(found.standard_error < 5e-3)


def test_measured_values_bring_their_noise():
    """A critic that says Q^pi of a policy agrees with its rollouts within their standard error."""
    task = Task(episode_length=10, discount=0.8)
    policy = policy_of(task)
    sme = task.build()

    def critic(observations, actions):
        states = np.ascontiguousarray(observations[:, :-2])
        return {"q_funcs": policy_q(sme, policy, states, actions, discount=0.8, seed=9, rollouts=16).mean[np.newaxis]}

    found = critic_values(
        critic, policy, recipe_of(task), discount=0.8, n_probes=20, rolled_probes=20, rollouts=16, seed=1
    )
    for row in found.own:
        assert row.rmse < 3 * row.noise + 1e-3
        assert row.rollouts == 16
        assert abs(row.bias) < 6 * row.standard_error + 1e-3
    assert [row.probes for row in found.own] == ["policy", "uniform"]


def test_noise_ceiling_is_what_an_oracle_reaches():
    """Without noise it is 1, with nothing but noise about 0, in between what the truth itself reaches."""
    draw = np.random.default_rng(0)
    truth, errors = draw.standard_normal(2000), np.full(2000, 0.8)
    noisy = truth + errors * draw.standard_normal(2000)
    assert noise_ceiling(truth, np.zeros(2000), 0) == pytest.approx(1)
    assert noise_ceiling(errors * draw.standard_normal(2000) * 0.99, errors, 0) < 0.3
    assert noise_ceiling(noisy, errors, 0) == pytest.approx(rank_correlation(noisy, truth), abs=0.03)


def test_ranks_of_constants_are_none():
    """Nothing is made up where nothing can be ranked, and such rows are left out of a mean."""
    rising, flat = np.arange(5.0), np.ones(5)
    assert rank_correlation(rising, flat) is None
    assert rank_correlation(rising, rising**3) == pytest.approx(1)
    assert mean_rank_correlation(np.stack([rising, rising]), np.stack([flat, -rising])) == pytest.approx(-1)
    assert mean_rank_correlation(np.stack([flat]), np.stack([rising])) is None


@pytest.mark.parametrize(
    ("task", "discount", "said"),
    [
        (Task(reward_every=5), 0.99, "reward_every 1"),
        (Task(), 1.0, r"\[0, 1\)"),
        (Task(shaping=0.5), 0.9, "shaping"),
    ],
    ids=["k", "discount", "shaping"],
)
def test_where_nothing_is_exact_nothing_is_compared(task, discount, said):
    """A task or discount without a known Q* is refused in one line."""
    with pytest.raises(SpecError, match=said) as caught:
        critic_values(oracle(task), policy_of(task), recipe_of(task), discount=discount)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "said"), [(lambda q: q * np.inf, "finite"), (lambda q: q[:-1], "shape")], ids=["infinite", "short"]
)
def test_a_critic_that_says_nonsense_is_refused(change, said):
    """Infinities and wrong shapes are one clear line."""
    with pytest.raises(PolicyError, match=said):
        compare(TASKS[0], oracle(TASKS[0], change))


@pytest.mark.parametrize("name", [name for name, row in ALGORITHMS.items() if row.values])
def test_every_algorithm_with_a_critic_can_be_compared(name):
    """Untrained critics of every algorithm of the table say numbers near 0, at the discount it would train with."""
    learner = small_trainer(name).learner
    discount = learner.hyperparameters["gamma"]
    recipe = recipe_of(Task(state_dim=4, action_dim=3, episode_length=5))
    found = critic_values(learner.values, learner.act, recipe, discount=discount, n_probes=40, rolled_probes=0)
    assert found.discount == 0.99
    assert all(row.estimate == pytest.approx(0, abs=2) for row in found.optimal)
    assert all(row.bias == pytest.approx(-99.5, abs=2.5) for row in found.optimal)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where this module's dataset lies; the fixture that gives every test an empty root comes later."""
    return tmp_path_factory.mktemp("critics")


@pytest.fixture(scope="module")
def dataset(root):
    """A small dataset."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root))
        made = generate(Task(episode_length=10), Behavior(nu=0.3, sigma=0.3), episodes=20, seed=0)
    return str(made.path)


@pytest.fixture(scope="module")
def runs(dataset, root):
    """A run of IQL, whose discount makes its rollouts short, one of TD3+BC, and one of BC."""
    found = []
    for algo, *more in (("iql", "--set", "gamma=0.5"), ("td3plusbc", "--set", "gamma=0.5"), ("bc",)):
        made = invoke(
            "train", dataset, "--algo", algo, "--steps", 5, "--set", "hidden_units=8", "--out", root, "--json", *more
        )
        found.append(json.loads(made.stdout)["run"])
    return found


def test_evaluate_with_values_is_in_the_record_and_the_file(runs):
    """`--values` adds the key `values` and nothing else; the same bytes each time, and in evaluation.json."""
    plain = json.loads(invoke("evaluate", runs[0], "--probes", 100, "--json").stdout)
    first, second = (invoke("evaluate", runs[0], "--probes", 100, "--values", "--json") for _ in range(2))
    assert first.exit_code == 0, first.stderr
    assert first.stdout == second.stdout
    record = json.loads(first.stdout)
    assert record.keys() - plain.keys() == {"values"}
    assert json.loads(Path(runs[0], "evaluation.json").read_text(encoding="utf-8")) == record
    values = record["values"]
    assert (values["discount"], values["critics"], values["baseline"]) == (0.5, 2, "value_func")
    assert [row["probes"] for row in values["optimal"]] == ["data", "uniform", "policy", "ood", "value"]
    assert values["optimal"][-1]["true"] == pytest.approx(2)
    assert [row["probes"] for row in values["own"]] == ["policy", "uniform"]


@pytest.mark.filterwarnings("default")
def test_an_evaluation_that_says_less_leaves_the_stored_values(runs, tmp_path, monkeypatch):
    """The same without --values keeps them, other probes or another seed are not stored, and one line tells so."""
    monkeypatch.setattr("smeoffline_cli.progress.LINE_SECONDS", math.inf)  # on a busy machine too
    run = shutil.copytree(runs[0], tmp_path / "run")
    (run / "evaluation.json").unlink(missing_ok=True)
    assert invoke("evaluate", run, "--probes", 100, "--values").stderr == ""
    stored = (run / "evaluation.json").read_bytes()
    assert invoke("evaluate", run, "--probes", 100).stderr == ""
    assert (run / "evaluation.json").read_bytes() == stored
    for args in (("--probes", 50), ("--probes", 100, "--seed", 1), ("--probes", 200), ("--probes", 50, "--values")):
        shown = invoke("evaluate", run, *args, "--json")
        assert json.loads(shown.stdout)["probes"] == args[1]
        assert shown.stderr.startswith(
            f"warning: run {run}: evaluation.json keeps 100 probes of seed 0 with values; this evaluation, {args[1]} "
        )
        assert shown.stderr.count("\n") == 1
        assert (run / "evaluation.json").read_bytes() == stored
    assert invoke("evaluate", run, "--probes", 200, "--values").stderr == ""
    assert json.loads((run / "evaluation.json").read_bytes())["probes"] == 200


def test_a_pipe_is_told_what_is_done(runs, monkeypatch):
    """Of a command that takes minutes a log has lines that say how far it is; of a quick one it has none."""
    args = ("evaluate", runs[0], "--probes", 100, "--values")
    monkeypatch.setattr("smeoffline_cli.progress.LINE_SECONDS", 600)
    assert invoke(*args).stderr == ""
    monkeypatch.setattr("smeoffline_cli.progress.LINE_SECONDS", 0)
    lines = invoke(*args).stderr.splitlines()
    assert lines[0] == "evaluating: 0/1 policies, scores"
    assert "evaluating: 0/1 policies, policy rollouts, step 7/7" in lines
    assert lines[-1] == "evaluating: 1/1 policies"
    lines = invoke("evaluate", *runs[:2], "--probes", 100).stderr.splitlines()
    assert lines[1] == f"evaluating: 1/2 policies, scores, {Path(runs[1]).name}"


def test_values_are_shown_and_drawn(runs, tmp_path):
    """The text has the tables, of one run and of several; the figure has both, and the same bytes each time."""
    one = invoke("evaluate", runs[0], "--probes", 100, "--values").stdout
    assert "beside Q*" in one
    assert "noise_ceiling" in one
    files = [tmp_path / "a.svg", tmp_path / "b.svg"]
    shown = [invoke("evaluate", *runs[:2], "--probes", 100, "--values", "--figure", f) for f in files]
    assert shown[0].exit_code == 0, shown[0].stderr
    assert "bias of Q" in shown[0].stdout
    assert files[0].read_bytes() == files[1].read_bytes()
    drawn = files[0].read_text(encoding="utf-8")
    assert "iql-s0: bias" in drawn
    assert "Q of its policy, by rollouts" in drawn


def test_what_has_no_critic_says_so(runs, dataset, root):
    """BC, your own algorithm, a policy's file and a figure without values are each one clear line."""
    policy = Path(runs[0], "policy.onnx")
    own = root / "own"
    shutil.copytree(runs[0], own)
    record = json.loads((own / "run.json").read_text(encoding="utf-8"))
    (own / "run.json").write_text(json.dumps({**record, "algorithm": "mine:train"}), encoding="utf-8")
    cases = [
        ((runs[2], "--values"), 1, "bc has no critic"),
        ((own, "--values"), 1, "your own algorithm"),
        ((policy, "--dataset", dataset, "--values"), 2, "give the run's folder"),
        ((runs[0], "--figure", "x.svg"), 2, "give --values too"),
        ((runs[0], "--values", "--figure", root / "nowhere" / "x.svg"), 2, "no folder"),
    ]
    for args, code, said in cases:
        result = invoke("evaluate", *args, "--probes", 50)
        assert result.exit_code == code
        assert said in result.stderr
        assert result.stderr.count("\n") == 1
        assert result.stdout == ""
