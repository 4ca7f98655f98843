"""Window: the batches whose gradients one optimizer step takes together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.collectives.collectives import Collectives
from drivetrain.data import Share
from drivetrain.strategies.parts import local


@final
class Window:
    """Makes the gradient of a window that of the mean over all its samples, or over all its weights.

    Each loss is a mean over its batch. It enters with the batch's part of the window, as far as that is
    known when it comes; what was not known (a last batch that is smaller, a window that the epoch's end
    cut short) is put right once, when the window closes.
    """

    def __init__(self, collectives: Collectives) -> None:
        self._collectives = collectives
        self._planned, self._unit = 1, 1
        self._batches = self._samples = 0
        self.weight: torch.Tensor | float | None = None
        """Sum of the weights that this rank's steps returned in this window; None where they return none."""
        self.factor: Any = 1.0
        """What the gradients of the window that closed last were multiplied with, to put them right."""

    @property
    def is_open(self) -> bool:
        """Whether batches were taken that no optimizer step has used yet."""
        return self._batches > 0

    def take(self, share: Share, planned: int) -> bool:
        """Say, before a batch's step, whether the window closes with it.

        ``planned`` is how many batches of each rank a window that opens now will have. The batch is counted
        in by `count`, once its step has run: one that fails leaves the window as it was.
        """
        if not self.is_open:
            self._planned, self._unit, self._samples = planned, max(share.total, 1), 0
            self.weight = None
        return self._batches + 1 >= self._planned

    def count(self) -> None:
        """Count the batch in."""
        self._batches += 1

    def scaled(self, loss: torch.Tensor, share: Share, weight: Any) -> torch.Tensor:
        """Return a batch's loss with its part in the window; ``weight`` is what the step returned with it.

        Raises:
            ModuleError [module.step-weight]: some steps of a window return a weight and others none.
        """
        if self._planned == 1 and self._collectives.world_size == 1:
            weight = None  # a mean over one loss is that loss
        elif self._samples and (weight is None) != (self.weight is None):
            raise _mixed(weight)
        self._samples += share.total
        if weight is not None:
            weight = (weight.detach() if isinstance(weight, torch.Tensor) else weight) * (share.size > 0)
            self.weight = weight if self.weight is None else self.weight + weight
            return torch.mul(loss, weight)
        part = share.weight * share.total / (self._planned * self._unit)
        return loss if part == 1.0 else loss * part

    def close(self, parameters: Iterable[torch.nn.Parameter], device: torch.device) -> bool:
        """Put the gradients right and end the window; return False when there are none to step with.

        Collectives:
            with weights and several ranks, one all_reduce of 8 bytes; every rank must call.
        """
        samples, weight, expected = self._samples, self.weight, self._planned * self._unit
        self._batches = self._samples = 0
        self.weight = None
        if not samples:
            return False
        factor: Any = expected / samples
        if weight is not None:
            total = torch.as_tensor(weight, dtype=torch.float64, device=device)
            if self._collectives.world_size > 1:
                total = self._collectives.all_reduce(total, "sum")
            # No weight at all (every token masked) leaves gradients of zero, not of 0/0.
            factor = (self._collectives.world_size / total.clamp_min(1e-30)).float()
        self.factor = factor
        if weight is None and factor == 1.0:
            return True
        grads = [local(one.grad) for one in parameters if one.grad is not None]
        if grads:
            torch._foreach_mul_(grads, factor)
        return True

    def state_dict(self) -> dict[str, int]:
        """Return the counters, which are equal on all ranks; the weight and the gradients are each rank's."""
        return {
            "planned": self._planned,
            "unit": self._unit,
            "batches": self._batches,
            "samples": self._samples,
        }

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Take up what `state_dict` returned."""
        self._planned, self._unit = state["planned"], state["unit"]
        self._batches, self._samples = state["batches"], state["samples"]


def _mixed(weight: object) -> ModuleError:
    return ModuleError(
        "module.step-weight",
        f"training_step returned {'a' if weight is not None else 'no'} weight, unlike the step before it",
        values={"weight": weight},
        because="the steps of one accumulation window are averaged in one way",
        hint="return {'loss': loss, 'weight': weight} from every step, or from none",
    )
