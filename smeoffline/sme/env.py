"""The task as a Gymnasium environment: `gymnasium.make("smeoffline:smeoffline/SME-v0", state_dim=8, ...)`."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from smeoffline.sme.arrays import Floats
from smeoffline.sme.episode import Progress, advance, observe, shaping_reward
from smeoffline.sme.task import Task

ENV_ID = "smeoffline/SME-v0"
# Actions beyond [0, 1] are taken as they are; beyond this float32 has no digits left for the next state.
LARGEST_ACTION = 1e6
NO_CHANNELS = np.zeros((1, 2), np.float32)


def observation_space(task: Task) -> spaces.Box:
    """Box(0, 1, (N_s + 2,), float32)."""
    return spaces.Box(0.0, 1.0, (task.state_dim + 2,), np.float32)


def action_space(task: Task) -> spaces.Box:
    """Box(0, 1, (N_a,), float32)."""
    return spaces.Box(0.0, 1.0, (task.action_dim,), np.float32)


def checked_actions(actions: Any, shape: tuple[int, ...]) -> Floats:
    """Actions as float32 of the expected shape.

    Raises:
        ValueError: Another shape, or a value that is not finite or beyond `LARGEST_ACTION`; the text
            says which.
    """
    with np.errstate(over="ignore"):  # what overflows float32 becomes infinite, and is refused below
        array = np.asarray(actions, dtype=np.float32)
    if array.shape != shape:
        raise ValueError(f"step: expected an action of shape {shape}, got {array.shape}")
    sound = np.abs(array) <= LARGEST_ACTION  # false for NaN too
    if not sound.all():
        where = tuple(int(i) for i in np.argwhere(~sound)[0])
        raise ValueError(f"step: expected finite actions in [0, 1], got {array[where]} at index {where}")
    return array


class SMEEnv(gymnasium.Env[Floats, Floats]):
    """A Synthetic Monitoring Environment.

    Observation: (N_s + 2,) float32 in [0, 1]: the state, t/T, and the reward accrued and not yet paid
    over k (which lags one step). Action: (N_a,) float32 in [0, 1]; values beyond are not clipped, they
    only lose reward. `info` of a step has `optimal_action` (N_a,), `score` and `step_reward` (before
    accrual and shaping), all for the state the action was taken in.

    Args:
        render_mode: None; there is nothing to draw.
        **task: The fields of `Task`.

    Raises:
        SpecError: A task field is unknown or out of range.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium declares it as an instance variable

    def __init__(self, *, render_mode: str | None = None, **task: Any) -> None:
        self.task = Task.from_dict(task)
        self.sme = self.task.build()
        self.render_mode = render_mode
        self.observation_space = observation_space(self.task)
        self.action_space = action_space(self.task)
        self._state: Floats | None = None
        self._progress = Progress.start(1)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Floats, dict[str, Any]]:
        """Draw an initial state, uniform in the cube, from this environment's own generator."""
        super().reset(seed=seed, options=options)
        self._state = self.np_random.random((1, self.task.state_dim), dtype=np.float32)
        self._progress = Progress.start(1)
        return observe(self._state, NO_CHANNELS)[0], {}

    def step(self, action: Floats) -> tuple[Floats, float, bool, bool, dict[str, Any]]:
        """Take one step.

        Raises:
            ValueError: The action has another shape, or is not finite or beyond 1e6.
            gymnasium.error.ResetNeeded: No episode is running: `reset` was never called, or the last
                episode terminated or was truncated (a step beyond would leave the observation space).
        """
        if self._state is None:
            raise gymnasium.error.ResetNeeded("step: no episode is running; call reset() first")
        state, actions = self._state, checked_actions(action, (self.task.action_dim,))[np.newaxis]
        optimal = self.sme.optimal_action(state)
        scores = self.sme.score(actions, optimal)
        earned = self.sme.reward(scores)
        outcome = advance(self.task, self._progress, earned)
        next_state = self.sme.transition(state, actions)
        reward = outcome.rewards[0]
        if self.task.shaping:
            reward = reward + shaping_reward(self.sme, state, next_state, outcome.terminations)[0]
        terminated, truncated = bool(outcome.terminations[0]), bool(outcome.truncations[0])
        self._state = None if terminated or truncated else next_state
        self._progress = outcome.progress
        info = {"optimal_action": optimal[0], "score": float(scores[0]), "step_reward": float(earned[0])}
        return observe(next_state, outcome.channels)[0], float(reward), terminated, truncated, info
