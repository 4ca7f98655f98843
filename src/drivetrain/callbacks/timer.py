"""Timer: a time budget for a fit."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, final

from drivetrain.base.quantity import Quantity, QuantityProblem, parse
from drivetrain.base.text import listed, nearest
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument, check_flag
from drivetrain.callbacks.say import say
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.modules import Module, Run

_CLOCK = re.compile(r"(\d+):(\d{1,2}):(\d{1,2}):(\d{1,2})")
_LEAST, _SIXTY, _DAY = (0, 0, 0, 0), 60, 24
_STAGES = ("train", "validate", "test", "predict")
_RULE = "a timedelta, a dict of its arguments, 'DD:HH:MM:SS', or a text such as '30 min'"


@final
class Timer(Callback):
    """Stop a fit when its time is used up: ``Timer("00:12:00:00")``; without a duration only measure.

    Rank 0's clock decides for all ranks. The time of a run that is resumed goes on where it stood, and
    everything between the fit's first and last step counts, validation too. ``interval="step"`` stops after
    the step, ``"epoch"`` only at an epoch's end; ``min_epochs`` and ``min_steps`` come first.

    Units:
        duration: of one fit, resumed parts together; what the methods return is in seconds.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    acts_in_fit_only = True

    def __init__(
        self,
        duration: str | timedelta | Mapping[str, float] | Quantity | None = None,
        interval: str = "step",
        verbose: bool = True,
    ) -> None:
        if interval not in ("step", "epoch"):
            raise bad_argument(self, "interval", interval, "'step' or 'epoch'", "pass interval='step'")
        self._duration_s = None if duration is None else _seconds(self, duration)
        self._interval, self._verbose = interval, check_flag(self, "verbose", verbose)
        self._began: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._before_s = 0.0
        if self._duration_s is None or interval == "epoch":
            # Nothing to do each step: as if nobody overrode the hook.
            vars(self)["on_train_batch_end"] = super().on_train_batch_end

    def start_time(self, stage: str = "train") -> float | None:
        """Return when the stage began last, on ``time.monotonic()``'s clock; None before."""
        return self._began.get(_known(self, stage))

    def end_time(self, stage: str = "train") -> float | None:
        """Return when the stage ended last, on ``time.monotonic()``'s clock; None before, and within."""
        return self._ended.get(_known(self, stage))

    def time_elapsed(self, stage: str = "train") -> float:
        """Return how long the stage has taken; for ``train`` the parts before a resume included."""
        began = self.start_time(stage)
        end = self.end_time(stage)
        here = 0.0 if began is None else (time.monotonic() if end is None else end) - began
        return here + (self._before_s if stage == "train" else 0.0)

    def time_remaining(self, stage: str = "train") -> float | None:
        """Return what is left of the duration, at least 0; None without a duration."""
        elapsed = self.time_elapsed(stage)
        return None if self._duration_s is None else max(self._duration_s - elapsed, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Return how long each stage has taken."""
        return {
            "time_elapsed": {stage: self.time_elapsed(stage) for stage in _STAGES if stage in self._began}
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from the time that training had taken."""
        Entry(state_dict, "", f"callbacks.{self.state_key}").check_like({"time_elapsed": {}})
        self._before_s = float(state_dict["time_elapsed"].get("train", 0.0))

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint says how long it has run."""
        if stage == "fit":
            self._before_s = 0.0
            self._began.clear()
            self._ended.clear()

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Start the clock; a run that is resumed with no time left stops at once."""
        self._begin("train")
        self._stop_if_over(trainer)

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Stop if the time is used up."""
        self._stop_if_over(trainer)

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Stop if the time is used up."""
        self._stop_if_over(trainer)

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Stop the clock."""
        self._end("train")

    def on_validation_start(self, trainer: Run, module: Module) -> None:
        """Start the clock of validation."""
        self._begin("validate")

    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """Stop the clock of validation."""
        self._end("validate")

    def on_test_start(self, trainer: Run, module: Module) -> None:
        """Start the clock of the test."""
        self._begin("test")

    def on_test_end(self, trainer: Run, module: Module) -> None:
        """Stop the clock of the test."""
        self._end("test")

    def on_predict_start(self, trainer: Run, module: Module) -> None:
        """Start the clock of the prediction."""
        self._begin("predict")

    def on_predict_end(self, trainer: Run, module: Module) -> None:
        """Stop the clock of the prediction."""
        self._end("predict")

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Stop the clocks that run."""
        for stage in self._began.keys() - self._ended.keys():
            self._end(stage)

    def _begin(self, stage: str) -> None:
        self._began[stage] = time.monotonic()
        self._ended.pop(stage, None)

    def _end(self, stage: str) -> None:
        self._ended[stage] = time.monotonic()

    def _stop_if_over(self, trainer: Run) -> None:
        # One rank's wish is everybody's: the loop asks all ranks at each moment at which it may stop.
        if trainer.should_stop or not trainer.is_global_zero or self._duration_s is None:
            return
        elapsed = self.time_elapsed()
        if elapsed >= self._duration_s:
            trainer.should_stop = True
            if self._verbose:
                limit, used = timedelta(seconds=self._duration_s), timedelta(seconds=round(elapsed))
                say(trainer, f"time limit {limit} reached after {used}: stopping")


def _known(owner: object, stage: str) -> str:
    name = str(getattr(stage, "value", stage))
    if name not in _STAGES:
        close = nearest(name, _STAGES)
        hint = f"did you mean {close!r}?" if close else "pass stage='train'"
        raise bad_argument(owner, "stage", stage, f"one of {listed(_STAGES)}", hint)
    return name


def _seconds(owner: object, duration: object) -> float:
    if isinstance(duration, str) and ":" in duration:
        match = _CLOCK.fullmatch(duration.strip())
        parts = tuple(map(int, match.groups())) if match else _LEAST
        days, hours, minutes, seconds = parts
        if parts == _LEAST or hours >= _DAY or minutes >= _SIXTY or seconds >= _SIXTY:
            raise bad_argument(owner, "duration", duration, _RULE, "write '00:12:00:00' for twelve hours")
        return float(((days * _DAY + hours) * _SIXTY + minutes) * _SIXTY + seconds)
    if isinstance(duration, Mapping):
        try:
            duration = timedelta(**duration)
        except TypeError as error:
            raise bad_argument(
                owner, "duration", duration, f"{_RULE}: {error}", "pass {'hours': 12}"
            ) from error
    try:
        return float(parse(duration, ("seconds",)).value)
    except QuantityProblem as problem:
        raise bad_argument(owner, "duration", duration, f"{_RULE}: {problem}", problem.hint) from problem
