"""Off-policy evaluation beside the truth: what a dataset says of a policy, and what the policy is worth.

The value of a policy here is the mean reward a step, weighted by discount^t, over the first `horizon` steps of an
episode from a uniform start: its discounted return divided by `scale`, the sum of those weights. The optimum has 1
(without shaping, and with rewards paid at each step).

A deterministic policy has no density, so no importance weights. What is evaluated is therefore each policy with
the same noise around it, `Phi(Phi^-1(pi(s)) + sigma eps)`, by every method, and the true value is that of the same
noisy policy, by rollouts. Sigma is the behavior's unless another is given; with 0 the policy is as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from smeoffline.data.acting import Policy
from smeoffline.data.behavior import MAX_NOISE
from smeoffline.data.recipe import Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage import store
from smeoffline.errors import SpecError
from smeoffline.score.ope.methods import Found, Logged
from smeoffline.score.ope.names import METHODS, NEED_DENSITY, check_methods
from smeoffline.score.ope.notes import notes
from smeoffline.score.ope.records import Estimate, OffPolicy, PolicyEstimates, method_scores
from smeoffline.score.ope.targets import Target, find_target
from smeoffline.score.runs import recipe_of
from smeoffline.score.true_values import Measured, true_return
from smeoffline.sme.task import SEED_LIMIT, real_number, whole_number
from smeoffline.train.fqe import DEFAULT_STEPS

EPISODES = 1000  # of each policy, for its true value
MAX_STEPS = 10**9

Progress = Callable[[int, int, str], None]


def off_policy(
    dataset: str | Path,
    targets: Sequence[str | Path | Policy],
    *,
    methods: Sequence[str] | None = None,
    sigma: float | None = None,
    discount: float | None = None,
    horizon: int | None = None,
    fqe_steps: int = DEFAULT_STEPS,
    episodes: int = EPISODES,
    seed: int = 0,
    progress: Progress | None = None,
) -> OffPolicy:
    """Estimate what policies are worth from a dataset, and measure what they are.

    Args:
        dataset: An id or a folder, made by smeoffline.
        targets: Runs, ONNX files, callables from observations (B, N_s + 2) to actions (B, N_a) in [0, 1], or one
            of the words `behavior` (what the data's behavior means to do) and `optimal`.
        methods: Of `METHODS`; None for all that the dataset and sigma allow.
        sigma: Noise around every policy, in [0, 1000]; None for the behavior's if that is `probit`, else 0 (of several
            behaviors, the largest).
        discount: In [0, 1]; None for the task's.
        horizon: Steps that count, in [1, T]; None for T.
        fqe_steps: Updates of fitted Q evaluation, and of the reward model of `direct`; >= 1.
        episodes: Rollouts of each policy for its true value, >= 2.
        seed: In [0, 2^32).
        progress: Called with policies done, policies, and what is being done.

    Returns:
        The same numbers each time.

    Raises:
        SpecError: An unknown method, one that the dataset or sigma does not allow, or a number out of range.
        DatasetError: The dataset can't be read, or is not an SME.
        PolicyError, TrainingError: A target is no policy for this dataset.
    """
    recipe = recipe_of(dataset)
    task = recipe.task
    horizon = (
        task.episode_length if horizon is None else whole_number("ope", "horizon", horizon, 1, task.episode_length)
    )
    discount = task.discount if discount is None else real_number("ope", "discount", discount, 0.0, 1.0)
    fqe_steps = whole_number("ope", "fqe_steps", fqe_steps, 1, MAX_STEPS)
    episodes = whole_number("ope", "episodes", episodes, 2, MAX_STEPS)
    seed = whole_number("ope", "seed", seed, 0, SEED_LIMIT - 1)
    noise = _sigma(recipe, sigma)
    rollout = Rollout.prepare(recipe)
    chosen = _methods(methods, rollout, noise)
    found = [find_target(target, rollout, noise) for target in targets]
    _check_names(found)
    logged = Logged.of(store.read(dataset), rollout.sme, horizon=horizon, discount=discount, seed=seed)
    scale = logged.scale
    policies = []
    for i, target in enumerate(found):
        tell = _Telling(progress, i, len(found), target.name)
        tell.now("its true value")
        true = true_return(
            recipe, rollout.sme, target.actor, horizon=horizon, discount=discount, episodes=episodes, seed=seed
        )
        estimates = {}
        for method in chosen:
            tell.now(method)
            estimates[method] = logged.estimate(method, target.actor, fqe_steps, tell.updates)
        policies.append(_beside(target.name, true, estimates, scale))
    if progress is not None:
        progress(len(found), len(found), "")
    return OffPolicy(
        dataset_id=logged.dataset_id,
        discount=discount,
        horizon=horizon,
        scale=scale,
        sigma=noise,
        fqe_steps=fqe_steps,
        episodes=episodes,
        seed=seed,
        policies=tuple(policies),
        methods=method_scores(policies),
        notes=notes(policies, horizon=horizon, fqe_steps=fqe_steps, shaped=task.shaping > 0),
    )


def _beside(name: str, true: Measured, estimates: dict[str, Found], scale: float) -> PolicyEstimates:
    """One policy's numbers, as mean rewards a step."""
    truth = true.value / scale
    beside = {}
    for method, (found, samples) in estimates.items():
        if found is None:
            beside[method] = Estimate(None, None, None, samples)
        else:
            value = found.value / scale
            beside[method] = Estimate(value, _over(found.standard_error, scale), value - truth, samples)
    return PolicyEstimates(name, truth, _over(true.standard_error, scale), beside)


def _over(error: float | None, scale: float) -> float | None:
    return None if error is None else error / scale


class _Telling:
    """Tells what is done for one policy, also within a fit: a bar that stands still looks dead."""

    def __init__(self, progress: Progress | None, done: int, total: int, name: str) -> None:
        self._progress, self._done, self._total, self._name = progress, done, total, name
        self._what = ""

    def now(self, what: str) -> None:
        """A method begins."""
        self._what = what
        self._tell(what)

    def updates(self, done: int, total: int) -> None:
        """Within a fit."""
        self._tell(f"{self._what} {done:,}/{total:,}")

    def _tell(self, what: str) -> None:
        if self._progress is not None:
            self._progress(self._done, self._total, f"{self._name}: {what}")


def _sigma(recipe: Recipe, given: float | None) -> float:
    """The noise around every policy."""
    if given is not None:
        return real_number("ope", "sigma", given, 0.0, MAX_NOISE)
    return max((c.behavior.sigma for c in recipe.mix if c.behavior.explore == "probit"), default=0.0)


def _methods(given: Sequence[str] | None, rollout: Rollout, sigma: float) -> tuple[str, ...]:
    """The methods asked for, or all that the dataset and sigma allow.

    Raises:
        SpecError: An unknown one, or one that they do not allow.
    """
    dense = rollout.has_density and sigma > 0
    if given is None:
        return tuple(m for m in METHODS if dense or m not in NEED_DENSITY)
    check_methods(given)
    for name in given:
        if name in NEED_DENSITY and not rollout.has_density:
            kinds = sorted({str(c.behavior.explore) for c in rollout.recipe.mix})
            raise SpecError(
                f"ope: {name} needs the density of each action, which is stored for explore 'probit' and base "
                f"'random', got explore {', '.join(map(repr, kinds))}; leave it out of the methods"
            )
        if name in NEED_DENSITY and sigma == 0:
            raise SpecError(f"ope: {name} needs policies that have a density, got sigma 0; give a sigma above 0")
    return tuple(dict.fromkeys(given))


def _check_names(targets: Sequence[Target]) -> None:
    """Refuse policies that nobody could tell apart in the result, and none at all.

    Raises:
        SpecError: Names one.
    """
    names = [target.name for target in targets]
    if not names:
        raise SpecError("ope: expected at least one policy, got none")
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SpecError(f"ope: expected each policy once, got {twice!r} twice")
