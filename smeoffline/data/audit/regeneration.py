"""Whether episodes are what their recipe's seeds give.

Anywhere: seeds, initial states and noise are those of the recipe, and at each stored state the behavior with
the episode's own noise gives the stored action within 1e-4 (`mismatch.TOLERANCE`). Never a whole trajectory:
two float implementations part after 20 steps. On the platform that wrote a dataset episodes are also rolled
out again and compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from smeoffline.data.acting import Acting, Actor, intend_rows
from smeoffline.data.audit import replay
from smeoffline.data.audit.mismatch import TOLERANCE, Mismatch, differing, first_of_each
from smeoffline.data.audit.replay import Part
from smeoffline.data.exploration import LOG_SQRT_2PI, Exploration
from smeoffline.data.recipe import Recipe
from smeoffline.data.rollout import Rollout
from smeoffline.data.storage.episodes import EpisodeBlock, Episodes
from smeoffline.data.storage.findings import Finding
from smeoffline.data.streams import component_stream, episode_seeds, episode_stream
from smeoffline.errors import PolicyError
from smeoffline.sme.arrays import Bools, Doubles, Floats, Ints
from smeoffline.sme.machine import platform_tag
from smeoffline.sme.model import Sme

DENSITY_SLACK = 10 * TOLERANCE  # a channel: u may differ by the tolerance, and d log p / du is at most about 10
PROBIT_ROUNDING = 1e-6  # of an action of a policy's, before its inverse CDF is taken
_ARRAYS = ("observations", "actions", "rewards", "terminations", "truncations", "optimal_actions", "log_densities")
_PER_STEP = ("actions", "rewards", "terminations", "truncations")


@dataclass(frozen=True)
class _Drawn:
    """What the streams of E episodes draw: initial states (E, N_s), components (E,), noise (L, width) of each."""

    states: Floats
    components: Ints
    noise: list[Floats]


class Regeneration:
    """A recipe, ready to be compared with the episodes that it is said to have made.

    Args:
        recipe: The recipe.
        sme: Its built task.

    Attributes:
        missing: Why a behavior can't act: the file of base `policy` is elsewhere or another. What that
            behavior did is then not compared.
        rollout: The recipe with those behaviors that can act.
    """

    def __init__(self, recipe: Recipe, sme: Sme) -> None:
        self.recipe, self.sme = recipe, sme
        self.missing: tuple[str, ...] = ()
        self._actors: list[Acting | None] = []
        for i, component in enumerate(recipe.mix):
            try:
                self._actors.append(Actor(component.behavior, sme, component_stream(recipe.seed, i)))
            except PolicyError as fault:
                self.missing += (str(fault),)
                self._actors.append(None)
        self._explorations: list[Exploration] = [c.behavior.exploration() for c in recipe.mix]
        self.rollout = Rollout(recipe, sme, tuple(actor for actor in self._actors if actor is not None))

    def whole(self, episodes: Episodes) -> Iterator[Finding]:
        """What every episode has, or none: a seed, a component, densities."""
        if not len(episodes.lengths):
            return
        density = all(exploration.has_density for exploration in self._explorations)
        for check, wanted, found in (
            ("seed", True, episodes.seeds is not None),
            ("component", len(self.recipe.mix) > 1, episodes.components is not None),
            ("log density", density, episodes.log_densities is not None),
        ):
            if wanted != found and (wanted or check == "log density"):
                told = "one for each episode" if check != "log density" else "one for each action"
                yield Finding(check, None, None, *((told, "none in some") if wanted else ("none", told)))

    def seeds(self, numbers: Ints) -> Ints:
        """(n,) seeds of the episodes of these numbers."""
        return episode_seeds(self.recipe.seed, int(numbers.max(initial=-1)) + 1)[numbers]

    def steps(self, episodes: Episodes, part: Part, preactivation: Floats) -> Iterator[Finding]:
        """Compare one part of a dataset, step by step.

        Args:
            episodes: The dataset; observations and actions have the task's widths.
            part: Of it.
            preactivation: (N + E, N_a), z* of the part's observations.
        """
        mine = slice(part.first, part.first + len(part.lengths))
        numbers = episodes.numbers[mine]
        wanted = self.seeds(numbers)
        drawn = self._draw(wanted, part.lengths)
        rows = np.cumsum(part.lengths + 1) - part.lengths - 1
        stored = part.observations[rows, : self.recipe.task.state_dim]
        apart = drawn.states != stored
        known = np.ones(len(wanted), np.bool_)
        for i in range(len(wanted)):
            number = int(numbers[i])
            if episodes.seeds is not None and episodes.seeds[mine][i] != wanted[i]:
                yield Finding("seed", number, None, str(wanted[i]), str(episodes.seeds[mine][i]))
                known[i] = not apart[i].any()  # where it is another episode's, nothing more is to be told of it
            elif apart[i].any():
                j = int(apart[i].argmax())
                told = f"{drawn.states[i, j]:.6g} in channel {j}"
                yield Finding("first observation", number, 0, told, f"{stored[i, j]:.6g}")
            if known[i] and episodes.components is not None and len(self._actors) > 1:
                component = int(episodes.components[mine][i])
                if component != drawn.components[i]:
                    yield Finding("component", number, None, str(drawn.components[i]), str(component))
        with np.errstate(all="ignore"):  # numbers that are not finite are findings of their own
            mismatches = list(self._acts(part, preactivation, drawn, known))
        for mismatch in mismatches:
            yield from first_of_each(mismatch, episodes.numbers)

    def _draw(self, seeds: Ints, lengths: Ints) -> _Drawn:
        """Draw as `rollout` does; of the noise, which comes last, only the steps that were taken."""
        task, several = self.recipe.task, len(self._actors) > 1
        states, components = np.zeros((len(seeds), task.state_dim), np.float32), np.zeros(len(seeds), np.int64)
        edges = np.cumsum([c.share for c in self.recipe.mix])[:-1]
        noise = []
        for i, (seed, steps) in enumerate(zip(seeds.tolist(), lengths.tolist(), strict=True)):
            stream = episode_stream(seed)
            states[i] = stream.random(task.state_dim, dtype=np.float32)
            if several:
                components[i] = np.searchsorted(edges, stream.random(), side="right")
            noise.append(self._explorations[components[i]].draw(stream, steps, task.action_dim))
        return _Drawn(states, components, noise)

    def _acts(self, part: Part, z: Floats, drawn: _Drawn, known: Bools) -> Iterator[Mismatch]:
        """The action that each behavior takes at each stored state, and its log-density."""
        for i, (actor, exploration) in enumerate(zip(self._actors, self._explorations, strict=True)):
            chosen = known & (drawn.components == i)
            if actor is None or not chosen.any():
                continue
            steps = np.flatnonzero(chosen[part.episode])
            noise = _flat(exploration, [drawn.noise[j] for j in np.flatnonzero(chosen)], part.lengths[chosen])
            row, episode, step = part.row[steps], part.first + part.episode[steps], part.step[steps]
            # outside [0, 1] is a finding of its own, and a policy may refuse to act on it
            u, m = intend_rows(actor, np.clip(np.nan_to_num(part.observations[row]), 0, 1), z[row])
            actions = exploration.act(u, m, noise)
            yield differing("behavior action", actions, part.actions[steps], episode, step)
            if exploration.has_density and part.log_densities is not None:
                yield self._density(i, (u, noise), part.log_densities[row], episode, step)

    def _density(
        self, component: int, drawn: tuple[Floats, Floats], stored: Floats, episodes: Ints, steps: Ints
    ) -> Mismatch:
        """Log-density of the recomputed action, which is the stored one: from noise, exact also where Phi saturates."""
        exploration, (u, noise) = self._explorations[component], drawn
        expected = exploration.log_density(u, noise)
        slack = DENSITY_SLACK * u.shape[1] + TOLERANCE * np.abs(expected.astype(np.float64))
        if self.recipe.mix[component].behavior.base == "policy":
            slack += _inverse_error(u, np.abs(u) + np.float32(exploration.sigma) * np.abs(noise))
        bad = np.flatnonzero(np.abs(stored - expected) > slack)
        told = [[f"{values[i]:.6g}" for i in bad] for values in (expected, stored)]
        return Mismatch("log density", episodes[bad], steps[bad], *told)


def _flat(exploration: Exploration, noise: list[Floats], lengths: Ints) -> Floats:
    """Prepared noise of episodes one after the other, (sum of lengths, width)."""
    starts = np.cumsum(lengths) - lengths
    flat = np.empty((int(lengths.sum()), noise[0].shape[1]), np.float32)
    for length in np.unique(lengths):
        chosen = np.flatnonzero(lengths == length)
        prepared = exploration.prepare(np.stack([noise[i] for i in chosen], axis=1))
        flat[starts[chosen][:, np.newaxis] + np.arange(length)] = prepared.swapaxes(0, 1)
    return flat


def _inverse_error(u: Floats, scattered: Floats) -> Doubles:
    """(n,) what rounding of m leaves of log-densities: d log p = (u + sigma eps) dm / phi(u), over channels."""
    slope = np.exp(-0.5 * u.astype(np.float64) ** 2 - LOG_SQRT_2PI)
    return np.asarray((scattered * PROBIT_ROUNDING / slope).sum(axis=1))


def same_platform(platform: object) -> bool:
    """Whether a dataset's platform tag is this machine's, so that its bytes can be expected."""
    return isinstance(platform, Mapping) and dict(platform) == platform_tag()


def step_findings(episodes: Episodes, regeneration: Regeneration) -> Iterator[Finding]:
    """Every stored step against the task and the recipe, within the tolerance that any machine keeps.

    Args:
        episodes: Observations have N_s + 2 channels, actions N_a; `numbers` say which episodes of the recipe.
        regeneration: Of the recipe.
    """
    yield from regeneration.whole(episodes)
    for part in replay.parts(episodes):
        recomputed = replay.Replay(regeneration.sme, part)
        for mismatch in recomputed.mismatches():
            yield from first_of_each(mismatch, episodes.numbers)
        yield from regeneration.steps(episodes, part, recomputed.preactivation)


def byte_findings(episodes: Episodes, regeneration: Regeneration, chosen: Ints | None = None) -> Iterator[Finding]:
    """Roll episodes out again and compare every byte; only for `same_platform` and nothing `missing`.

    Args:
        episodes: As in `step_findings`.
        regeneration: Of the recipe.
        chosen: Indices of episodes; None for all.
    """
    chosen = np.arange(len(episodes.lengths)) if chosen is None else chosen
    starts = np.cumsum(episodes.lengths) - episodes.lengths
    done = 0
    for block in regeneration.rollout.blocks(seeds=regeneration.seeds(episodes.numbers[chosen])):
        for i in range(len(block)):
            index = int(chosen[done + i])
            finding = _difference(block, i, episodes, index, int(starts[index]))
            if finding is not None:
                yield finding
        done += len(block)


def _difference(block: EpisodeBlock, i: int, episodes: Episodes, index: int, start: int) -> Finding | None:
    """The first step at which an episode differs from the one rolled out again."""
    number, length = int(episodes.numbers[index]), int(block.lengths[i])
    steps = int(episodes.lengths[index])
    both = min(steps, length)
    first: tuple[int, str, str] | None = None
    for name in _ARRAYS:
        stored, made = getattr(episodes, name), getattr(block, name)
        if stored is None or made is None:
            continue
        begin, rows = (start, both) if name in _PER_STEP else (start + index, both + 1)
        ours, theirs = (values.reshape(rows, -1) for values in (made[i, :rows], stored[begin : begin + rows]))
        apart = np.flatnonzero((_bits(ours) != _bits(theirs)).any(axis=1))
        if len(apart) and (first is None or apart[0] < first[0]):
            j = int((_bits(ours[apart[0]]) != _bits(theirs[apart[0]])).argmax())
            told = f"{name.replace('_', ' ')} {_told(ours[apart[0], j])}"
            first = int(apart[0]), f"{told} in channel {j}" if made.ndim > 2 else told, _told(theirs[apart[0], j])
    if first is not None:
        return Finding("bytes", number, first[0], f"{first[1]}, as rolled out again", first[2])
    if steps != length:
        return Finding("bytes", number, both, f"{length} steps, as rolled out again", str(steps))
    return None


def _bits(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Numbers as they are stored: -0.0 is not 0.0, and NaN is itself."""
    return np.ascontiguousarray(values).view(np.uint8 if values.dtype == np.bool_ else np.uint32)


def _told(value: Any) -> str:
    """A number to its last bit."""
    return str(bool(value)) if isinstance(value, np.bool_) else f"{value:.9g}"
