"""Probe states: where scores are taken."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats

from smeoffline.sme import probes
from smeoffline.sme.machine import platform_tag


def test_within_is_uniform_in_the_cube():
    """Every channel of the in-distribution probes is uniform on [0, 1)."""
    states = probes.within(8)
    assert states.shape == (10_000, 8)
    assert states.dtype == np.float32
    assert ((states >= 0) & (states < 1)).all()
    for channel in states.T:
        assert stats.kstest(channel, "uniform").pvalue > 1e-4
    assert np.abs(np.corrcoef(states.T) - np.eye(8)).max() < 5 / np.sqrt(len(states))


@pytest.mark.parametrize("state_dim", [1, 2, 8, 100])
def test_distance_is_that_of_the_largest_channel(state_dim):
    """One channel lies exactly d outside the cube, and no other lies further."""
    shell = probes.out_of_distribution(state_dim)
    states = shell.states.astype(np.float64)
    outside = np.maximum(-states, states - 1)
    np.testing.assert_array_equal(outside.max(axis=1), shell.distances.astype(np.float64))
    assert ((shell.distances > 0) & (shell.distances <= 1)).all()
    assert ((states >= -1) & (states <= 2)).all()
    assert shell.states.dtype == np.float32
    assert shell.distances.dtype == np.float32
    assert shell.states.shape == (10_000, state_dim)
    assert shell.distances.shape == (10_000,)


def test_distances_are_uniform():
    """d is uniform on (0, 1]."""
    assert stats.kstest(probes.out_of_distribution(3).distances, "uniform").pvalue > 1e-4


def test_shell_uses_every_face_and_fills_it():
    """Which channel lies on the shell, and on which side, is uniform; the others are uniform in [-d, 1+d]."""
    shell = probes.out_of_distribution(5, 20_000)
    states, d = shell.states.astype(np.float64), shell.distances.astype(np.float64)[:, np.newaxis]
    below, above = states == -d, states == 1 + d
    assert (below.sum(axis=1) + above.sum(axis=1) == 1).mean() > 0.999
    faces = np.concatenate([below.sum(axis=0), above.sum(axis=0)])
    assert stats.chisquare(faces).pvalue > 1e-4
    others = ((states + d) / (1 + 2 * d))[~(below | above)]
    assert stats.kstest(others, "uniform").pvalue > 1e-4


def test_seeds_name_probes():
    """A seed gives the same probes again, another seed others; the two kinds share no draws."""
    np.testing.assert_array_equal(probes.within(4, 100, seed=3), probes.within(4, 100, seed=3))
    one, same = probes.out_of_distribution(4, 100, seed=3), probes.out_of_distribution(4, 100, seed=3)
    np.testing.assert_array_equal(one.states, same.states)
    np.testing.assert_array_equal(one.distances, same.distances)
    assert not np.isin(probes.within(4, 100, seed=4), probes.within(4, 100, seed=3)).any()
    assert not np.isin(probes.out_of_distribution(4, 100, seed=4).distances, one.distances).any()
    # drawn from one stream, the first numbers of both kinds would be nearly the same
    inside, outside = probes.within(1, 1000, seed=3)[:, 0], probes.out_of_distribution(1, 1000, seed=3)
    assert abs(np.corrcoef(inside, outside.distances)[0, 1]) < 5 / np.sqrt(1000)


def test_fewer_probes_are_the_first_of_more():
    """In-distribution probes are a prefix: asking for fewer gives the first ones."""
    np.testing.assert_array_equal(probes.within(6, 50), probes.within(6)[:50])


def test_defaults_are_ten_thousand_of_seed_zero():
    """What every table is computed on: 10,000 probes, seed 0."""
    np.testing.assert_array_equal(probes.within(8), probes.within(8, 10_000, 0))
    default = probes.out_of_distribution(8)
    np.testing.assert_array_equal(default.states, probes.out_of_distribution(8, 10_000, 0).states)


def test_platform_tag_says_what_bits_depend_on():
    """The tag is text throughout, the same at each call, and survives JSON."""
    tag = platform_tag()
    assert set(tag) == {"machine", "vendor", "cpu_capability", "torch", "numpy", "blas"}
    assert all(isinstance(value, str) and value for value in tag.values())
    assert json.loads(json.dumps(tag)) == platform_tag()
