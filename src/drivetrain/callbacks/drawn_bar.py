"""DrawnBar: when a bar that is redrawn opens, moves and closes, whatever draws it."""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from typing import Any

from drivetrain.callbacks.progress_bar import ProgressBar, shown
from drivetrain.callbacks.refusal import bad_argument, check_flag
from drivetrain.callbacks.say import say
from drivetrain.machine import probe
from drivetrain.modules import Module, Run

_PERIOD_S = 0.25


class DrawnBar(ProgressBar):
    """A bar for training and one for what is evaluated; where no person watches, one line an epoch.

    ``refresh_rate`` is how many batches lie between drawings at least; a quarter of a second is the other
    bound, so that a bar costs a fast step nothing. 0 draws nothing.
    """

    def __init__(self, refresh_rate: int, *, leave: bool) -> None:
        super().__init__()
        if type(refresh_rate) is not int or refresh_rate < 0:
            because = "an int of 0 or more: batches between drawings"
            raise bad_argument(self, "refresh_rate", refresh_rate, because, "pass refresh_rate=1")
        self._refresh_rate, self._leave = refresh_rate, check_flag(self, "leave", leave)
        self._period_s, self._next, self._at = _PERIOD_S, 0.0, 0
        self._open: dict[str, float] = {}
        """The total of each bar that is open."""
        self._is_watched = False

    @property
    def refresh_rate(self) -> int:
        """Batches between drawings, at least."""
        return self._refresh_rate

    @property
    def is_enabled(self) -> bool:
        """Whether the bar draws: not on other ranks, nor with ``refresh_rate=0``."""
        return self._is_on and self._refresh_rate > 0

    @abstractmethod
    def _draw_new(self, kind: str) -> None:
        """Open the bar of ``train``, ``sanity``, ``validation``, ``test`` or ``predict``."""

    @abstractmethod
    def _draw_reset(self, kind: str, total: float, description: str) -> None:
        """Start an open bar anew; inf is a total that nobody knows."""

    @abstractmethod
    def _draw(self, kind: str, done: int, metrics: dict[str, int | str | float] | None) -> None:
        """Redraw an open bar; None leaves what it showed beside it."""

    @abstractmethod
    def _draw_left(self, kind: str) -> None:
        """Leave the finished bar above, and go on with another."""

    @abstractmethod
    def _draw_closed(self, kind: str) -> None:
        """Take an open bar away."""

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """See whether somebody watches."""
        super().setup(trainer, module, stage)
        self._is_watched = probe.is_terminal() or probe.is_notebook()

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Open the bar of training."""
        self._begin("train", self.total_train_batches, self._epoch_text(trainer))

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Start it anew."""
        if "train" in self._open:
            self._at = 0
            self._draw_reset("train", self.total_train_batches, self._epoch_text(trainer))

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Draw if it is time."""
        now = time.monotonic()
        if now < self._next or "train" not in self._open or batch_idx + 1 - self._at < self._refresh_rate:
            return
        self._next, self._at = now + self._period_s, batch_idx + 1
        self._draw("train", batch_idx + 1, self.get_metrics(trainer, module))

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Show the epoch's values."""
        if not self.is_enabled:
            return
        metrics = self.get_metrics(trainer, module)
        if "train" in self._open:
            total = self.total_train_batches
            self._draw("train", self._at if math.isinf(total) else int(total), metrics)
            if self._leave:
                self._draw_left("train")
        elif not self._is_watched:
            values = "".join(f"  {name} {shown(value)}" for name, value in metrics.items())
            say(trainer, f"epoch {trainer.current_epoch}  step {trainer.global_step}{values}")

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Close the bar of training."""
        self._end("train")

    def on_sanity_check_start(self, trainer: Run, module: Module) -> None:
        """Open the bar of the check."""
        self.reset_dataloader_idx_tracker()
        self._begin("sanity", math.inf, self.sanity_check_description)

    def on_sanity_check_end(self, trainer: Run, module: Module) -> None:
        """Close it."""
        self._finish("sanity")

    def on_validation_start(self, trainer: Run, module: Module) -> None:
        """Open the bar of validation."""
        self.reset_dataloader_idx_tracker()
        if not trainer.sanity_checking:
            self._begin("validation", math.inf, self.validation_description)

    def on_validation_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Start it anew for each loader."""
        if self.has_dataloader_changed(dataloader_idx):
            kind, text = "validation", self.validation_description
            if trainer.sanity_checking:
                kind, text = "sanity", self.sanity_check_description
            self._next_loader(kind, self.total_val_batches_current_dataloader, text, dataloader_idx)

    def on_validation_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Draw if it is time."""
        self._evaluated("sanity" if trainer.sanity_checking else "validation", trainer, batch_idx)

    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """Close it, and show what was logged beside the bar of training."""
        self._finish("validation")
        if "train" in self._open:
            self._draw("train", self._at, self.get_metrics(trainer, module))

    def on_test_start(self, trainer: Run, module: Module) -> None:
        """Open the bar of the test."""
        self.reset_dataloader_idx_tracker()
        self._begin("test", math.inf, self.test_description)

    def on_test_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Start it anew for each loader."""
        if self.has_dataloader_changed(dataloader_idx):
            total = self.total_test_batches_current_dataloader
            self._next_loader("test", total, self.test_description, dataloader_idx)

    def on_test_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Draw if it is time."""
        self._evaluated("test", trainer, batch_idx)

    def on_test_end(self, trainer: Run, module: Module) -> None:
        """Close it."""
        self._finish("test")

    def on_predict_start(self, trainer: Run, module: Module) -> None:
        """Open the bar of the prediction."""
        self.reset_dataloader_idx_tracker()
        self._begin("predict", math.inf, self.predict_description)

    def on_predict_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Start it anew for each loader."""
        if self.has_dataloader_changed(dataloader_idx):
            total = self.total_predict_batches_current_dataloader
            self._next_loader("predict", total, self.predict_description, dataloader_idx)

    def on_predict_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Draw if it is time."""
        self._evaluated("predict", trainer, batch_idx)

    def on_predict_end(self, trainer: Run, module: Module) -> None:
        """Close it."""
        self._finish("predict")

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Close every bar, so that the traceback is readable."""
        self._end_all()

    def teardown(self, trainer: Run, module: Module, stage: str) -> None:
        """Close every bar."""
        self._end_all()

    def disable(self) -> None:
        """Draw nothing from now on."""
        self._end_all()
        super().disable()

    def _epoch_text(self, trainer: Run) -> str:
        most = trainer.max_epochs
        return f"Epoch {trainer.current_epoch}" + (f"/{most - 1}" if most > 0 else "")

    def _begin(self, kind: str, total: float, description: str) -> None:
        if not (self.is_enabled and self._is_watched):
            return
        self._end(kind)
        self._open[kind] = total
        self._next, self._at = 0.0, self._at if kind != "train" else 0
        self._draw_new(kind)
        self._draw_reset(kind, total, description)

    def _next_loader(self, kind: str, total: float, description: str, dataloader_idx: int) -> None:
        if kind in self._open:
            self._open[kind] = total
            self._draw_reset(kind, total, f"{description} DataLoader {dataloader_idx}")

    def _evaluated(self, kind: str, trainer: Run, batch_idx: int) -> None:
        # Batches of one loader are shared out by turns, so the others are as far as this rank is.
        now = time.monotonic()
        if now < self._next or kind not in self._open or batch_idx % self._refresh_rate:
            return
        self._next = now + self._period_s
        self._draw(kind, batch_idx + trainer.world_size, None)

    def _finish(self, kind: str) -> None:
        total = self._open.get(kind, math.inf)
        if not math.isinf(total):
            self._draw(kind, int(total), None)
        self._end(kind)

    def _end(self, kind: str) -> None:
        if kind in self._open:
            del self._open[kind]
            self._draw_closed(kind)

    def _end_all(self) -> None:
        for kind in sorted(self._open):
            self._end(kind)
