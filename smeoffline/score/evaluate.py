"""Score a policy against the known optimum, and beside what imitation could reach."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smeoffline.data.acting import Policy, PolicyActor
from smeoffline.data.recipe import Recipe
from smeoffline.data.reference import MIN_HEADROOM, references
from smeoffline.data.rollout import Rollout
from smeoffline.data.streams import fresh_seeds
from smeoffline.errors import PolicyError
from smeoffline.sme import probes
from smeoffline.sme.arrays import Floats
from smeoffline.sme.model import score
from smeoffline.sme.task import SEED_LIMIT, whole_number

if TYPE_CHECKING:
    from smeoffline.score.critics.records import CriticValues

SCHEMA = 1
EPISODES = 100  # of the behavior for score_data, of the policy for score_rollout
MIN_ROOM = 1e-3  # below it, normalized improvement is null
CURVE_BINS = 10
CHUNK = 16_384  # rows a policy is asked for at once, so that a large one needs little memory
MAX_PROBES = 10_000_000
TOLERANCE = 1e-5  # how far beyond [0, 1] an action may lie, by rounding, before it is refused


@dataclass(frozen=True)
class CurvePoint:
    """Mean score of the out-of-distribution probes in one bin of distance.

    Attributes:
        distance: The bin's middle, in (0, 1].
        score: Mean score, or None where no probe fell into the bin.
        n: Probes in it.
    """

    distance: float
    score: float | None
    n: int


@dataclass(frozen=True)
class Evaluation:
    """The content of `evaluation.json`. Nothing is clipped: worse than the behavior is negative.

    Attributes:
        schema: Version of this record.
        score_wd: Mean score on uniform probes.
        score_ood: Mean score on probes outside the cube: a diagnostic, not a ranking.
        score_data: Mean score on states that the behavior visits, in fresh episodes.
        score_rollout: Mean score along the policy's own episodes.
        return_rollout: Mean undiscounted return of those episodes.
        action_regret: 1 - score_wd.
        reward_regret: 1 - mean step reward on the uniform probes.
        behavior_score, clone_mean_score, clone_median_score, clone_shrunk_score, imitation_score, headroom,
            optimal_score, random_score: The reference rows, on the same uniform probes.
        references_approximate: Whether the clones are approximate (`ou`, mixtures).
        improvement: score_wd - behavior_score.
        normalized_improvement: improvement / (1 - behavior_score); None where that is below 1e-3.
        rl_gain: score_wd - imitation_score; None where headroom is below 0.02.
        gap_closed: rl_gain / headroom; None likewise.
        ood_curve: Score by distance from the cube.
        probes: Uniform and out-of-distribution probes, each.
        seed: What drew probes and episodes.
        values: A run's critics beside the truth; None, and not in the record, unless they were asked for.
    """

    schema: int
    score_wd: float
    score_ood: float
    score_data: float
    score_rollout: float
    return_rollout: float
    action_regret: float
    reward_regret: float
    behavior_score: float
    clone_mean_score: float
    clone_median_score: float
    clone_shrunk_score: float
    imitation_score: float
    headroom: float
    optimal_score: float
    random_score: float
    references_approximate: bool
    improvement: float
    normalized_improvement: float | None
    rl_gain: float | None
    gap_closed: float | None
    ood_curve: tuple[CurvePoint, ...]
    probes: int
    seed: int
    values: CriticValues | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON values by the names of the fields."""
        record = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "values"}
        record["ood_curve"] = [asdict(point) for point in self.ood_curve]
        return record if self.values is None else {**record, "values": self.values.to_dict()}


def evaluate_policy(
    policy: Policy, recipe: Recipe, *, n_probes: int = probes.DEFAULT_PROBES, seed: int = probes.DEFAULT_SEED
) -> Evaluation:
    """Score a policy on the task, and beside the behavior, of a dataset's recipe.

    Args:
        policy: Observations (B, N_s + 2) to actions (B, N_a) in [0, 1].
        recipe: The dataset's; its data are not needed.
        n_probes: Uniform and out-of-distribution probes, each; in [1, 10^7].
        seed: In [0, 2^32); draws probes and fresh episodes.

    Returns:
        The same numbers each time.

    Raises:
        SpecError: `n_probes` or `seed` is out of range.
        PolicyError: The policy returns another shape, or numbers that are not finite or not in [0, 1].
    """
    n_probes = whole_number("evaluate", "probes", n_probes, 1, MAX_PROBES)
    seed = whole_number("evaluate", "seed", seed, 0, SEED_LIMIT - 1)
    checked = checked_policy(policy, recipe.task.action_dim)
    rollout = Rollout.prepare(recipe)
    sme, task = rollout.sme, recipe.task

    states = probes.within(task.state_dim, n_probes, seed)
    wd = score(act_at(checked, states), sme.optimal_action(states))
    shell = probes.out_of_distribution(task.state_dim, n_probes, seed)
    ood = score(act_at(checked, shell.states), sme.optimal_action(shell.states))
    rows = references(rollout, states)

    score_wd = _mean(wd)
    gain = score_wd - rows.imitation_score if rows.headroom >= MIN_HEADROOM else None
    improvement, room = score_wd - rows.behavior_score, 1.0 - rows.behavior_score
    data_score, _ = _visited(rollout, seed, checked)
    own_score, own_return = _visited(Rollout(recipe, sme, (PolicyActor(checked),)), seed, None)
    return Evaluation(
        schema=SCHEMA,
        score_wd=score_wd,
        score_ood=_mean(ood),
        score_data=data_score,
        score_rollout=own_score,
        return_rollout=own_return,
        action_regret=1.0 - score_wd,
        reward_regret=1.0 - _mean(sme.reward(wd)),
        behavior_score=rows.behavior_score,
        clone_mean_score=rows.clone_mean_score,
        clone_median_score=rows.clone_median_score,
        clone_shrunk_score=rows.clone_shrunk_score,
        imitation_score=rows.imitation_score,
        headroom=rows.headroom,
        optimal_score=1.0,
        random_score=rows.random_score,
        references_approximate=rows.approximate,
        improvement=improvement,
        normalized_improvement=improvement / room if room >= MIN_ROOM else None,
        rl_gain=gain,
        gap_closed=gain / rows.headroom if gain is not None else None,
        ood_curve=distance_curve(shell.distances, ood),
        probes=n_probes,
        seed=seed,
    )


def act_at(policy: Policy, states: Floats) -> Floats:
    """A policy's actions at states (B, N_s) with both bookkeeping channels 0: (B, N_a)."""
    return act(policy, at_start(states))


def at_start(states: Floats) -> Floats:
    """Observations (B, N_s + 2) of states (B, N_s) at the start of an episode: both bookkeeping channels 0."""
    return np.concatenate([states, np.zeros((len(states), 2), np.float32)], axis=1)


def act(policy: Policy, observations: Floats) -> Floats:
    """A policy's actions at observations (B, N_s + 2), asked for in chunks: (B, N_a)."""
    parts = [policy(observations[i : i + CHUNK]) for i in range(0, len(observations), CHUNK)]
    return np.concatenate(parts)


def distance_curve(distances: Floats, scores: Floats) -> tuple[CurvePoint, ...]:
    """Mean score in ten equal bins of distance: (n,) in (0, 1] and (n,)."""
    index = np.clip(np.ceil(distances * CURVE_BINS).astype(np.int64) - 1, 0, CURVE_BINS - 1)
    points = []
    for i in range(CURVE_BINS):
        inside = scores[index == i]
        middle = round((i + 0.5) / CURVE_BINS, 6)
        points.append(CurvePoint(middle, _mean(inside) if len(inside) else None, len(inside)))
    return tuple(points)


def _mean(values: Floats) -> float:
    return float(values.mean(dtype=np.float64))


def _visited(rollout: Rollout, seed: int, policy: Policy | None) -> tuple[float, float]:
    """Mean score over the steps of fresh episodes, and their mean return.

    Args:
        rollout: Who acts.
        seed: Draws the episodes.
        policy: Whose actions are scored at the visited states; None for those that were taken.
    """
    totals, steps, returns = 0.0, 0, 0.0
    # One worker: a stranger's policy need not be safe to call from two threads.
    for block in rollout.blocks(workers=1, seeds=fresh_seeds(seed, EPISODES)):
        inside = np.arange(block.rewards.shape[1]) < block.lengths[:, np.newaxis]
        actions = block.actions[inside] if policy is None else act(policy, block.observations[:, :-1][inside])
        totals += float(score(actions, block.optimal_actions[:, :-1][inside]).sum(dtype=np.float64))
        steps += int(inside.sum())
        returns += float((block.rewards * inside).sum(dtype=np.float64))
    return totals / steps, returns / EPISODES


def checked_policy(policy: Policy, action_dim: int) -> Policy:
    """The policy, with what it returns checked at every call.

    Raises:
        PolicyError: (when called) Another shape, or numbers that are not finite or not in [0, 1].
    """

    def call(observations: Floats) -> Floats:
        actions = np.asarray(policy(observations))
        expected = (len(observations), action_dim)
        if actions.shape != expected:
            raise PolicyError(f"policy: expected actions of shape {expected}, got {actions.shape}")
        if not np.issubdtype(actions.dtype, np.number) or not np.isfinite(actions).all():
            raise PolicyError("policy: expected finite actions in [0, 1], got NaN, infinity or no numbers")
        low, high = float(actions.min()), float(actions.max())
        if low < -TOLERANCE or high > 1 + TOLERANCE:
            raise PolicyError(
                f"policy: expected actions in [0, 1], got values from {low:g} to {high:g}; scale or clip them"
            )
        return np.clip(actions, 0, 1).astype(np.float32)

    return call
