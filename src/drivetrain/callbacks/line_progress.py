"""LineProgress: one line every few seconds, for logs and pipes."""

from __future__ import annotations

import math
import sys
import time
from typing import Any, final

from drivetrain.callbacks.progress_bar import ProgressBar, shown
from drivetrain.modules import Module, Run


@final
class LineProgress(ProgressBar):
    """Print where the fit is, on rank 0: first after a moment, then every ``period_s`` seconds.

    Units:
        period_s: seconds between lines; values are read no more often than that.
    """

    def __init__(self, period_s: float = 5.0) -> None:
        super().__init__()
        self._period_s = period_s
        self._next = 0.0
        self._started = 0.0
        self._first_step = 0

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Start the clock."""
        self._started = time.monotonic()
        self._first_step = trainer.global_step
        self._next = self._started + min(1.0, self._period_s)

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Print if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._period_s
        if self.is_enabled:
            total = trainer.num_training_batches
            of = f"/{total}" if total and total != math.inf else ""
            rate = (trainer.global_step - self._first_step) / max(now - self._started, 1e-9)
            place = f"epoch {trainer.current_epoch}  batch {batch_idx + 1}{of}  step {trainer.global_step}"
            _say(f"{place}  {rate:.1f} steps/s{values_text(trainer)}")

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Print the epoch's values, if epochs are not shorter than a line's time; always after the last."""
        now = time.monotonic()
        is_last = trainer.current_epoch + 1 == trainer.max_epochs or trainer.should_stop
        if (now >= self._next or is_last) and self.is_enabled:
            self._next = now + self._period_s
            _say(f"epoch {trainer.current_epoch} done  step {trainer.global_step}{values_text(trainer)}")


def values_text(trainer: Run) -> str:
    """Return the bar's values as text; reads them from the device."""
    return "".join(f"  {name} {shown(float(value))}" for name, value in trainer.progress_bar_metrics.items())


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
