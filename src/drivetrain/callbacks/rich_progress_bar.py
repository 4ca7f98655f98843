"""RichProgressBar: bars as rich draws them."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from drivetrain.callbacks.drawn_bar import DrawnBar
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.modules import Run

_BAR_COLUMN = 40
_LASTING = ("train", "test", "predict")
"""Bars of which one line stays when they close."""


@final
@dataclass(frozen=True)
class RichProgressBarTheme:
    """How a `RichProgressBar` looks: rich's styles, and how values are written."""

    description: str = ""
    progress_bar: str = "bar.complete"
    progress_bar_finished: str = "bar.finished"
    progress_bar_pulse: str = "bar.pulse"
    batch_progress: str = ""
    time: str = "dim"
    processing_speed: str = "dim"
    metrics: str = ""
    metrics_text_delimiter: str = "  "
    metrics_format: str = ".4g"


class RichProgressBar(DrawnBar):
    """Show rich's bars on rank 0: one for training, one for each loop beside it.

    ``leave`` leaves one line of each epoch's values above the bar. ``console_kwargs`` go to
    ``rich.console.Console``; `configure_columns` may be overridden. Where standard error is no terminal and
    no notebook there is one line an epoch.

    Units:
        refresh_rate: batches between drawings at least, and never more often than four times a second.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        refresh_rate: int = 1,
        leave: bool = False,
        theme: RichProgressBarTheme | None = None,
        console_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(refresh_rate, leave=leave)
        if theme is not None and not isinstance(theme, RichProgressBarTheme):
            raise bad_argument(
                self, "theme", theme, "a RichProgressBarTheme", "pass RichProgressBarTheme(time='bold')"
            )
        self.theme = theme or RichProgressBarTheme()
        self._console_kwargs = dict(console_kwargs or {})
        self._progress: Any = None
        self._rows: dict[str, _Row] = {}

    def configure_columns(self, trainer: Run) -> list[Any]:
        """Return the columns; a task has the fields ``speed`` and ``metrics``."""
        from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        theme = self.theme
        return [
            TextColumn("{task.description}", style=theme.description or "none"),
            BarColumn(
                bar_width=_BAR_COLUMN,
                complete_style=theme.progress_bar,
                finished_style=theme.progress_bar_finished,
                pulse_style=theme.progress_bar_pulse,
            ),
            TextColumn("{task.completed}/{task.fields[of]}", style=theme.batch_progress or "none"),
            TimeElapsedColumn(),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[speed]}", style=theme.processing_speed or "none"),
            TextColumn("{task.fields[metrics]}", style=theme.metrics or "none", markup=False),
        ]

    def _draw_new(self, kind: str) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress

            console = Console(**{"stderr": True, **self._console_kwargs})
            columns = self.configure_columns(self.trainer)
            self._progress = Progress(*columns, console=console, auto_refresh=False, transient=True)
            self._progress.start()
        self._rows[kind] = _Row(self._progress.add_task("", total=None, speed="", metrics="", of="?"))

    def _draw_reset(self, kind: str, total: float, description: str) -> None:
        row = self._rows[kind]
        row.total = None if math.isinf(total) else int(total)
        row.began, row.done, row.description = time.monotonic(), 0, description
        self._progress.remove_task(row.task)  # rich's reset takes a total of None for: as before
        fields = {"speed": "", "of": row.of, "metrics": row.metrics}
        row.task = self._progress.add_task(description, total=row.total, **fields)
        self._progress.refresh()

    def _draw(self, kind: str, done: int, metrics: dict[str, int | str | float] | None) -> None:
        row = self._rows[kind]
        row.done = done if row.total is None else min(done, row.total)
        if metrics is not None:
            row.metrics = self._text(metrics)
        speed = f"{row.done / max(time.monotonic() - row.began, 1e-9):.1f} it/s"
        self._progress.update(row.task, completed=row.done, speed=speed, metrics=row.metrics)
        self._progress.refresh()

    def _text(self, metrics: dict[str, int | str | float]) -> str:
        form = self.theme.metrics_format
        return self.theme.metrics_text_delimiter.join(
            f"{name} {format(value, form) if isinstance(value, float) else value}"
            for name, value in metrics.items()
        )

    def _draw_left(self, kind: str) -> None:
        trainer = self.trainer
        self._say(f"epoch {trainer.current_epoch}  step {trainer.global_step}  {self._rows[kind].metrics}")

    def _draw_closed(self, kind: str) -> None:
        row = self._rows.pop(kind)
        if kind in _LASTING and not (kind == "train" and self._leave):
            self._say(f"{row.description}  {row.done}/{row.of}  {row.metrics}")
        self._progress.remove_task(row.task)
        if not self._rows:
            self._progress.stop()
            self._progress = None

    def _say(self, text: str) -> None:
        self._progress.print(text.rstrip(), highlight=False, markup=False)


@dataclass
class _Row:
    """One bar."""

    task: Any
    total: int | None = None
    done: int = 0
    description: str = ""
    metrics: str = ""
    began: float = 0.0

    @property
    def of(self) -> str:
        return "?" if self.total is None else str(self.total)
