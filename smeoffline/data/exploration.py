"""Exploration: how an action scatters around what the behavior means to do.

With u the pre-activation of the intended action and m = Phi(u), each kind gives the action for given
noise, and what follows from its distribution in closed form. One integral carries most of it: with F
the CDF of one channel's action A in [0, 1] and `I(c) = integral of F over [0, c]`,

    E[A] = 1 - I(1)        E|A - c| = 2 I(c) + 1 - c - I(1)        (c in [0, 1])
"""

from __future__ import annotations

import abc
import math
from typing import ClassVar

import numpy as np
from scipy import special

from smeoffline.errors import SpecError
from smeoffline.sme.arrays import Doubles, Floats

LOG_SQRT_2PI = 0.5 * math.log(2 * math.pi)
OU_THETA = 0.15  # the usual rate of mean reversion (Lillicrap et al. 2016)
SQRT_HALF = np.float32(math.sqrt(0.5))


class Exploration(abc.ABC):
    """One kind of exploration with its size.

    Shapes: u, m (intended pre-activation and action) and c are (B, N_a) and broadcast.

    Args:
        sigma: Its size; a standard deviation, or for `uniform` a probability.
    """

    name: ClassVar[str]
    approximate: ClassVar[bool] = False  # the clones below ignore that noise is correlated in time
    has_density: ClassVar[bool] = False

    def __init__(self, sigma: float) -> None:
        self.sigma = sigma

    def width(self, action_dim: int) -> int:
        """Random numbers a step."""
        return action_dim

    def draw(self, stream: np.random.Generator, steps: int, action_dim: int) -> Floats:
        """All noise of one episode, (T, width) float32, from its own stream."""
        return stream.standard_normal((steps, self.width(action_dim)), dtype=np.float32)

    def prepare(self, noise: Floats) -> Floats:
        """What `act` takes at each step, from the drawn noise of n episodes (T, n, width)."""
        return noise

    @abc.abstractmethod
    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """Actions (n, N_a) for prepared noise (n, width) of one step."""

    @abc.abstractmethod
    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """F(x) = P(A <= x) of one channel, for x in [0, 1)."""

    @abc.abstractmethod
    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """I(c), the integral of F over [0, c], for c in [0, 1]."""

    @abc.abstractmethod
    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """The action that perfect least-absolute cloning gives."""

    def mean(self, u: Doubles, m: Doubles) -> Doubles:
        """E[A]: the action that perfect least-squares cloning gives."""
        return 1.0 - self.cdf_integral(u, m, np.ones_like(m))

    def log_density(self, u: Floats, noise: Floats) -> Floats:
        """Log-density of each action, summed over channels: (..., N_a) -> (...), where `has_density`."""
        raise NotImplementedError(f"{self.name} has no density")


class NoExploration(Exploration):
    """The intended action itself."""

    name = "none"

    def width(self, action_dim: int) -> int:
        """No noise."""
        return 0

    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """A = m."""
        return m

    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """A step at m."""
        return (x >= m).astype(np.float64)

    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """max(0, c - m)."""
        return np.maximum(0.0, c - m)

    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """The atom at m."""
        return m


class Probit(Exploration):
    """Phi(Phi^-1(m) + sigma eps), eps ~ N(0, 1): scattered before the CDF, so never clipped.

    Float32 rounds an action to 0 or 1 where |Phi^-1(m) + sigma eps| > 5.4; its log-density stays exact.
    """

    name = "probit"
    has_density = True

    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """Phi(u + sigma eps)."""
        return phi(u + np.float32(self.sigma) * noise)

    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """Phi((Phi^-1(x) - u) / sigma)."""
        return np.asarray(special.ndtr((special.ndtri(x) - u) / self.sigma), dtype=np.float64)

    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """c Phi(k) - P(X <= u + sigma eps, eps <= k), k = (Phi^-1(c) - u)/sigma: a bivariate normal."""
        norm = math.sqrt(1 + self.sigma**2)
        k = (special.ndtri(c) - u) / self.sigma
        return np.asarray(c * special.ndtr(k) - bivariate_normal_cdf(u / norm, k, -self.sigma / norm))

    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """Phi is monotone, so the median is Phi of the median: m."""
        return m

    def log_density(self, u: Floats, noise: Floats) -> Floats:
        """log phi(eps) - log sigma - log phi(u + sigma eps), summed over channels."""
        scattered = u + np.float32(self.sigma) * noise
        per_channel = 0.5 * (scattered**2 - noise**2) - np.float32(math.log(self.sigma))
        result: Floats = per_channel.sum(axis=-1, dtype=np.float32)
        return result


class Gaussian(Exploration):
    """clip(m + sigma eps), eps ~ N(0, 1)."""

    name = "gaussian"

    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """clip(m + sigma eps)."""
        return clip01(m + np.float32(self.sigma) * noise)

    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """Phi((x - m)/sigma), with atoms at 0 and 1."""
        return np.asarray(special.ndtr((x - m) / self.sigma), dtype=np.float64)

    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """sigma (G((c - m)/sigma) - G(-m/sigma)), G(y) = y Phi(y) + phi(y)."""
        difference = _normal_integral((c - m) / self.sigma) - _normal_integral(-m / self.sigma)
        return np.asarray(self.sigma * difference)

    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """Clipping leaves m, which lies in [0, 1]."""
        return m


class OrnsteinUhlenbeck(Gaussian):
    """clip(m + x_t), x an Ornstein-Uhlenbeck process of stationary standard deviation sigma, theta 0.15.

    Its clones are those of `gaussian`: approximate, since x_t is correlated with how the state was reached.
    """

    name = "ou"
    approximate = True

    def prepare(self, noise: Floats) -> Floats:
        """x_t from unit normals, started in its stationary distribution."""
        keep = np.float32(1 - OU_THETA)
        fresh = np.float32(math.sqrt(1 - (1 - OU_THETA) ** 2))
        process = np.array(noise)
        for t in range(1, len(process)):
            process[t] = keep * process[t - 1] + fresh * noise[t]
        return process


class UniformReplacement(Exploration):
    """With probability sigma per step, a uniform action vector; else m."""

    name = "uniform"

    def width(self, action_dim: int) -> int:
        """A gate and a vector."""
        return 1 + action_dim

    def draw(self, stream: np.random.Generator, steps: int, action_dim: int) -> Floats:
        """Uniform numbers, the gate first."""
        return stream.random((steps, self.width(action_dim)), dtype=np.float32)

    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """The vector where the gate is below sigma."""
        return np.where(noise[:, :1] < np.float32(self.sigma), noise[:, 1:], m)

    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """sigma x, and a jump of 1 - sigma at m."""
        return self.sigma * x + (1 - self.sigma) * (x >= m)

    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """sigma c^2/2 + (1 - sigma) max(0, c - m)."""
        return 0.5 * self.sigma * c**2 + (1 - self.sigma) * np.maximum(0.0, c - m)

    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """The intended action m where sigma m < 1/2 < sigma m + 1 - sigma, else the nearer quantile."""
        return np.clip(m, 1 - 0.5 / self.sigma, 0.5 / self.sigma)


class UniformAction(Exploration):
    """A uniform action vector at every step: what the `random` base does."""

    name = "random"
    has_density = True

    def draw(self, stream: np.random.Generator, steps: int, action_dim: int) -> Floats:
        """The actions themselves."""
        return stream.random((steps, action_dim), dtype=np.float32)

    def act(self, u: Floats, m: Floats, noise: Floats) -> Floats:
        """The drawn vector."""
        return noise

    def cdf(self, u: Doubles, m: Doubles, x: Doubles) -> Doubles:
        """F(x) = x."""
        return x + 0.0 * m

    def cdf_integral(self, u: Doubles, m: Doubles, c: Doubles) -> Doubles:
        """c^2/2."""
        return 0.5 * c**2 + 0.0 * m

    def median(self, u: Doubles, m: Doubles) -> Doubles:
        """One half."""
        return np.full_like(m, 0.5)

    def log_density(self, u: Floats, noise: Floats) -> Floats:
        """The density on the unit cube is 1."""
        return np.zeros(noise.shape[:-1], np.float32)


EXPLORATIONS: dict[str, type[Exploration]] = {
    kind.name: kind for kind in (NoExploration, Probit, Gaussian, UniformReplacement, OrnsteinUhlenbeck)
}
"""The kinds a behavior can name; `random` is a base and brings its own."""


def check_sigma(explore: str, sigma: float) -> None:
    """Refuse a size that the kind cannot have.

    Raises:
        SpecError: `none` with sigma > 0, or `uniform` with a probability above 1.
    """
    if explore == "none" and sigma > 0:
        raise SpecError(f"behavior: explore 'none' has no size, got sigma {sigma:g}; name an exploration or drop sigma")
    if explore == "uniform" and sigma > 1:
        raise SpecError(f"behavior: sigma of explore 'uniform' is a probability in [0, 1], got {sigma:g}")


def phi(z: Floats) -> Floats:
    """Standard normal CDF, float32; torch's erf, since scipy's is ten times slower."""
    import torch

    value = torch.erf(torch.from_numpy(z * SQRT_HALF)).add_(1.0).mul_(0.5)
    return value.numpy()


def clip01(x: Floats) -> Floats:
    """Clip to [0, 1] (two ufuncs: np.clip's checks cost more than the work on small arrays)."""
    return np.minimum(np.maximum(x, np.float32(0)), np.float32(1))


def _normal_integral(y: Doubles) -> Doubles:
    """G(y) = y Phi(y) + phi(y), the integral of Phi up to y."""
    return np.asarray(y * special.ndtr(y) + np.exp(-0.5 * y**2 - LOG_SQRT_2PI))


def bivariate_normal_cdf(h: Doubles, k: Doubles, rho: float) -> Doubles:
    """P(X <= h, Y <= k) of standard normals with correlation rho in (-1, 1), by Owen's T (Owen 1956).

    h must be finite; k may be infinite.
    """
    h, k = np.broadcast_arrays(np.asarray(h, np.float64), np.asarray(k, np.float64))
    far = np.clip(k, -40.0, 40.0)  # Phi is 0 or 1 in float64 long before, and infinities would give nan
    safe_h = np.where(h == 0, 1e-300, h)
    safe_k = np.where(far == 0, 1e-300, far)
    scale = math.sqrt(1 - rho**2)
    opposite = (safe_h < 0) != (safe_k < 0)
    tails = special.owens_t(safe_h, (safe_k / safe_h - rho) / scale) + special.owens_t(
        safe_k, (safe_h / safe_k - rho) / scale
    )
    return np.asarray(0.5 * (special.ndtr(safe_h) + special.ndtr(safe_k) - opposite) - tails)
