"""RichProgress: a bar on a terminal."""

from __future__ import annotations

import time
from typing import Any, final

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.line_progress import values_text
from drivetrain.modules import Module, Run

_BAR_COLUMN = 40


@final
class RichProgress(Callback):
    """Show a bar of the epoch, on rank 0, redrawn a few times a second.

    Units:
        period_s: seconds between drawings; values are read no more often than that.
    """

    def __init__(self, period_s: float = 0.25) -> None:
        self._period_s = period_s
        self._bar: Any = None
        self._task: Any = None
        self._next = 0.0

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Open the bar."""
        if not trainer.is_global_zero:
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=_BAR_COLUMN),
            MofNCompleteColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[values]}"),
        )
        self._bar = Progress(*columns, console=Console(stderr=True), auto_refresh=False, transient=True)
        self._bar.start()
        self._task = self._bar.add_task("epoch 0", total=trainer.num_training_batches, values="")

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Start the bar anew."""
        if self._bar is not None:
            self._bar.reset(
                self._task,
                total=trainer.num_training_batches,
                description=f"epoch {trainer.current_epoch}",
                values="",
            )

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Draw if it is time."""
        if self._bar is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + self._period_s
        description = f"epoch {trainer.current_epoch}"
        self._bar.update(
            self._task, completed=batch_idx + 1, description=description, values=values_text(trainer).strip()
        )
        self._bar.refresh()

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Leave one line of the epoch's values above the bar."""
        if self._bar is not None:
            self._bar.print(
                f"epoch {trainer.current_epoch}  step {trainer.global_step}{values_text(trainer)}",
                highlight=False,
            )

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Take the bar away."""
        self._close()

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Take the bar away, so that the traceback is readable."""
        self._close()

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
