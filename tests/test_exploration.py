"""Exploration: what is claimed in closed form is what the actions do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from smeoffline.data.exploration import (
    EXPLORATIONS,
    OU_THETA,
    Exploration,
    UniformAction,
    bivariate_normal_cdf,
    phi,
)

KINDS: dict[str, type[Exploration]] = {**EXPLORATIONS, UniformAction.name: UniformAction}
SIGMAS = {
    "none": (0.0,),
    "probit": (0.02, 0.3, 1.0, 4.0),
    "gaussian": (0.02, 0.3, 1.5),
    "uniform": (0.2, 0.5, 0.8, 1.0),
    "ou": (0.3, 1.0),
    "random": (0.0,),
}
CASES = [pytest.param(name, sigma, id=f"{name}-{sigma:g}") for name, sizes in SIGMAS.items() for sigma in sizes]
WITH_DENSITY = [case for case in CASES if KINDS[case.values[0]].has_density]

U = np.array([-3.0, -1.2, -0.3, 0.0, 0.5, 2.1])  # pre-activations of six channels, exact in float32
SAMPLES = 100_000
WITHIN = 5.0  # standard errors: one false alarm in about 10^6 comparisons, and the seeds are fixed


def intended() -> tuple[np.ndarray, np.ndarray]:
    """U and m = Phi(U) as the rollout has them (float32 values), in float64."""
    return U, phi(U.astype(np.float32)).astype(np.float64)


def sampled(kind: Exploration, n: int = SAMPLES, steps: int = 5) -> np.ndarray:
    """n actions (n, 6) of the last of a few steps, through draw, prepare and act as the rollout uses them."""
    stream = np.random.default_rng(7)
    u = U.astype(np.float32)[np.newaxis]
    width = kind.width(len(U))
    noise = kind.draw(stream, steps * n, len(U)).reshape(steps, n, width)
    actions = kind.act(u, phi(u), kind.prepare(noise)[-1])
    return np.broadcast_to(actions, (n, len(U))).astype(np.float64)


@pytest.fixture(scope="module")
def actions_of():
    """Samples of each case, drawn once."""
    kept: dict[tuple[str, float], np.ndarray] = {}

    def get(name: str, sigma: float) -> np.ndarray:
        if (name, sigma) not in kept:
            kept[name, sigma] = sampled(KINDS[name](sigma))
        return kept[name, sigma]

    return get


def test_every_registered_kind_is_tested():
    """A kind that is added to the registry has sizes to be tested at."""
    assert set(SIGMAS) == set(KINDS)
    assert all(name == kind.name for name, kind in KINDS.items())


@pytest.mark.parametrize(("name", "sigma"), CASES)
def test_actions_stay_in_the_cube(name, sigma, actions_of):
    """Whatever the kind and its size, actions are float32 in [0, 1]."""
    kind = KINDS[name](sigma)
    u = U.astype(np.float32)[np.newaxis]
    noise = kind.prepare(kind.draw(np.random.default_rng(0), 3, 6)[:, np.newaxis])
    assert kind.act(u, phi(u), noise[2]).dtype == np.float32
    actions = actions_of(name, sigma)
    assert actions.min() >= 0
    assert actions.max() <= 1


@pytest.mark.parametrize(("name", "sigma"), CASES)
def test_mean_is_the_mean_of_the_actions(name, sigma, actions_of):
    """The least-squares clone is the mean of sampled actions, within its standard error."""
    actions = actions_of(name, sigma)
    error = actions.std(axis=0) / np.sqrt(SAMPLES)
    np.testing.assert_array_less(
        np.abs(actions.mean(axis=0) - KINDS[name](sigma).mean(*intended())), WITHIN * error + 1e-6
    )


@pytest.mark.parametrize(("name", "sigma"), CASES)
def test_median_halves_the_actions(name, sigma, actions_of):
    """Half of the sampled actions lie on either side of the least-absolute clone, atoms counted on both."""
    actions = actions_of(name, sigma)
    median = KINDS[name](sigma).median(*intended())
    slack = WITHIN * 0.5 / np.sqrt(SAMPLES)
    tiny = 1e-6  # actions are float32
    assert ((actions <= median + tiny).mean(axis=0) >= 0.5 - slack).all()
    assert ((actions >= median - tiny).mean(axis=0) >= 0.5 - slack).all()


@pytest.mark.parametrize(("name", "sigma"), CASES)
@pytest.mark.parametrize("x", [0.0, 0.05, 0.3, 0.55, 0.8, 0.99])
def test_cdf_counts_the_actions(name, sigma, x, actions_of):
    """F(x) is the share of sampled actions at or below x, atoms at the bounds included."""
    u, m = intended()
    found = (actions_of(name, sigma) <= x).mean(axis=0)
    # F a float32 step to either side: an action within it may have been rounded across x
    low, high = (KINDS[name](sigma).cdf(u, m, np.full_like(m, np.clip(x + step, 0, 1))) for step in (-6e-8, 6e-8))
    low, high = (p + sign * WITHIN * np.sqrt(p * (1 - p) / SAMPLES) for p, sign in ((low, -1), (high, 1)))
    assert (low - 1e-9 <= found).all()
    assert (found <= high + 1e-9).all()


@pytest.mark.parametrize(("name", "sigma"), CASES)
@pytest.mark.parametrize("c", [0.0, 0.03, 0.4, 0.77, 1.0])
def test_expected_distance_is_the_mean_distance(name, sigma, c, actions_of):
    """E|A - c| = 2 I(c) + 1 - c - I(1) is the mean distance of sampled actions from c."""
    kind, (u, m) = KINDS[name](sigma), intended()
    at = np.full_like(m, c)
    expected = 2 * kind.cdf_integral(u, m, at) + 1 - at - kind.cdf_integral(u, m, np.ones_like(m))
    distance = np.abs(actions_of(name, sigma) - c)
    error = distance.std(axis=0) / np.sqrt(SAMPLES)
    np.testing.assert_array_less(np.abs(distance.mean(axis=0) - expected), WITHIN * error + 1e-6)


@pytest.mark.parametrize(("name", "sigma"), CASES)
@pytest.mark.parametrize("c", [0.03, 0.4, 0.77, 1.0])
def test_integral_of_the_cdf_is_the_integral_of_the_cdf(name, sigma, c):
    """I(c) in closed form equals numerical quadrature of F."""
    kind, (u, m) = KINDS[name](sigma), intended()
    found = kind.cdf_integral(u, m, np.full_like(m, c))
    for channel in range(len(U)):
        one = slice(channel, channel + 1)

        def f(x: float, one: slice = one) -> float:
            return float(kind.cdf(u[one], m[one], np.array([x]))[0])

        # the breaks tell the integrator where F jumps or rises steeply
        breaks = [b for b in m[channel] + np.array([-0.05, -0.01, 0.0, 0.01, 0.05]) if 0 < b < c]
        expected, _ = integrate.quad(f, 0.0, c, points=breaks or None, limit=400)
        assert found[channel] == pytest.approx(expected, abs=2e-7)


@pytest.mark.parametrize(("name", "sigma"), CASES)
def test_distance_from_the_bounds_is_the_mean(name, sigma):
    """I(0) = 0; the expected distance from 0 is the mean, and from 1 what is left of it."""
    kind, (u, m) = KINDS[name](sigma), intended()
    nothing = kind.cdf_integral(u, m, np.zeros_like(m))
    np.testing.assert_allclose(nothing, 0, atol=1e-12)
    everything = kind.cdf_integral(u, m, np.ones_like(m))
    np.testing.assert_allclose(2 * nothing + 1 - 0 - everything, kind.mean(u, m), atol=1e-12)
    np.testing.assert_allclose(2 * everything + 1 - 1 - everything, 1 - kind.mean(u, m), atol=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS["probit"])
def test_mean_of_probit_has_the_published_form(sigma):
    """E[Phi(u + sigma eps)] = Phi(u / sqrt(1 + sigma^2))."""
    expected = special.ndtr(U / np.sqrt(1 + sigma**2))
    np.testing.assert_allclose(KINDS["probit"](sigma).mean(*intended()), expected, atol=1e-12)


@pytest.mark.parametrize("sigma", SIGMAS["uniform"])
def test_mean_of_uniform_has_the_published_form(sigma):
    """E[A] = (1 - sigma) m + sigma / 2."""
    u, m = intended()
    np.testing.assert_allclose(KINDS["uniform"](sigma).mean(u, m), (1 - sigma) * m + sigma / 2, atol=1e-12)


def test_probit_is_never_clipped():
    """Probit actions lie strictly inside (0, 1) where gaussian ones pile up at the bounds."""
    probit, gaussian = sampled(KINDS["probit"](0.3), 20_000), sampled(KINDS["gaussian"](0.3), 20_000)
    assert ((probit > 0) & (probit < 1)).all()
    assert (gaussian == 0).mean() > 0.01
    assert (gaussian == 1).mean() > 0.01


@pytest.mark.parametrize("sigma", [0.2, 0.7])
def test_uniform_replaces_whole_vectors(sigma):
    """A step is either the intended vector in every channel or in none, in the given share of steps."""
    actions = sampled(KINDS["uniform"](sigma), 20_000)
    kept = actions == intended()[1]
    assert np.isin(kept.sum(axis=1), (0, len(U))).all()
    error = np.sqrt(sigma * (1 - sigma) / len(kept))
    assert abs(1 - kept.all(axis=1).mean() - sigma) < WITHIN * error


def test_ou_is_stationary_and_correlated_in_time():
    """From its first step on x_t has standard deviation sigma, and autocorrelation 0.85^lag."""
    episodes, steps, sigma = 20_000, 12, 0.05  # 0.5 lies ten sigma from the bounds: nothing is clipped
    kind = KINDS["ou"](sigma)
    noise = np.stack([kind.draw(np.random.default_rng(i), steps, 1) for i in range(episodes)], axis=1)
    prepared = kind.prepare(noise)
    zero = np.zeros((episodes, 1), np.float32)
    x = np.stack([kind.act(zero, phi(zero), step)[:, 0] for step in prepared]).astype(np.float64) - 0.5
    np.testing.assert_allclose(x.std(axis=1), sigma, rtol=WITHIN / np.sqrt(2 * episodes))
    for lag in (1, 4, 11):
        found = np.mean([np.corrcoef(x[t], x[t + lag])[0, 1] for t in range(steps - lag)])
        assert found == pytest.approx((1 - OU_THETA) ** lag, abs=WITHIN / np.sqrt(episodes))
    assert OU_THETA == 0.15


def test_prepare_leaves_the_drawn_noise_alone():
    """The OU process is made in a copy: the drawn noise can be used again."""
    noise = np.random.default_rng(0).standard_normal((4, 3, 2), dtype=np.float32)
    before = noise.copy()
    KINDS["ou"](0.3).prepare(noise)
    np.testing.assert_array_equal(noise, before)


@pytest.mark.parametrize(("name", "sigma"), WITH_DENSITY)
@pytest.mark.parametrize("channel", range(len(U)))
def test_density_is_the_slope_of_the_cdf(name, sigma, channel):
    """exp(log_density) of an action equals the slope of F there."""
    kind, u = KINDS[name](sigma), U[channel : channel + 1]
    m = special.ndtr(u)
    eps = special.ndtri(np.linspace(0.01, 0.99, 21))  # what this behavior does, without its rarest actions
    eps = eps[np.abs(u + sigma * eps) < 3.5] if name == "probit" else eps
    x = special.ndtr(u + sigma * eps) if name == "probit" else special.ndtr(eps)
    h = 1e-5 * x * (1 - x)
    slope = (kind.cdf(u, m, x + h) - kind.cdf(u, m, x - h)) / (2 * h)
    assert len(x) >= 10
    density = kind.log_density(u.astype(np.float32), eps.astype(np.float32)[:, np.newaxis])
    np.testing.assert_allclose(density, np.log(slope), atol=2e-4)


@pytest.mark.parametrize(("name", "sigma"), [("probit", 0.3), ("probit", 0.7), ("random", 0.0)])
@pytest.mark.parametrize("channel", range(len(U)))
def test_density_integrates_to_one(name, sigma, channel):
    """The density of one channel's action integrates to 1 over [0, 1]."""
    kind, u = KINDS[name](sigma), U[channel : channel + 1]
    x = special.ndtr(np.linspace(-8, 8, 20_001))  # dense where the density is steep
    eps = (special.ndtri(x) - u) / sigma if name == "probit" else x
    density = np.exp(kind.log_density(u.astype(np.float32), eps.astype(np.float32)[:, np.newaxis]).astype(np.float64))
    assert integrate.trapezoid(density, x) == pytest.approx(1, abs=1e-4)


def test_density_of_a_vector_is_the_product_over_channels():
    """Channels are independent: the log-density of an action vector is the sum over its channels."""
    kind, u = KINDS["probit"](0.4), U.astype(np.float32)
    noise = np.random.default_rng(3).standard_normal((50, len(U)), dtype=np.float32)
    each = [kind.log_density(u[j : j + 1], noise[:, j : j + 1]) for j in range(len(U))]
    np.testing.assert_allclose(kind.log_density(u, noise), np.sum(each, axis=0), atol=1e-4)
    assert kind.log_density(u, noise).dtype == np.float32


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if not kind.has_density])
def test_kinds_with_atoms_have_no_density(name):
    """Asking for a density that does not exist is an error, never a number."""
    with pytest.raises(NotImplementedError, match=name):
        KINDS[name](0.3).log_density(np.zeros(1, np.float32), np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("rho", [-0.999, -0.7, -0.1, 0.0, 0.4, 0.95])
def test_bivariate_normal_cdf_is_scipys(rho):
    """Owen's T gives P(X <= h, Y <= k), at zeros and of either sign."""
    points = np.array([-6.0, -2.2, -0.4, -1e-9, -0.0, 0.0, 1e-9, 0.3, 1.0, 5.5])
    h, k = (part.ravel() for part in np.meshgrid(points, points))
    expected = stats.multivariate_normal([0, 0], [[1, rho], [rho, 1]]).cdf(np.stack([h, k], axis=1))
    np.testing.assert_allclose(bivariate_normal_cdf(h, k, rho), expected, atol=1e-8)


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.7])
def test_bivariate_normal_cdf_at_infinity_is_the_marginal(rho):
    """P(X <= h, Y <= inf) = Phi(h) and P(X <= h, Y <= -inf) = 0; far finite bounds say the same."""
    h = np.array([-3.0, -0.0, 0.0, 0.2, 4.0, 60.0, -60.0])
    for far in (np.inf, 1e6):
        np.testing.assert_allclose(bivariate_normal_cdf(h, np.full_like(h, far), rho), special.ndtr(h), atol=1e-12)
        np.testing.assert_allclose(bivariate_normal_cdf(h, np.full_like(h, -far), rho), 0, atol=1e-12)


def test_far_intentions_and_tiny_noise_stay_finite():
    """Pre-activations far outside and noise far below resolution give numbers, not nan."""
    u = np.array([-300.0, -41.0, 41.0, 300.0])
    m = special.ndtr(u)
    for sigma in (1e-9, 1.0, 1000.0):
        kind = KINDS["probit"](sigma)
        for c in (0.0, 0.5, 1.0):
            integral = kind.cdf_integral(u, m, np.full_like(u, c))
            assert np.isfinite(integral).all()
            assert ((integral >= -1e-12) & (integral <= c + 1e-12)).all()
        np.testing.assert_allclose(kind.mean(u, m), special.ndtr(u / np.sqrt(1 + sigma**2)), atol=1e-9)
