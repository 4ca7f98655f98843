"""TQDMProgressBar: bars as tqdm draws them."""

from __future__ import annotations

import math
import sys
from typing import Any

from drivetrain.base.errors import BuildError
from drivetrain.callbacks.drawn_bar import DrawnBar
from drivetrain.callbacks.progress_bar import shown
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.machine import installed

_FORMAT = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]"


class TQDMProgressBar(DrawnBar):
    """Show tqdm's bars on rank 0: one for training, one for each loop beside it.

    ``process_position`` leaves that many lines above free, for several processes on one terminal; ``leave``
    leaves each epoch's finished bar. To change a bar, override ``init_train_tqdm`` and its like. Where
    standard error is no terminal and no notebook there is one line an epoch. The extra ``tqdm`` brings it.

    Units:
        refresh_rate: batches between drawings at least, and never more often than four times a second.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        BuildError [build.package-missing]: tqdm is not installed.
    """

    BAR_FORMAT = _FORMAT

    def __init__(self, refresh_rate: int = 1, process_position: int = 0, leave: bool = False) -> None:
        super().__init__(refresh_rate, leave=leave)
        if type(process_position) is not int or process_position < 0:
            raise bad_argument(self, "process_position", process_position, "an int of 0 or more: lines")
        if not installed.has_module("tqdm"):
            raise BuildError(
                "build.package-missing",
                f"{type(self).__name__} needs tqdm, which is not installed",
                values={"callback": type(self).__name__, "module": "tqdm"},
                because="this bar is drawn by another package",
                hint='pip install "drivetrain[tqdm]"',
            )
        self._process_position = process_position
        self._bars: dict[str, Any] = {}

    @property
    def process_position(self) -> int:
        """Lines that are left free above."""
        return self._process_position

    @property
    def train_progress_bar(self) -> Any:
        """The bar of training, or None."""
        return self._bars.get("train")

    @property
    def val_progress_bar(self) -> Any:
        """The bar of validation or of the check before a fit, or None."""
        return self._bars.get("validation", self._bars.get("sanity"))

    @property
    def test_progress_bar(self) -> Any:
        """The bar of the test, or None."""
        return self._bars.get("test")

    @property
    def predict_progress_bar(self) -> Any:
        """The bar of the prediction, or None."""
        return self._bars.get("predict")

    def init_sanity_tqdm(self) -> Any:
        """Return the bar of the check before a fit."""
        return self._made(self.sanity_check_description, leave=False)

    def init_train_tqdm(self) -> Any:
        """Return the bar of training."""
        return self._made(self.train_description, leave=True)

    def init_validation_tqdm(self) -> Any:
        """Return the bar of validation: below that of training, gone afterwards."""
        return self._made(self.validation_description, leave="train" not in self._open)

    def init_test_tqdm(self) -> Any:
        """Return the bar of the test."""
        return self._made(self.test_description, leave=True)

    def init_predict_tqdm(self) -> Any:
        """Return the bar of the prediction."""
        return self._made(self.predict_description, leave=True)

    def _made(self, description: str, *, leave: bool) -> Any:
        from tqdm.auto import tqdm

        below = "train" in self._open and description != self.train_description
        return tqdm(
            desc=description,
            position=2 * self._process_position + below,
            leave=leave,
            dynamic_ncols=True,
            file=sys.stderr,
            bar_format=self.BAR_FORMAT,
        )

    def print(self, *args: Any, sep: str = " ", **kwargs: Any) -> None:
        """Print above the bars."""
        if not self._bars:
            super().print(*args, sep=sep, **kwargs)
            return
        from tqdm.auto import tqdm

        kwargs.pop("flush", None)
        tqdm.write(sep.join(map(str, args)), **kwargs)

    def _draw_new(self, kind: str) -> None:
        self._bars[kind] = getattr(self, f"init_{kind}_tqdm")()

    def _draw_reset(self, kind: str, total: float, description: str) -> None:
        if kind not in self._bars:
            self._draw_new(kind)
        bar = self._bars[kind]
        bar.reset()
        bar.total = None if math.isinf(total) else int(total)  # reset() takes None for: as before
        bar.set_description(description)

    def _draw(self, kind: str, done: int, metrics: dict[str, int | str | float] | None) -> None:
        bar = self._bars.get(kind)
        if bar is None:  # left, and the next epoch has not begun
            return
        bar.n = done if bar.total is None else min(done, bar.total)
        if metrics is not None:
            bar.set_postfix({name: shown(value) for name, value in metrics.items()}, refresh=False)
        bar.refresh()

    def _draw_left(self, kind: str) -> None:
        self._bars.pop(kind).close()  # the next epoch makes another

    def _draw_closed(self, kind: str) -> None:
        bar = self._bars.pop(kind, None)
        if bar is not None:
            bar.close()
