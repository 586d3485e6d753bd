"""Behaviors: what a spec accepts, and what its base policy means to do."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import special

from smeoffline.data.acting import Actor, intend_at, perturbed
from smeoffline.data.behavior import BASES, WITHOUT_NU, Behavior
from smeoffline.data.exploration import EXPLORATIONS, UniformAction
from smeoffline.data.streams import component_stream
from smeoffline.errors import SpecError
from smeoffline.sme import probes
from smeoffline.sme.network import UniformNetwork
from smeoffline.sme.task import Task

sizes = st.one_of(st.just(0.0), st.floats(1e-6, 1.0), st.sampled_from([0.1, 0.3, 1e-5, 1.0]))


@st.composite
def behaviors(draw) -> Behavior:
    """Any behavior."""
    base = draw(st.sampled_from(BASES))
    if base == "random":
        return Behavior(base=base)
    sigma = draw(sizes)
    explore = draw(st.sampled_from([None, *EXPLORATIONS]))
    digest = draw(st.text("0123456789abcdef", min_size=64, max_size=64)) if base == "policy" else None
    return Behavior(
        base=base,
        nu=0.0 if base in WITHOUT_NU else draw(sizes),
        explore=None if explore == "none" and sigma > 0 else explore,
        sigma=sigma,
        policy="policy.onnx" if base == "policy" else None,
        policy_sha256=digest,
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"base": "biased"}, ["base", "'biased'", "did you mean 'bias'"]),
        ({"base": "wieghts"}, ["base", "did you mean 'weights'"]),
        ({"base": ["bias"]}, ["base", "['bias']"]),
        ({"base": None}, ["base", "None"]),
        ({"explore": "probbit", "sigma": 0.3}, ["explore", "'probbit'", "did you mean 'probit'"]),
        ({"explore": "", "sigma": 0.3}, ["explore", "''"]),
        ({"explore": ["probit"], "sigma": 0.3}, ["explore", "['probit']"]),
        ({"explore": "random"}, ["explore", "'random'"]),
        ({"nu": -0.1}, ["nu", "-0.1"]),
        ({"nu": math.nan}, ["nu", "nan"]),
        ({"nu": math.inf}, ["nu", "inf"]),
        ({"nu": 10**400}, ["nu", "1000]"]),
        ({"nu": 1001}, ["nu", "1001"]),
        ({"nu": "0.1"}, ["nu", "'0.1'"]),
        ({"nu": True}, ["nu", "True"]),
        ({"nu": None}, ["nu", "None"]),
        ({"sigma": -1}, ["sigma", "-1"]),
        ({"sigma": math.nan}, ["sigma", "nan"]),
        ({"explore": "uniform", "sigma": 1.5}, ["sigma", "uniform", "probability", "1.5"]),
        ({"explore": "none", "sigma": 0.3}, ["explore 'none'", "sigma", "0.3"]),
        ({"base": "optimal", "nu": 0.1}, ["nu", "optimal", "0.1"]),
        ({"base": "random", "nu": 0.1}, ["nu", "random", "0.1"]),
        ({"base": "random", "sigma": 0.1}, ["random", "sigma"]),
        ({"base": "random", "explore": "probit"}, ["random", "explore"]),
    ],
)
def test_a_bad_value_is_named_in_one_line(fields, words):
    """A value that a behavior cannot have is refused in one line with the field and what was given."""
    with pytest.raises(SpecError) as caught:
        Behavior(**fields)
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("behavior: ")
    assert [word for word in words if word not in text] == []


@pytest.mark.parametrize(
    ("key", "near"), [("sigm", "sigma"), ("bases", "base"), ("exploration", "explore"), ("v", None)]
)
def test_an_unknown_key_is_named_with_the_nearest(key, near):
    """A misspelled key is refused by name, with the nearest known one where there is one."""
    with pytest.raises(SpecError) as caught:
        Behavior.from_dict({key: 0.3})
    assert f"unknown key {key!r}" in str(caught.value)
    assert (f"did you mean {near!r}" in str(caught.value)) == (near is not None)
    assert "known: base, nu, explore, sigma" in str(caught.value)


def test_exploration_defaults_to_probit_where_there_is_noise():
    """Without a name, sigma > 0 explores by probit and sigma = 0 does not explore."""
    assert Behavior(sigma=0.3).explore == "probit"
    assert Behavior().explore == "none"


@pytest.mark.parametrize("explore", [None, *EXPLORATIONS])
@pytest.mark.parametrize("zero", [0, 0.0, -0.0])
def test_behaviors_that_act_alike_are_equal(explore, zero):
    """At sigma 0 every exploration is none; zeros of either sign and type are one value."""
    behavior = Behavior(nu=zero, explore=explore, sigma=zero)
    assert behavior == Behavior()
    assert hash(behavior) == hash(Behavior())
    assert json.dumps(behavior.to_dict()) == json.dumps(Behavior().to_dict())


@given(behaviors())
def test_json_round_trip(behavior):
    """Through JSON text and back every behavior equals itself."""
    assert Behavior.from_dict(json.loads(json.dumps(behavior.to_dict()))) == behavior


@given(behaviors())
def test_a_behavior_brings_its_exploration(behavior):
    """The exploration has the kind and size that the spec says; random actions are a kind of their own."""
    exploration = behavior.exploration()
    expected = UniformAction if behavior.base == "random" else EXPLORATIONS[behavior.explore]
    assert type(exploration) is expected
    assert exploration.sigma == behavior.sigma


@pytest.fixture(scope="module")
def sme():
    """A small task of three layers."""
    return Task(state_dim=5, action_dim=3, complexity=3).build()


@pytest.fixture(scope="module")
def states(sme):
    """Probes of it."""
    return probes.within(sme.task.state_dim, 500)


def test_bias_is_one_constant_offset_per_channel(sme, states):
    """The bias base adds nu xi before the last Phi: the same in every state, xi from the stream alone."""
    z = sme.preactivation(states)
    u, m = intend_at(Actor(Behavior(nu=0.2), sme, component_stream(4, 0)), states, z)
    xi = component_stream(4, 0).standard_normal(3, dtype=np.float32)
    np.testing.assert_allclose(u - z, np.broadcast_to(0.2 * xi, z.shape), atol=1e-6)
    np.testing.assert_allclose(m, special.ndtr(z + 0.2 * xi), atol=1e-6)
    assert len(set(xi.tolist())) == 3


def test_bias_offsets_are_normal_over_seeds_and_components(sme):
    """Over dataset seeds and components the offsets are nu times N(0, 1) draws, all different."""
    z = np.zeros((1, 3), np.float32)
    state = np.zeros((1, 5), np.float32)
    offsets = np.stack(
        [
            intend_at(Actor(Behavior(nu=0.5), sme, component_stream(seed, part)), state, z)[0][0]
            for seed in range(500)
            for part in range(2)
        ]
    )
    assert len(np.unique(offsets)) == offsets.size
    assert abs(offsets.mean()) < 5 * 0.5 / np.sqrt(offsets.size)
    assert offsets.std() == pytest.approx(0.5, rel=5 / np.sqrt(2 * offsets.size))


def test_bias_score_over_datasets_has_its_closed_form():
    """At nu 0.1 datasets score 1 - nu sqrt(2/pi) / (2 sqrt(pi)) = 0.9775, with a spread of 0.0085."""
    sme = Task(complexity=1).build()
    states = probes.within(8, 2000)
    z = sme.preactivation(states)
    optimal = sme.optimal_action(states)
    observations = np.zeros((len(states), 10), np.float32)
    datasets = 400
    scores = [
        sme.score(Actor(Behavior(nu=0.1), sme, component_stream(seed, 0)).intend(observations, z)[1], optimal).mean()
        for seed in range(datasets)
    ]
    expected = 1 - 0.1 * math.sqrt(2 / math.pi) / (2 * math.sqrt(math.pi))
    assert expected == pytest.approx(0.9775, abs=5e-5)
    assert np.mean(scores) == pytest.approx(expected, abs=4 * 0.0085 / math.sqrt(datasets))
    assert np.std(scores) == pytest.approx(0.0085, rel=0.15)


def test_weights_perturbs_every_weight_of_every_layer(sme):
    """Each layer gets errors of nu times its own root mean square, independent and normal."""
    nu = 0.2
    changed = perturbed(sme.network, nu, np.random.default_rng(0))
    assert len(changed.layers) == 3
    errors = []
    for before, after in zip(sme.network.layers, changed.layers, strict=True):
        rms = np.sqrt((before.double().numpy() ** 2).mean())
        error = (after - before).double().numpy() / (nu * rms)
        assert error.shape == tuple(before.shape)
        assert error.std() == pytest.approx(1, rel=5 / np.sqrt(2 * error.size))
        assert abs(error.mean()) < 5 / np.sqrt(error.size)
        errors.append(error.ravel())
    together = np.concatenate(errors)
    assert len(np.unique(together.round(9))) > 0.99 * together.size


def test_weights_acts_by_the_perturbed_network_on_the_observed_state(sme, states):
    """The weights base means Phi of the perturbed network's pre-activation, whatever z it is shown."""
    network = perturbed(sme.network, 0.3, component_stream(2, 1))
    expected = network.preactivation(torch.from_numpy(states)).numpy()
    actor = Actor(Behavior(base="weights", nu=0.3), sme, component_stream(2, 1))
    u, m = intend_at(actor, states, np.zeros((len(states), 3), np.float32))
    np.testing.assert_allclose(u, expected, atol=1e-5)
    np.testing.assert_allclose(m, special.ndtr(expected), atol=1e-5)
    assert np.abs(u - sme.preactivation(states)).max() > 0.1


def test_weight_errors_do_not_depend_on_the_callers_threads():
    """Wide layers are perturbed to the same bits whether torch uses one thread or two."""
    stream = np.random.default_rng(0)
    wide = [
        UniformNetwork([torch.from_numpy(stream.standard_normal((n, n), dtype=np.float32))])
        for n in range(200, 600, 17)
    ]
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append([perturbed(one, 0.1, np.random.default_rng(1)).layers[0] for one in wide])
    finally:
        torch.set_num_threads(before)
    assert [torch.equal(one, two) for one, two in zip(*results, strict=True)] == [True] * len(wide)


@pytest.mark.parametrize("behavior", [Behavior(), Behavior(base="weights"), Behavior(base="optimal")])
def test_without_error_the_base_is_the_optimum(sme, states, behavior):
    """At nu 0 every base but random means the optimal action itself."""
    z = sme.preactivation(states)
    u, m = intend_at(Actor(behavior, sme, component_stream(0, 0)), states, z)
    np.testing.assert_array_equal(u, z)
    np.testing.assert_array_equal(m, sme.optimal_action(states))


def test_random_means_one_half(sme, states):
    """The random base ignores the state: its intention is the center of the cube."""
    u, m = intend_at(Actor(Behavior(base="random"), sme, component_stream(0, 0)), states, sme.preactivation(states))
    assert (u == 0).all()
    assert (m == 0.5).all()


@pytest.mark.parametrize("n", [1, 31, 33, 256, 257])
def test_any_number_of_states_gives_as_many_rows(sme, states, n):
    """`intend_at` answers n states with n rows, each what it is among others."""
    z = sme.preactivation(states)
    actor = Actor(Behavior(base="weights", nu=0.1), sme, component_stream(0, 0))
    everything = intend_at(actor, states, z)
    some = intend_at(actor, states[:n], z[:n])
    for whole, part in zip(everything, some, strict=True):
        assert part.shape == (n, 3)
        np.testing.assert_allclose(part, whole[:n], atol=1e-5)
