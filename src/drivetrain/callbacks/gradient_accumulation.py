"""GradientAccumulationScheduler: how many batches an optimizer step takes, by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, final

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument


@final
class GradientAccumulationScheduler(Callback):
    """Accumulate by epoch: ``GradientAccumulationScheduler({0: 8, 4: 4})`` is 8 batches a step, then 4.

    Before the first epoch that is named a step takes one batch. It says the same as the Trainer's
    ``accumulate_grad_batches={0: 8, 4: 4}``, and the Trainer takes it from here; saying both is an error.

    Raises:
        ModuleError [callback.bad-argument]: no mapping of epochs to numbers of batches.
    """

    def __init__(self, scheduling: Mapping[int, int]) -> None:
        said: Any = scheduling
        what = "a mapping of epochs, from 0, to numbers of batches, from 1"
        if not isinstance(said, Mapping) or not said:
            raise bad_argument(self, "scheduling", scheduling, what, "pass {0: 8, 4: 4}")
        for epoch, factor in said.items():
            if type(epoch) is not int or epoch < 0 or type(factor) is not int or factor < 1:
                raise bad_argument(self, "scheduling", scheduling, f"{what}; not {epoch!r}: {factor!r}")
        self.scheduling = {0: 1, **scheduling}
        """From which epoch on, how many."""
        self.epochs = sorted(self.scheduling)

    def going_to_accumulate_grad_batches(self) -> bool:
        """Whether any epoch's steps take more than one batch."""
        return any(factor > 1 for factor in self.scheduling.values())

    def get_accumulate_grad_batches(self, epoch: int) -> int:
        """Return how many batches a step takes in an epoch."""
        return self.scheduling[max(first for first in self.epochs if first <= epoch)]
