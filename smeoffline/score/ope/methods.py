"""The methods of off-policy evaluation, each from logged episodes to a discounted return.

| method | how |
|---|---|
| fqe | fitted Q evaluation (Le, Voloshin & Yue 2019): the mean Q of the policy's actions at the starts |
| pdis | per-decision importance sampling |
| wis | returns weighted by whole episodes' importance |
| wpdis | per-decision, the weights of each step divided by their sum |
| direct | a fitted reward model, at the data's states and the policy's actions: as if the policy changed no state |
| behavior | the behavior's own mean return, whatever the policy: what knowing nothing costs |
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from smeoffline.data.exploration import Probit, phi
from smeoffline.data.storage.store import Dataset
from smeoffline.errors import DatasetError
from smeoffline.score.ope.importance import Weighted
from smeoffline.score.ope.targets import Noisy, log_density
from smeoffline.score.streams import OPE_STARTS, OPE_STEPS, stream
from smeoffline.score.true_values import Measured
from smeoffline.sme.arrays import Doubles, Floats, Ints
from smeoffline.sme.model import Sme
from smeoffline.train.fqe import Q, fit_q
from smeoffline.train.transitions import Transitions

DRAWS = 8  # of a policy's noise at each start

Found = tuple[Measured | None, float | None]
"""A discounted return, and importance sampling's effective samples."""


@dataclass(frozen=True, eq=False)
class Logged:
    """Logged episodes, cut at a horizon: N rows, E episodes.

    Attributes:
        dataset_id: Whose.
        sme: The built task.
        data: N transitions; those at the horizon end their episode.
        steps: (N,) t of each row.
        densities: (N,) stored log-density of each action; None where it is not known.
        horizon: H.
        discount: In [0, 1].
        seed: Draws weights, batches and noise.
    """

    dataset_id: str
    sme: Sme
    data: Transitions
    steps: Ints
    densities: Floats | None
    horizon: int
    discount: float
    seed: int
    _kept: dict[str, Q] = field(default_factory=dict)  # the reward model serves all policies

    @classmethod
    def of(cls, dataset: Dataset, sme: Sme, *, horizon: int, discount: float, seed: int) -> Logged:
        """The first `horizon` steps of each episode of a dataset.

        Raises:
            DatasetFaultError: It contradicts itself.
        """
        data = Transitions.from_dataset(dataset)
        rows = np.arange(len(data))
        first = np.concatenate([[0], np.cumsum(dataset.lengths)[:-1]])
        steps = rows - first[data.episodes]
        cut = (steps == horizon - 1) & ~data.terminals
        kept = steps < horizon
        densities = dataset.log_densities
        return cls(
            dataset_id=dataset.id,
            sme=sme,
            data=replace(data, timeouts=data.timeouts | cut).select(kept),
            steps=steps[kept],
            densities=None if densities is None else densities[rows + data.episodes][kept],
            horizon=horizon,
            discount=discount,
            seed=seed,
        )

    @property
    def scale(self) -> float:
        """The sum of discount^t over the horizon."""
        return float((self.discount ** np.arange(self.horizon)).sum())

    def estimate(self, method: str, actor: Noisy, fqe_steps: int, tell: Callable[[int, int], None]) -> Found:
        """What a method says of a policy.

        Args:
            method: One of `METHODS`.
            actor: The policy.
            fqe_steps: Updates of what is fitted.
            tell: Called with updates made and all.

        Raises:
            TrainingError: What is fitted diverged.
        """
        if method == "fqe":
            return self._fqe(actor, fqe_steps, tell), None
        if method == "direct":
            return self._direct(actor, fqe_steps, tell), None
        if method == "behavior":
            return Measured.of(self._returns(self.data.rewards)), None
        weighted = self.weighted(actor)
        by_name = {
            "pdis": weighted.per_decision,
            "wis": weighted.weighted,
            "wpdis": weighted.weighted_per_decision,
        }
        return by_name[method](), weighted.effective_samples()

    def weighted(self, actor: Noisy) -> Weighted:
        """The episodes with a policy's importance weights, for a policy with noise.

        Raises:
            DatasetError: The densities of actions are not stored.
        """
        if self.densities is None:
            raise DatasetError(
                f"dataset {self.dataset_id!r}: expected infos/log_density, which importance sampling needs, in every "
                "episode, got none; generate it again, or use other methods"
            )
        target = log_density(
            self.data.actions, actor.intended(self.sme, self.data.observations), actor.exploration.sigma
        )
        return Weighted.of(
            self._padded(target), self._padded(self.densities), self._padded(self.data.rewards), self.discount
        )

    def _fqe(self, actor: Noisy, steps: int, tell: Callable[[int, int], None]) -> Measured:
        """Mean Q at the starts."""
        following = actor.intended(self.sme, self.data.next_observations)
        q = fit_q(
            self.data, following, actor.exploration, discount=self.discount, steps=steps, seed=self.seed, progress=tell
        )
        starts = self.data.observations[self.steps == 0]
        u = actor.intended(self.sme, starts)
        draw = stream(self.seed, OPE_STARTS)
        drawn = [q(starts, _noisy(actor, u, draw)).astype(np.float64) for _ in range(DRAWS)]
        return Measured.of(np.mean(drawn, axis=0))

    def _direct(self, actor: Noisy, steps: int, tell: Callable[[int, int], None]) -> Measured:
        """Discounted sums of modelled rewards along the data's states."""
        if "reward" not in self._kept:
            nobody = np.zeros_like(self.data.actions)  # at discount 0 nothing that follows counts
            self._kept["reward"] = fit_q(
                self.data, nobody, Probit(1.0), discount=0.0, steps=steps, seed=self.seed, progress=tell
            )
        u = actor.intended(self.sme, self.data.observations)
        actions = _noisy(actor, u, stream(self.seed, OPE_STEPS))
        return Measured.of(self._returns(self._kept["reward"](self.data.observations, actions)))

    def _returns(self, rewards: Floats) -> Doubles:
        """Discounted sums of (N,) rewards, one an episode: (E,)."""
        paid = rewards.astype(np.float64) * self.discount**self.steps
        return np.asarray(np.bincount(self.data.episodes, weights=paid), np.float64)

    def _padded(self, values: Floats | Doubles) -> Doubles:
        """(N,) values as (E, H), 0 where an episode has ended."""
        padded = np.zeros((int(self.data.episodes[-1]) + 1, self.horizon))
        padded[self.data.episodes, self.steps] = values
        return padded


def _noisy(actor: Noisy, u: Floats, draw: np.random.Generator) -> Floats:
    """Actions around what is meant, (B, N_a) -> (B, N_a)."""
    noise = actor.exploration.draw(draw, len(u), u.shape[1])
    return actor.exploration.act(u, phi(u), noise)
