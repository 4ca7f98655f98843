"""GradientAccumulationScheduler: how many batches a step takes, from one epoch to the next."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from drivetrain.callbacks import Callback
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.modules import Module, Run


@final
class GradientAccumulationScheduler(Callback):
    """``GradientAccumulationScheduler({0: 1, 4: 2})``: from epoch 4 on a step takes two batches.

    Raises:
        ModuleError [callback.bad-argument]: not a mapping from epochs, 0 or more, to numbers, 1 or more.
    """

    def __init__(self, scheduling: Mapping[int, int]) -> None:
        given: Any = scheduling
        pairs = given.items() if isinstance(given, Mapping) else ()
        is_right = all(
            type(epoch) is int and type(factor) is int and epoch >= 0 and factor >= 1
            for epoch, factor in pairs
        )
        if not pairs or not is_right:
            rule = "a mapping from epochs (0 or more) to batches a step (1 or more)"
            raise bad_argument(self, "scheduling", scheduling, rule, "{0: 1, 4: 2}")
        self.scheduling = {0: 1, **scheduling}

    def going_to_accumulate_grad_batches(self) -> bool:
        """Whether a step ever takes more than one batch."""
        return any(factor > 1 for factor in self.scheduling.values())

    def get_accumulate_grad_batches(self, epoch: int) -> int:
        """Return how many batches a step takes in an epoch."""
        return self.scheduling[max(first for first in self.scheduling if first <= epoch)]

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Set the number for the epoch."""
        trainer.accumulate_grad_batches = self.get_accumulate_grad_batches(trainer.current_epoch)
