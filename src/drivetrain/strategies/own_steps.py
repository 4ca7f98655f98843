"""Optimizers that their user steps, where the loss is scaled and a step may have to be left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.strategies.closure import wants_closure
from drivetrain.strategies.strategy import Strategy

Kept = list[tuple[torch.nn.Parameter, torch.Tensor]]


@final
class OwnSteps:
    """Lets torch's own ``optimizer.step()`` step with gradients of their true size, or not at all.

    ``before`` is called with the optimizer right before a step that is taken.
    """

    def __init__(
        self, strategy: Strategy, before: Callable[[torch.optim.Optimizer], None] | None = None
    ) -> None:
        self._strategy, self._before = strategy, before
        self._scales = strategy.precision.scales_loss
        self._optimizers: list[torch.optim.Optimizer] = []
        self._stepped: list[torch.optim.Optimizer] = []
        """Those that stepped, or were left out, since the scale was chosen."""
        self._withheld: dict[torch.optim.Optimizer, Kept] = {}

    def watch(self, optimizer: torch.optim.Optimizer) -> list[Any]:
        """Watch an optimizer's steps until the handles that are returned are removed; none if it is watched.

        Raises:
            ModuleError [module.closure]: it evaluates the loss itself, and the loss is scaled.
        """
        if self._scales and wants_closure(optimizer):
            raise scaled_closure(optimizer, self._strategy.precision.name)
        if optimizer in self._optimizers:
            return []
        self._optimizers.append(optimizer)
        return [optimizer.register_step_pre_hook(self._start), optimizer.register_step_post_hook(self._end)]

    def _start(self, optimizer: torch.optim.Optimizer, given: Any, named: Any) -> Any:
        if not self._scales:
            if self._before is not None:
                self._before(optimizer)
            return None
        # A closure computes the gradients, so it comes before they are looked at.
        given, named = _evaluated(given, named)
        if not self._strategy.unscale(optimizer):
            self._withheld[optimizer] = withhold(optimizer)
        elif self._before is not None:
            self._before(optimizer)
        return given, named

    def _end(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        give_back(self._withheld.pop(optimizer, []))
        if self._scales:
            self._stepped.append(optimizer)

    def settle(self) -> None:
        """Choose the next scale, if there were steps: before a loss is scaled, and when a batch is done.

        An optimizer that goes on collecting gradients has them in the new scale afterwards.
        """
        if not self._stepped:
            return
        done = {id(one) for each in self._stepped for one in _parameters(each)}
        others = [one for each in self._optimizers for one in _parameters(each) if id(one) not in done]
        grads = [one.grad for one in others if one.grad is not None]
        before = self._strategy.precision.scale if grads else 1.0
        self._strategy.rescale()
        self._stepped.clear()
        factor = self._strategy.precision.scale / before if grads else 1.0
        if factor != 1.0:
            torch._foreach_mul_(grads, factor)


def withhold(optimizer: torch.optim.Optimizer) -> Kept:
    """Take away an optimizer's gradients, without which its step changes nothing, and return them."""
    kept = [(one, one.grad) for one in _parameters(optimizer) if one.grad is not None]
    for one, _ in kept:
        one.grad = None
    return kept


def give_back(kept: Kept) -> None:
    """Undo `withhold`, so that what overflowed can be looked at."""
    for one, grad in kept:
        one.grad = grad


def scaled_closure(optimizer: torch.optim.Optimizer, precision: str) -> ModuleError:
    """Return the error of an optimizer that evaluates the loss itself, in a format that scales it."""
    return ModuleError(
        "module.closure",
        f"{type(optimizer).__name__} evaluates the loss itself, and {precision} scales the loss",
        values={"optimizer": type(optimizer).__name__, "precision": precision},
        because="an evaluation that overflows has to be left out, and it cannot leave one out",
        hint="pass precision='bf16-mixed', which scales nothing",
    )


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [one for group in optimizer.param_groups for one in group["params"]]


def _evaluated(given: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Call the closure of a step's arguments, and put its result in its place."""
    closure = named.get("closure") or (given[1] if len(given) > 1 else None)
    if not callable(closure):
        return given, named
    with torch.enable_grad():
        loss = closure()

    def found() -> Any:
        return loss

    if "closure" in named:
        return given, {**named, "closure": found}
    return (given[0], found, *given[2:]), named
