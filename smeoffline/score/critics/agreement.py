"""What a trained critic says, against Q*, which is exact, and against Q^pi of its own policy, which is measured.

Every learner here bootstraps at truncation and sees the reward as it is, so what its Q should find is
`optimal_q` at its own discount. Q is the mean of the ensemble, as d3rlpy's `predict_value` gives it; targets are
built from the lesser of two critics, so the minimum's bias is told beside. V is the value network where there is
one (IQL), else Q of the policy's own action.

Some critics aim elsewhere by design, and differ from Q* for it: SAC adds the entropy of its policy, CQL, Cal-QL
and ReBRAC subtract a penalty, IQL takes an expectile of what the data show, and AWAC and CRR evaluate a policy
that explores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from smeoffline.data.acting import Policy
from smeoffline.data.recipe import Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.errors import PolicyError
from smeoffline.score.critics.probes import CriticProbes, critic_probes
from smeoffline.score.critics.records import Agreement, CriticValues, DistanceError, Points, RolledAgreement
from smeoffline.score.evaluate import CHUNK, act, checked_policy
from smeoffline.score.ranks import mean_rank_correlation, rank_correlation
from smeoffline.score.true_values import ROLLOUTS, noise_ceiling, policy_q
from smeoffline.sme import probes
from smeoffline.sme.arrays import Doubles, Floats
from smeoffline.sme.model import Sme
from smeoffline.sme.values import check_exact, optimal_q

ROLLED_PROBES = 64  # states and actions of each kind whose Q^pi is measured
BINS, FARTHEST = 10, 0.5  # of an action's distance; actions drawn towards random ones hardly come farther
POINTS = 60  # of each kind that a figure shows, at least, where there are so many

Critic = Callable[[Floats, Floats], Mapping[str, Floats]]
"""Observations (B, N_s + 2), actions (B, N_a) -> `q_funcs` (critics, B), and `value_func` (B,) where there is one."""

Tell = Callable[[str], None]
"""Called often with what is being done, in a few words."""


def untold(what: str) -> None:
    """Tell nobody."""
    del what


def critic_values(
    critic: Critic,
    policy: Policy,
    recipe: Recipe,
    *,
    discount: float,
    n_probes: int = probes.DEFAULT_PROBES,
    seed: int = probes.DEFAULT_SEED,
    rolled_probes: int = ROLLED_PROBES,
    rollouts: int = ROLLOUTS,
    tell: Tell = untold,
) -> CriticValues:
    """Compare a critic with Q*, and with Q^pi of its policy.

    The exact part takes seconds for 10,000 probes. The measured part costs `2 rolled_probes x rollouts` rollouts of
    459 steps at a discount of 0.99. On one core that is 15 s for the default task, and two minutes with 32 state
    channels and complexity 50.

    Args:
        critic: What is asked.
        policy: Its greedy policy.
        recipe: Of the dataset it was trained on.
        discount: It was trained with.
        n_probes: Of each kind.
        seed: In [0, 2^32); draws all probes and perturbations.
        rolled_probes: Of `policy` and of `uniform`; 0 to leave Q^pi out.
        rollouts: Of each, >= 2.
        tell: Told what is being done.

    Returns:
        The same numbers each time.

    Raises:
        SpecError: Q* is not known for this task or discount.
        PolicyError: The critic or the policy returns something else than finite numbers of its shape.
    """
    check_exact(recipe.task, discount)
    checked = checked_policy(policy, recipe.task.action_dim)
    rollout = Rollout.prepare(recipe)
    tell("critics beside Q*")
    asked = [
        _Asked.of(p, critic, checked, rollout.sme, discount) for p in critic_probes(rollout, checked, n_probes, seed)
    ]
    by_name = {a.probes.name: a for a in asked}
    uniform = by_name["uniform"]
    optimal = [a.agreement() for a in asked]
    if uniform.has_value:
        optimal.append(by_name["policy"].value_agreement())
    random = any(c.behavior.base == "random" for c in recipe.mix)
    rolled = [by_name["policy"].first(rolled_probes), uniform.first(rolled_probes)] if rolled_probes else []
    own = [_roll(a, checked, rollout.sme, discount, seed, rollouts, tell) for a in rolled]
    return CriticValues(
        discount=discount,
        critics=len(uniform.q),
        baseline="value_func" if uniform.has_value else "policy",
        optimal=tuple(optimal),
        by_distance=() if random else uniform.by_distance(),
        own=tuple(agreement for agreement, _ in own),
        points=(*(a.points() for a in asked), *(points for _, points in own)),
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """Probes with what the critic says of them and what is true.

    Attributes:
        probes: n of them.
        q: (critics, n).
        v: (n,) V, or Q of the policy's action.
        q_star: (n,).
        v_star: (n,).
        has_value: Whether V is a network of its own.
    """

    probes: CriticProbes
    q: Doubles
    v: Doubles
    q_star: Doubles
    v_star: Doubles
    has_value: bool

    @classmethod
    def of(cls, probes_: CriticProbes, critic: Critic, policy: Policy, sme: Sme, discount: float) -> _Asked:
        """Ask."""
        seen, states = probes_.observations, np.ascontiguousarray(probes_.observations[:, :-2])
        said = _ask(critic, seen, probes_.actions)
        q, v = said["q_funcs"], said.get("value_func")
        if v is None:
            # once a state, however many of its actions were asked about
            first = seen[:: probes_.per_state]
            v = np.repeat(_ask(critic, first, act(policy, first))["q_funcs"].mean(axis=0), probes_.per_state)
        best = sme.optimal_action(states)
        return cls(
            probes=probes_,
            q=q,
            v=v,
            q_star=optimal_q(sme, states, probes_.actions, discount),
            v_star=optimal_q(sme, states, best, discount),
            has_value="value_func" in said,
        )

    def agreement(self) -> Agreement:
        """Q beside Q*."""
        q, several = self.q.mean(axis=0), self.probes.per_state
        true, minimum = float(self.q_star.mean()), float(self.q.min(axis=0).mean())
        rows = (-1, several)
        within = mean_rank_correlation(q.reshape(rows), self.q_star.reshape(rows)) if several > 1 else None
        return Agreement(
            probes=self.probes.name,
            n=len(q),
            true=true,
            estimate=float(q.mean()),
            bias=float(q.mean()) - true,
            minimum_bias=minimum - true,
            rmse=_rms(q - self.q_star),
            scatter=float((q - self.q_star).std()),
            rank_correlation=rank_correlation(q - self.v, self.q_star - self.v_star),
            action_rank_correlation=within,
        )

    def value_agreement(self) -> Agreement:
        """V beside V*; their ranks say something only where shaping makes V* differ."""
        true, estimate = float(self.v_star.mean()), float(self.v.mean())
        error = self.v - self.v_star
        return Agreement(
            probes="value",
            n=len(error),
            true=true,
            estimate=estimate,
            bias=estimate - true,
            minimum_bias=None,
            rmse=_rms(error),
            scatter=float(error.std()),
            rank_correlation=rank_correlation(self.v, self.v_star),
            action_rank_correlation=None,
        )

    def by_distance(self) -> tuple[DistanceError, ...]:
        """Bias and error in equal bins of the action's distance."""
        distances, error = self.probes.distances, self.q.mean(axis=0) - self.q_star
        if distances is None:
            return ()
        index = np.clip(np.ceil(distances / FARTHEST * BINS).astype(np.int64) - 1, 0, BINS - 1)
        found = []
        for i in range(BINS):
            inside = error[index == i]
            middle = round((i + 0.5) * FARTHEST / BINS, 6)
            if len(inside):
                bias, rmse, scatter = float(inside.mean()), _rms(inside), float(inside.std())
                found.append(DistanceError(middle, bias, rmse, scatter, len(inside)))
            else:
                found.append(DistanceError(middle, None, None, None, 0))
        return tuple(found)

    def first(self, n: int) -> _Asked:
        """The first action of each of the first n states."""
        several = self.probes.per_state
        rows = slice(0, n * several, several)
        few = CriticProbes(self.probes.name, self.probes.observations[rows], self.probes.actions[rows])
        return _Asked(few, self.q[:, rows], self.v[rows], self.q_star[rows], self.v_star[rows], self.has_value)

    def points(self) -> Points:
        """As many as a figure shows, spread over all."""
        every = max(1, len(self.q_star) // POINTS)
        return Points(self.probes.name, self.q_star[::every], self.q.mean(axis=0)[::every])


def _roll(
    asked: _Asked, policy: Policy, sme: Sme, discount: float, seed: int, rollouts: int, tell: Tell
) -> tuple[RolledAgreement, Points]:
    """Q beside Q^pi."""
    seen, q = asked.probes.observations, asked.q.mean(axis=0)
    states = np.ascontiguousarray(seen[:, :-2])
    measured = policy_q(
        sme,
        lambda o: act(policy, o),
        states,
        asked.probes.actions,
        discount=discount,
        seed=seed,
        rollouts=rollouts,
        progress=lambda step, steps: tell(f"{asked.probes.name} rollouts, step {step}/{steps}"),
    )
    true, errors = measured.mean, measured.standard_error
    agreement = RolledAgreement(
        probes=asked.probes.name,
        n=len(true),
        rollouts=rollouts,
        steps=measured.steps,
        tail=measured.tail,
        true=float(true.mean()),
        standard_error=float(np.sqrt((errors**2).sum()) / len(errors)),
        estimate=float(q.mean()),
        bias=float(q.mean() - true.mean()),
        rmse=_rms(q - true),
        scatter=float((q - true).std()),
        noise=_rms(errors),
        rank_correlation=rank_correlation(q, true),
        noise_ceiling=noise_ceiling(true, errors, seed),
    )
    return agreement, Points(asked.probes.name, true, q, errors)


def _ask(critic: Critic, observations: Floats, actions: Floats) -> dict[str, Doubles]:
    """A critic's answers, asked for in chunks, as float64.

    Raises:
        PolicyError: Another shape, or not finite.
    """
    n = len(observations)
    parts = [critic(observations[i : i + CHUNK], actions[i : i + CHUNK]) for i in range(0, n, CHUNK)]
    said = {k: np.concatenate([np.asarray(p[k], np.float64) for p in parts], axis=-1) for k in parts[0]}
    for name, values in said.items():
        if values.shape[-1:] != (n,) or values.ndim != (2 if name == "q_funcs" else 1):
            raise PolicyError(f"critic: expected {name} for {n} probes, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise PolicyError(f"critic: expected finite {name}, got NaN or infinity: it diverged")
    return said


def _rms(errors: Doubles) -> float:
    return float(np.sqrt((errors**2).mean()))
