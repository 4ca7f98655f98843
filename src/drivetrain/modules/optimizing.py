"""Optimizing: what a module does with its optimizers, by itself or through the run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from drivetrain.events import unused
from drivetrain.modules.attached import outside
from drivetrain.modules.hooks import ModuleHooks
from drivetrain.modules.run import Stepper


class Optimizing(ModuleHooks):
    """Manual optimization: ``self.automatic_optimization = False``, then step in `training_step`.

    The optimizers are torch's own. Their ``step`` counts as one step of the training loop however many
    of them are stepped in a batch.
    """

    automatic_optimization: bool = True
    """Whether the loop computes gradients and steps; False leaves it to `training_step`."""
    _toggled: dict[torch.nn.Parameter, bool] | None = None

    def optimizers(self, use_pl_optimizer: bool = True) -> Any:  # noqa: ARG002 - known from elsewhere; one kind here
        """Return the optimizer, or a list of several, in the order of `configure_optimizers`."""
        found = list(self.trainer.optimizers)
        return found[0] if len(found) == 1 else found

    def lr_schedulers(self) -> Any:
        """Return the scheduler, a list of several, or None."""
        found = [one.scheduler for one in self.trainer.lr_scheduler_configs]
        return found[0] if len(found) == 1 else found or None

    def manual_backward(self, loss: torch.Tensor) -> None:
        """Compute gradients in manual optimization; use it in place of ``loss.backward()``.

        With several ranks the gradients are those of the mean of their losses as soon as it returns.

        Collectives:
            one all_reduce of the gradients; every rank must call.
        """
        self._in_run("self.manual_backward(...)").manual_backward(loss)

    def clip_gradients(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients of an optimizer's parameters in place; None takes what the Trainer was told.

        The norm is taken over all of the optimizer's parameters together.

        Raises:
            ModuleError [module.no-trainer]: outside of a run.
            TrainerError [trainer.bad-argument]: an algorithm other than ``norm`` and ``value``.
        """
        self._in_run("self.clip_gradients(...)").clip(optimizer, gradient_clip_val, gradient_clip_algorithm)

    @unused
    def configure_gradient_clipping(
        self,
        optimizer: torch.optim.Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip gradients; overridden to clip in another way, often by `clip_gradients`."""
        self.clip_gradients(optimizer, gradient_clip_val, gradient_clip_algorithm)

    def toggle_optimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Let only this optimizer's parameters take gradients, until `untoggle_optimizer`."""
        self.untoggle_optimizer(optimizer)
        every = [one for other in self.trainer.optimizers for one in _parameters(other)]
        self._toggled = {one: one.requires_grad for one in every}
        own = set(map(id, _parameters(optimizer)))
        for one in every:
            one.requires_grad_(self._toggled[one] and id(one) in own)

    def untoggle_optimizer(self, optimizer: torch.optim.Optimizer) -> None:  # noqa: ARG002 - one is toggled at a time
        """Let every parameter take gradients again that did before `toggle_optimizer`."""
        for one, before in (self._toggled or {}).items():
            one.requires_grad_(before)
        self._toggled = None

    @contextmanager
    def toggled_optimizer(self, optimizer: torch.optim.Optimizer) -> Iterator[None]:
        """`toggle_optimizer` for a block."""
        self.toggle_optimizer(optimizer)
        try:
            yield
        finally:
            self.untoggle_optimizer(optimizer)

    def _in_run(self, what: str) -> Stepper:
        if self._stepper is None:
            raise outside(self, what, "module.no-trainer")
        return self._stepper


def _parameters(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    return [one for group in optimizer.param_groups for one in group["params"]]
