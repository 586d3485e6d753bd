"""The same bits in less time: what d3rlpy's update does twice, or for nothing, left out.

None of this changes a result by a bit; a test compares every algorithm with d3rlpy's own update. What goes:

- optimizers that walk over dozens of small tensors: each gets a flat one, of which its parameters are views,
  and Adam no new array for what it computes on the way;
- gradients of target networks, and of critics and decoders while the actor trains: nobody reads them;
- a new array for each rectifier;
- IQL's second look at the target critics, whose answer cannot have changed since the first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

ALIGN = 16  # floats in 64 bytes: every parameter starts where torch's own allocation would put it


def take_fast_path(impl: Any) -> None:
    """Rearrange a new d3rlpy implementation in place.

    Args:
        impl: A `QLearningAlgoImplBase` that has not been updated yet.
    """
    modules = {f.name: getattr(impl.modules, f.name) for f in dataclasses.fields(impl.modules)}
    networks = {name: m for name, m in modules.items() if isinstance(m, nn.Module)}
    for name, network in networks.items():
        if name.startswith("targ_"):
            network.requires_grad_(False)
        for layer in network.modules():
            if isinstance(layer, nn.ReLU):
                layer.inplace = True  # its input is a linear layer's output, which no gradient needs
    for module in modules.values():
        if hasattr(module, "optim"):
            module._optim = _flat_adam(module.optim)
    frozen = [m for name, m in networks.items() if name in ("q_funcs", "vae_decoder", "vae_encoder")]
    if hasattr(impl, "update_actor"):
        impl.update_actor = _without_gradients_of(frozen, impl.update_actor)
    if hasattr(impl, "compute_value_loss"):
        _remember_targets(impl)


def flatten(parameters: Iterable[nn.Parameter]) -> nn.Parameter:
    """One flat parameter with a gradient, of which the given ones and their gradients become views.

    An element-wise optimizer then does in one sweep what it did tensor by tensor, to the same bits. The gaps
    that alignment leaves hold zeros and keep them.
    """
    parts = list(parameters)
    sizes = [-(-p.numel() // ALIGN) * ALIGN for p in parts]
    values, gradients = torch.zeros(sum(sizes)), torch.zeros(sum(sizes))
    start = 0
    for part, size in zip(parts, sizes, strict=True):
        here = slice(start, start + part.numel())
        values[here] = part.data.reshape(-1)
        part.data = values[here].view(part.shape)
        part.grad = gradients[here].view(part.shape)
        start += size
    flat = nn.Parameter(values)
    flat.grad = gradients
    return flat


class FlatAdam(torch.optim.Adam):
    """Adam [arXiv 1412.6980] on one parameter: torch's operations in their order, in an array kept for it."""

    _scratch: Tensor | None = None

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # d3rlpy has no use for a closure
        """Move the parameter along its gradient."""
        (group,) = self.param_groups
        (parameter,) = group["params"]
        state, gradient = self.state[parameter], parameter.grad
        if not state:
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
        if self._scratch is None:
            self._scratch = torch.empty_like(parameter)
        beta1, beta2 = group["betas"]
        state["step"] += 1
        steps = state["step"].item()
        state["exp_avg"].lerp_(gradient, 1 - beta1)
        state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = torch.sqrt(state["exp_avg_sq"], out=self._scratch)
        scale.div_((1 - beta2**steps) ** 0.5).add_(group["eps"])
        parameter.addcdiv_(state["exp_avg"], scale, value=-(group["lr"] / (1 - beta1**steps)))


def _flat_adam(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The same optimizer on one flat parameter; faster still where it is the plain Adam that d3rlpy has."""
    (group,) = optimizer.param_groups
    group["params"] = [flatten(group["params"])]
    plain = not (group["weight_decay"] or group["amsgrad"] or group["maximize"])
    if type(optimizer) is not torch.optim.Adam or not plain:
        return optimizer
    return FlatAdam(group["params"], lr=group["lr"], betas=group["betas"], eps=group["eps"])


def _without_gradients_of(networks: list[nn.Module], update: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Call `update` while the networks pass gradients on but collect none of their own."""
    parameters = [p for network in networks for p in network.parameters()]

    def call(batch: Any) -> Any:
        for parameter in parameters:
            parameter.requires_grad_(False)
        try:
            return update(batch)
        finally:
            for parameter in parameters:
                parameter.requires_grad_(True)

    return call


def _remember_targets(impl: Any) -> None:
    """IQL asks the target critics for the same batch in its value loss and its actor loss; answer once."""
    ask = impl._targ_q_func_forwarder.compute_expected_q
    update_target = impl.update_critic_target
    known: dict[str, Any] = {}

    def answer(x: Tensor, action: Tensor, reduction: str) -> Tensor:
        if known.get("x") is not x or known.get("action") is not action or known["reduction"] != reduction:
            known.update(x=x, action=action, reduction=reduction, value=ask(x, action, reduction))
        value: Tensor = known["value"]
        return value

    def forget() -> None:
        known.clear()
        update_target()

    impl._targ_q_func_forwarder.compute_expected_q = answer
    impl.update_critic_target = forget
