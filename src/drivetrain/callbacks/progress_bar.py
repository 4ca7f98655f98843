"""ProgressBar: what every progress bar knows of a run."""

from __future__ import annotations

import math
from typing import Any

from drivetrain.callbacks.callback import Callback
from drivetrain.modules import Module, Run


class ProgressBar(Callback):
    """Base of progress bars: override the hooks at which yours draws; the Trainer then adds none of its own.

    `get_metrics` returns what to show. It reads values from the device, so a bar that calls it each step
    makes each step wait; the bars here draw a few times a second at most.
    """

    def __init__(self) -> None:
        self._trainer: Run | None = None
        self._is_on = True
        self._current_eval_dataloader_idx: int | None = None

    @property
    def trainer(self) -> Run:
        """The trainer of the run; there is one from `setup` on."""
        assert self._trainer is not None, "a bar knows its trainer from setup on"  # noqa: S101 - as its docs say
        return self._trainer

    @property
    def sanity_check_description(self) -> str:
        """What the bar of the check before a fit says."""
        return "Sanity Checking"

    @property
    def train_description(self) -> str:
        """What the bar of training says before the first epoch."""
        return "Training"

    @property
    def validation_description(self) -> str:
        """What the bar of validation says."""
        return "Validation"

    @property
    def test_description(self) -> str:
        """What the bar of a test says."""
        return "Testing"

    @property
    def predict_description(self) -> str:
        """What the bar of a prediction says."""
        return "Predicting"

    @property
    def is_enabled(self) -> bool:
        """Whether the bar draws."""
        return self._is_on

    @property
    def is_disabled(self) -> bool:
        """Whether the bar draws nothing."""
        return not self.is_enabled

    def disable(self) -> None:
        """Draw nothing from now on; a run calls it on ranks other than 0."""
        self._is_on = False

    def enable(self) -> None:
        """Draw again."""
        self._is_on = True

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print without tearing the bar; ``trainer.print`` comes here."""
        print(*args, **kwargs)  # noqa: T201 - what it is for

    @property
    def total_train_batches(self) -> float:
        """Steps of an epoch on each rank; inf where nobody knows."""
        return _known(self.trainer.num_training_batches)

    @property
    def total_val_batches_current_dataloader(self) -> float:
        """Batches of the validation loader that is read, over all ranks, as ``batch_idx`` counts them."""
        trainer = self.trainer
        found = self._current(trainer.num_val_batches)
        if trainer.sanity_checking:
            # Each rank checks so many, and batch i is rank i % N's.
            return min(found, self._current(trainer.num_sanity_val_batches) * trainer.world_size)
        return found

    @property
    def total_val_batches(self) -> float:
        """Batches of all validation loaders, over all ranks."""
        return sum(map(_known, self.trainer.num_val_batches))

    @property
    def total_test_batches_current_dataloader(self) -> float:
        """Batches of the test loader that is read, over all ranks."""
        return self._current(self.trainer.num_test_batches)

    @property
    def total_predict_batches_current_dataloader(self) -> float:
        """Batches of the prediction loader that is read, over all ranks."""
        return self._current(self.trainer.num_predict_batches)

    def _current(self, counts: list[int | None]) -> float:
        index = self._current_eval_dataloader_idx or 0
        return _known(counts[index]) if index < len(counts) else math.inf

    def has_dataloader_changed(self, dataloader_idx: int) -> bool:
        """Whether a batch is of another loader than the batch before; notes which one it is of."""
        before, self._current_eval_dataloader_idx = self._current_eval_dataloader_idx, dataloader_idx
        return before != dataloader_idx

    def reset_dataloader_idx_tracker(self) -> None:
        """Forget which loader was read."""
        self._current_eval_dataloader_idx = None

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Take up the trainer; be silent on ranks other than 0."""
        self._trainer = trainer
        if not trainer.is_global_zero:
            self.disable()

    def get_metrics(self, trainer: Run, module: Module) -> dict[str, int | str | float]:
        """Return what to show: the first logger's version, and what was logged with ``prog_bar=True``."""
        found: dict[str, int | str | float] = {}
        version = getattr(trainer.logger, "version", None)
        if version is not None:
            found["v_num"] = version[-4:] if isinstance(version, str) else version
        return found | {name: float(value) for name, value in trainer.progress_bar_metrics.items()}

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the run."""
        return {**self.__dict__, "_trainer": None}


def _known(count: int | None) -> float:
    return math.inf if count is None else count


def shown(value: object) -> str:
    """Return a value in at most six characters or so."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
