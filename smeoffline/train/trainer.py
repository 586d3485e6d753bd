"""The loop over d3rlpy's `update`: the sole importer of d3rlpy, alone in forking torch's global generator.

d3rlpy draws from torch's global generator. So every piece of training runs inside a `TorchStream`, which
gives the global generator a state of our own and puts back the caller's afterwards; between pieces the
state is kept here, and in the checkpoint. What happens in between, evaluation for one, can't change training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import io
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from smeoffline.data.action_box import ActionBox
from smeoffline.errors import TrainingError
from smeoffline.sme.arrays import Floats
from smeoffline.train import neighbors
from smeoffline.train.algorithms import Algorithm, Setting
from smeoffline.train.batches import DEVICE, Batches
from smeoffline.train.fast_path import take_fast_path
from smeoffline.train.policy_net import Bounded, policy_net
from smeoffline.train.transitions import Transitions

HIDDEN_UNITS = "hidden_units"
DEFAULT_HIDDEN_UNITS = (256, 256)  # d3rlpy's, in every network
FOR_CUDA = ("compile_graph",)

Losses = dict[str, float]


@functools.cache
def d3rlpy() -> Any:
    """The library, imported on first use (2 s) and without what it and gym print while they load."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        import d3rlpy as library
    return library


class TorchStream:
    """A state for torch's global generator that lives on between uses.

    Args:
        seed: What it starts from.

    Attributes:
        state: The generator's state, as torch gives it.
    """

    def __init__(self, seed: int) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)  # noqa: TID251 - inside a fork, as the module says
            self.state = torch.get_rng_state()

    @contextlib.contextmanager
    def use(self) -> Iterator[None]:
        """Draw from this stream instead of the caller's, on one thread; both are put back at the end.

        One thread, because small networks gain nothing from more, and processes beside each other do.
        """
        with torch.random.fork_rng(devices=[]), one_thread():
            torch.set_rng_state(self.state)
            try:
                yield
            finally:
                self.state = torch.get_rng_state()


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Let torch compute on one thread: more would also change the last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def setting_defaults(algorithm: Algorithm) -> dict[str, Setting]:
    """Every hyperparameter of an algorithm with d3rlpy's default, and its networks' layer widths."""
    config = getattr(d3rlpy().algos, algorithm.config)()
    values = {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}
    kept = {k: v for k, v in values.items() if isinstance(v, (bool, int, float, str)) and k not in FOR_CUDA}
    return {**kept, HIDDEN_UNITS: DEFAULT_HIDDEN_UNITS}


class Learner:
    """An algorithm's networks and optimizers, as they are before, during and after training.

    Args:
        algorithm: Which.
        observation_dim: D.
        box: The action space, A channels.
        settings: Typed hyperparameters that differ from the defaults.
        seed: Draws the initial weights, and what d3rlpy draws later.

    Attributes:
        impl: d3rlpy's implementation.
        hyperparameters: All of them.
        stream: What the algorithm draws from.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        observation_dim: int,
        box: ActionBox,
        settings: Mapping[str, Setting],
        seed: int,
    ) -> None:
        self.algorithm = algorithm
        self.box = box
        self.hyperparameters = {**setting_defaults(algorithm), **settings}
        self.stream = TorchStream(seed)
        self._seed = seed
        algo = _config(algorithm, settings).create(DEVICE)
        if algorithm.needs_neighbors:
            algo._nbsr = neighbors.search()  # the class has one for all its instances
        with self.stream.use():
            algo.create_impl((observation_dim,), len(box.low))
        self.impl = algo.impl
        take_fast_path(self.impl)

    @property
    def networks(self) -> dict[str, nn.Module]:
        """The networks by d3rlpy's names."""
        found: dict[str, nn.Module] = self.impl.modules.get_torch_modules()
        return found

    @property
    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimizers by d3rlpy's names."""
        wrapped = {f.name: getattr(self.impl.modules, f.name) for f in dataclasses.fields(self.impl.modules)}
        return {name: w.optim for name, w in wrapped.items() if hasattr(w, "optim")}

    def state(self) -> dict[str, Any]:
        """All that training changes in here, as tensors and plain values."""
        return {
            "networks": {name: m.state_dict() for name, m in self.networks.items()},
            "optimizers": {name: o.state_dict() for name, o in self.optimizers.items()},
            "stream": self.stream.state,
        }

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave.

        Raises:
            KeyError, ValueError, RuntimeError: It is another algorithm's, or of other shapes.
        """
        for name, network in self.networks.items():
            network.load_state_dict(state["networks"][name])
        for name, optimizer in self.optimizers.items():
            optimizer.load_state_dict(state["optimizers"][name])
        self.stream.state = state["stream"]

    def policy_net(self) -> Bounded:
        """The greedy policy as a module that shares the networks: what trains them later changes it."""
        samples = cast(int, self.hyperparameters.get("n_action_samples", 1))
        return policy_net(self.algorithm, self.impl.modules, self.box, samples, self._seed).eval()

    def act(self, observations: Floats) -> Floats:
        """The greedy policy: (B, D) to (B, A) in the action space."""
        with one_thread(), torch.no_grad():
            actions: Floats = self.policy_net()(torch.from_numpy(observations)).numpy()
        return actions

    def values(self, observations: Floats, actions: Floats) -> dict[str, Floats]:
        """What the critics say, by `Algorithm.values`: `q_funcs` (critics, B), `value_func` (B,).

        Args:
            observations: (B, D).
            actions: (B, A), in the action space.
        """
        found: dict[str, Floats] = {}
        x, a = torch.from_numpy(observations), torch.from_numpy(self.box.to_unit_interval(actions))
        with one_thread(), torch.no_grad():
            for name in self.algorithm.values:
                network = self.networks[name]
                if isinstance(network, nn.ModuleList):
                    found[name] = torch.stack([q(x, a).q_value[:, 0] for q in network]).numpy()
                else:
                    found[name] = network(x)[:, 0].numpy()
        return found


class Trainer:
    """A learner and its data.

    Args:
        learner: What trains.
        data: On what.
        seed: Draws the batches.

    Attributes:
        step: Updates made so far.

    Raises:
        TrainingError: The data have no transition that this algorithm can use.
    """

    def __init__(self, learner: Learner, data: Transitions, seed: int) -> None:
        self.learner, self.step = learner, 0
        algorithm, hyperparameters = learner.algorithm, learner.hyperparameters
        self._batches = Batches(data, learner.box, algorithm, hyperparameters, d3rlpy().TorchMiniBatch)
        if algorithm.needs_neighbors:
            scaled = self._batches.observations * cast(float, hyperparameters["beta"])
            keys = torch.cat([scaled, self._batches.actions], dim=1)
            learner.impl._nbsr.fit(keys.numpy())
        self._batch_size = cast(int, hyperparameters["batch_size"])
        self._indices = np.random.default_rng(seed)

    def advance(
        self, until: int, *, seconds: float = math.inf, stop: Callable[[], bool] = lambda: False
    ) -> list[Losses]:
        """Train to a step, or until time is up, `stop()` is true or a loss isn't finite; at least one step.

        Returns:
            The losses of each step made. The last may hold a loss that is not finite.

        Raises:
            TrainingError: The networks' output stopped being finite.
        """
        made: list[Losses] = []
        deadline = time.perf_counter() + seconds
        with self.learner.stream.use(), neighbors.one_thread(self.learner.algorithm):
            while self.step < until:
                made.append(self._update())
                finite = all(map(math.isfinite, made[-1].values()))
                if not finite or stop() or time.perf_counter() >= deadline:
                    break
        return made

    def _update(self) -> Losses:
        index = torch.from_numpy(self._indices.integers(len(self._batches), size=self._batch_size))
        try:
            losses: Losses = self.learner.impl.update(self._batches.gather(index), self.step)
        except ValueError as error:  # torch refuses a distribution whose parameters are NaN
            reason = str(error).splitlines()[0]
            name = self.learner.algorithm.name
            raise TrainingError(f"{name}: diverged after step {self.step}: {reason}") from error
        self.step += 1
        return losses

    def state(self) -> dict[str, Any]:
        """All that training changes: networks, optimizers, both generators, the step."""
        indices = json.dumps(self._indices.bit_generator.state)
        return {"learner": self.learner.state(), "indices": indices, "step": self.step}

    def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave; see `Learner.load_state`."""
        self.learner.load_state(state["learner"])
        self._indices.bit_generator.state = json.loads(state["indices"])
        self.step = int(state["step"])


def _config(algorithm: Algorithm, settings: Mapping[str, Setting]) -> Any:
    """d3rlpy's config. It gets no scalers: what they would do is done in `Batches` and `Bounded`."""
    cls = getattr(d3rlpy().algos, algorithm.config)
    plain = dict(settings)
    widths = plain.pop(HIDDEN_UNITS, None)
    if isinstance(widths, tuple):
        factory = d3rlpy().models.encoders.VectorEncoderFactory
        names = [f.name for f in dataclasses.fields(cls) if f.name.endswith("encoder_factory")]
        return cls(**plain, **{name: factory(hidden_units=list(widths)) for name in names})
    return cls(**plain)
