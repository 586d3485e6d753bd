from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from train_data import NAMES, small_trainer, weights

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import SpecError
from smeoffline.train.algorithms import (
    ALGORITHMS,
    NEED_DISCRETE_ACTIONS,
    find_algorithm,
    parse_settings,
    resolve_settings,
)
from smeoffline.train.trainer import Learner, d3rlpy, setting_defaults

IQL = ALGORITHMS["iql"]
DEFAULTS = {
    "batch_size": 256,
    "gamma": 0.99,
    "policy_type": "deterministic",
    "soft": False,
    "hidden_units": (256, 256),
}


def resolve(**settings):
    """Settings of IQL against a fixed set of defaults, of every type."""
    return resolve_settings(IQL, settings, DEFAULTS)


def test_the_table_has_every_continuous_algorithm_of_d3rlpy():
    """No continuous Q-learning algorithm that d3rlpy ships is missing, but for two that we leave out."""
    continuous = {n for n, kind in action_types().items() if kind == d3rlpy().ActionSpace.CONTINUOUS}
    left_out = {"RandomPolicyConfig", "PLASWithPerturbationConfig"}
    assert left_out <= continuous
    assert continuous - left_out == {a.config for a in ALGORITHMS.values()}


def action_types():
    """The action space of every Q-learning config that d3rlpy ships."""
    library, found = d3rlpy(), {}
    for name, config in vars(library.algos).items():
        if name.endswith("Config") and "create" in vars(config):
            algorithm = config().create("cpu:0")
            if isinstance(algorithm, library.algos.QLearningAlgoBase):
                found[name] = algorithm.get_action_type()
    return found


def test_names_that_need_discrete_actions_are_d3rlpys():
    """What is said to need discrete actions does so in d3rlpy, and all that does is said to."""
    discrete = {n for n, kind in action_types().items() if kind == d3rlpy().ActionSpace.DISCRETE}
    names = {name.lower().removesuffix("config") for name in discrete}
    assert names - {"discreterandompolicy"} == set(NEED_DISCRETE_ACTIONS)


@pytest.mark.parametrize("name", NAMES)
def test_the_table_names_what_the_algorithm_has(name):
    """Policy, values and warm-up of each row are d3rlpy's, and every default passes as a setting."""
    algorithm = ALGORITHMS[name]
    defaults = setting_defaults(algorithm)
    assert resolve_settings(algorithm, defaults, defaults) == defaults
    learner = Learner(algorithm, 4, ActionBox.unit(2), {"hidden_units": (8,)}, 0)
    assert {algorithm.policy, *algorithm.values} <= learner.networks.keys()
    assert algorithm.warmup in ("", *defaults)
    assert ("q_funcs" in learner.networks) == ("q_funcs" in algorithm.values)


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_reaches_d3rlpy(name):
    """Each setting, given as text, ends in d3rlpy's config with its type."""
    from smeoffline.train.trainer import _config

    algorithm = ALGORITHMS[name]
    defaults = setting_defaults(algorithm)
    texts = {k: v if isinstance(v, str) else str(v) for k, v in defaults.items() if k != "hidden_units"}
    texts |= {"batch_size": "17", "gamma": "0.5"}
    config = _config(algorithm, resolve_settings(algorithm, texts, defaults))
    assert (config.batch_size, config.gamma) == (17, 0.5)
    for field in dataclasses.fields(config):
        if field.name in texts:
            value = getattr(config, field.name)
            assert type(value) is type(defaults[field.name])
            assert str(value) == texts[field.name]


def test_hidden_units_reach_every_network():
    """The layer widths are those of the policy, the critics and the value network."""
    learner = Learner(IQL, 4, ActionBox.unit(2), {"hidden_units": (11, 7)}, 0)
    for network in learner.networks.values():
        shapes = [tuple(p.shape) for p in network.parameters() if p.ndim == 2]
        assert (7, 11) in shapes


def test_text_takes_the_type_of_the_default():
    """Whole numbers, fractions, words, truth values and layer widths are parsed from text."""
    found = resolve(batch_size="512", gamma="9e-1", policy_type="stochastic", soft="true", hidden_units="64, 32")
    assert found == {
        "batch_size": 512,
        "gamma": 0.9,
        "policy_type": "stochastic",
        "soft": True,
        "hidden_units": (64, 32),
    }
    assert [type(v) for v in found.values()] == [int, float, tuple, str, bool]


@given(st.integers(1, 2**31 - 1), st.floats(0, 1))
def test_a_setting_survives_being_written_down(batch_size, gamma):
    """A value, and the text it is printed as, resolve to the same."""
    assert resolve(batch_size=batch_size, gamma=gamma) == resolve(batch_size=str(batch_size), gamma=str(gamma))


def test_an_unknown_setting_names_the_nearest_and_all():
    """A misspelled name is refused with the nearest one, and with all that the algorithm has."""
    with pytest.raises(SpecError, match=r"iql has no 'batchsize'; did you mean 'batch_size'\? \(it has batch_size"):
        resolve(batchsize=3)
    with pytest.raises(SpecError, match=r"weight_temp"):
        resolve_settings(IQL, {"temperature": 3}, setting_defaults(IQL))


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("batch_size", "1.5", "a whole number >= 1"),
        ("batch_size", 2.0, "a whole number >= 1"),
        ("batch_size", True, "a whole number >= 1"),
        ("batch_size", "0", "a whole number >= 1"),
        ("batch_size", "-3", "a whole number >= 1"),
        ("batch_size", str(2**31), "a whole number >= 1"),
        ("gamma", "high", r"a number in \[0, 1\]"),
        ("gamma", "1.01", r"a number in \[0, 1\]"),
        ("gamma", "nan", r"a number in \[0, 1\]"),
        ("gamma", False, "a number"),
        ("gamma", None, "a number"),
        (
            "policy_type",
            "stochastics",
            "deterministic, stochastic, got 'stochastics'; did you mean 'stochastic'",
        ),
        ("soft", "1", "true or false"),
        ("soft", 1, "true or false"),
        ("hidden_units", "", "a whole number >= 1"),
        ("hidden_units", "64,x", "a whole number >= 1"),
        ("hidden_units", 64, "layer widths"),
    ],
)
def test_a_value_of_another_type_or_range_is_refused(name, value, wanted):
    """A wrong value is refused with the setting, what was expected and what was given."""
    with pytest.raises(SpecError, match=rf"setting {name} of iql: expected .*{wanted}"):
        resolve(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("actor_learning_rate", "0"), ("weight_temp", "-1"), ("tau", "2"), ("max_weight", "inf")],
)
def test_ranges_that_d3rlpy_does_not_check(name, value):
    """Values that would train nothing, or to NaN, are refused before training."""
    with pytest.raises(SpecError, match=rf"setting {name} of iql: expected a"):
        resolve_settings(IQL, {name: value}, setting_defaults(IQL))


@pytest.mark.parametrize("name", ["sac", "cql", "calql", "bear"])
def test_a_temperature_may_be_held_fixed(name):
    """A learning rate of 0 is how d3rlpy keeps a temperature, and CQL's alpha, at its initial value."""
    algorithm = ALGORITHMS[name]
    rates = [rate for rate in ("temp_learning_rate", "alpha_learning_rate") if rate in setting_defaults(algorithm)]
    typed = resolve_settings(algorithm, dict.fromkeys(rates, "0"), setting_defaults(algorithm))
    assert typed == dict.fromkeys(rates, 0.0)
    trainer = small_trainer(name, **typed)
    before = weights(trainer)
    trainer.advance(3)
    fixed = [key for key in before if key.startswith(("log_temp.", "log_alpha."))]
    assert fixed
    for key in fixed:
        np.testing.assert_array_equal(weights(trainer)[key], before[key], err_msg=key)


@pytest.mark.parametrize(("name", "setting"), [("awac", "lam"), ("crr", "beta")])
def test_what_divides_may_not_be_zero(name, setting):
    """A weight may be 0, but not the temperatures that have a weight's name elsewhere."""
    algorithm = ALGORITHMS[name]
    with pytest.raises(SpecError, match=rf"setting {setting} of {name}: expected a finite number in \(0, inf\)"):
        resolve_settings(algorithm, {setting: "0"}, setting_defaults(algorithm))


def test_settings_are_parsed_from_the_command_line():
    """NAME=VALUE pairs become a mapping; a value may hold an equals sign."""
    assert parse_settings(["batch_size=512", " gamma = 0.9 ", "x=a=b"]) == {
        "batch_size": "512",
        "gamma": "0.9",
        "x": "a=b",
    }


@pytest.mark.parametrize("items", [["batch_size"], ["=3"], ["a=1", "a=2"]])
def test_what_is_no_setting_is_refused(items):
    """A pair without a name or an equals sign, and a name given twice, are refused."""
    with pytest.raises(SpecError, match="setting: expected"):
        parse_settings(items)


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("iqI", "iql"), ("TD3+BC", "td3plusbc"), ("cal_ql", "calql"), ("IQL", "iql")],
)
def test_an_unknown_algorithm_names_the_nearest(name, nearest):
    """A misspelled algorithm is refused with the nearest one."""
    with pytest.raises(SpecError, match=f"did you mean '{nearest}'"):
        find_algorithm(name)


def test_an_algorithm_for_discrete_actions_says_so():
    """DQN is not unknown: it needs what these datasets do not have."""
    with pytest.raises(SpecError, match="'DiscreteCQL': needs discrete actions"):
        find_algorithm("DiscreteCQL")
