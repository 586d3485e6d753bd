"""Records of off-policy evaluation, and how well each method ranks policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from smeoffline.score.ranks import rank_correlation

SCHEMA = 1
FEWEST_RANKED = 3  # a rank correlation of two policies is 1 or -1, whatever the estimates are worth
TOP = (1, 3, 5)  # k of regret@k, where there are more policies than that


@dataclass(frozen=True)
class Estimate:
    """What one method says of one policy, as a mean reward a step.

    Attributes:
        value: The estimate; None where importance weights are too large for a float.
        standard_error: Of sampling alone: over starts for `fqe`, over episodes for the others. The error of a
            fitted model is not in it, and importance sampling's is too small where few episodes have all weight. None
            for data of one episode.
        error: value - true.
        effective_samples: Of importance sampling: episodes that the weights leave, of those in the data.
    """

    value: float | None
    standard_error: float | None
    error: float | None
    effective_samples: float | None


@dataclass(frozen=True)
class PolicyEstimates:
    """One policy.

    Attributes:
        name: As it was given.
        true: Its measured value, a mean reward a step.
        standard_error: Of that; None for a single rollout.
        estimates: By method.
    """

    name: str
    true: float
    standard_error: float | None
    estimates: Mapping[str, Estimate]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return asdict(self)


@dataclass(frozen=True)
class MethodScore:
    """One method over all policies, by the measures of Fu et al. 2021 (DOPE, arXiv 2103.16596), rewards a step.

    Attributes:
        mean_absolute_error: Over the policies it has an estimate for; None without any.
        rank_correlation: Spearman's, of its estimates with the true values; None where nothing can be ranked, and
            below three estimates.
        regret: (k, regret@k): what the best of all is worth more than the best among the k that the method ranks
            first; only for k below the number of policies, and None where nothing can be ranked.
    """

    mean_absolute_error: float | None
    rank_correlation: float | None
    regret: tuple[tuple[int, float | None], ...]

    def to_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {**asdict(self), "regret": [{"k": k, "regret": regret} for k, regret in self.regret]}


@dataclass(frozen=True)
class OffPolicy:
    """Off-policy evaluation of policies on a dataset.

    Attributes:
        dataset_id: Which.
        discount: Of rewards.
        horizon: Steps that count.
        scale: Sum of discount^t over them; a value here times scale is the discounted return.
        sigma: Noise around every policy, in the true values too.
        fqe_steps: Updates of fitted Q evaluation.
        episodes: Of each true value.
        seed: What drew everything.
        policies: In the order given.
        methods: By name.
        notes: What a reader of the numbers should know.
    """

    dataset_id: str
    discount: float
    horizon: int
    scale: float
    sigma: float
    fqe_steps: int
    episodes: int
    seed: int
    policies: tuple[PolicyEstimates, ...]
    methods: Mapping[str, MethodScore]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        plain = {k: v for k, v in vars(self).items() if k not in ("policies", "methods", "notes")}
        policies = [policy.to_dict() for policy in self.policies]
        return {
            "schema": SCHEMA,
            **plain,
            "notes": list(self.notes),
            "policies": policies,
            "methods": {k: m.to_dict() for k, m in self.methods.items()},
        }


def method_scores(policies: Sequence[PolicyEstimates]) -> dict[str, MethodScore]:
    """How well each method estimates and ranks the policies."""
    return {method: _score(method, policies) for method in policies[0].estimates}


def _score(method: str, policies: Sequence[PolicyEstimates]) -> MethodScore:
    pairs = [(p.estimates[method].value, p.true) for p in policies]
    known = np.array([(value, true) for value, true in pairs if value is not None], np.float64).reshape(-1, 2)
    if not len(known):
        return MethodScore(None, None, tuple((k, None) for k in TOP if k < len(policies)))
    values, true = known.T
    ranks = rank_correlation(values, true)
    best = max(p.true for p in policies)
    order = np.argsort(-values, kind="stable")
    regret = tuple(
        (k, best - float(true[order[:k]].max()) if ranks is not None else None) for k in TOP if k < len(policies)
    )
    return MethodScore(float(np.abs(values - true).mean()), ranks if len(known) >= FEWEST_RANKED else None, regret)
