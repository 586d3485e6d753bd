"""Records of a critic beside the truth: plain numbers, and the points that a figure shows."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from smeoffline.sme.arrays import Doubles


@dataclass(frozen=True)
class Agreement:
    """A critic beside Q* on one kind of probes.

    Attributes:
        probes: `data`, `uniform`, `policy` or `ood`; `value` for V beside V*.
        n: Probes.
        true: Mean of the exact values.
        estimate: Mean of what the critic says.
        bias: estimate - true: above 0 the critic overestimates.
        minimum_bias: The same for the least of the ensemble; None for `value`.
        rmse: Root mean squared error.
        scatter: Its part that is not bias: the standard deviation of the error.
        rank_correlation: Spearman's, of the advantages Q - V with A* over all probes (for `value`, of V with V*); None
            where either is constant.
        action_rank_correlation: Spearman's, of Q with Q* over the ten actions of one state, averaged over states
            where the actions differ in value; None where probes have one action a state.
    """

    probes: str
    n: int
    true: float
    estimate: float
    bias: float
    minimum_bias: float | None
    rmse: float
    scatter: float
    rank_correlation: float | None
    action_rank_correlation: float | None


@dataclass(frozen=True)
class DistanceError:
    """Error of Q on the `uniform` probes in one bin of the action's distance from the behavior's intention.

    Attributes:
        distance: The bin's middle, in (0, 0.5]; the last bin has all that is farther.
        bias: As in `Agreement`; None without probes.
        rmse: Likewise.
        scatter: Likewise.
        n: Probes in it.
    """

    distance: float
    bias: float | None
    rmse: float | None
    scatter: float | None
    n: int


@dataclass(frozen=True)
class RolledAgreement:
    """A critic beside Q^pi of its own (greedy) policy, measured by rollouts.

    Attributes:
        probes: `policy` or `uniform`, the first ones of each.
        n: States and actions.
        rollouts: Of each.
        steps: Of each rollout.
        tail: Mean of what was added for the steps beyond.
        true: Mean of the measured values.
        standard_error: Of that mean.
        estimate: Mean of what the critic says.
        bias: estimate - true.
        rmse: Root mean squared difference, the noise of the measured values included.
        scatter: Its part that is not bias.
        noise: The measured values' root mean squared standard error: the rmse of a perfect critic.
        rank_correlation: Spearman's, of Q with Q^pi.
        noise_ceiling: What a perfect critic would reach, given the noise.
    """

    probes: str
    n: int
    rollouts: int
    steps: int
    tail: float
    true: float
    standard_error: float
    estimate: float
    bias: float
    rmse: float
    scatter: float
    noise: float
    rank_correlation: float | None
    noise_ceiling: float


@dataclass(frozen=True, eq=False)
class Points:
    """What a figure shows of one kind of probes.

    Attributes:
        probes: `data`, `uniform`, `policy` or `ood`.
        true: (n,) true values: Q*, or Q^pi where there are standard errors.
        estimate: (n,) what the critic says.
        standard_error: (n,) of the true values; None where they are exact.
    """

    probes: str
    true: Doubles
    estimate: Doubles
    standard_error: Doubles | None = None


@dataclass(frozen=True)
class CriticValues:
    """A trained critic against the truth.

    Attributes:
        discount: The learner's.
        critics: In the ensemble whose mean is Q.
        baseline: What V is: `value_func`, or `policy` for Q of the policy's action.
        optimal: Beside Q* (and V beside V*), by kind of probes.
        by_distance: Bias and error by the action's distance from the data; empty where the behavior is random.
        own: Beside Q^pi, by kind of probes; empty where no probes were rolled out.
        points: For figures, not in the record.
    """

    discount: float
    critics: int
    baseline: str
    optimal: tuple[Agreement, ...]
    by_distance: tuple[DistanceError, ...]
    own: tuple[RolledAgreement, ...]
    points: tuple[Points, ...] = field(default=(), compare=False, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields, without the points."""
        plain = {name: getattr(self, name) for name in ("discount", "critics", "baseline")}
        return plain | {name: [asdict(x) for x in getattr(self, name)] for name in ("optimal", "by_distance", "own")}
