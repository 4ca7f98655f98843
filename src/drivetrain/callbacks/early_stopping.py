"""EarlyStopping: ends a fit when a logged value stops improving."""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.monitor import Monitor, validates_within_epochs
from drivetrain.callbacks.refusal import bad_argument, check_flag, check_mode, check_number, check_text
from drivetrain.callbacks.say import say
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.modules import Module, Run


class EarlyStoppingReason(Enum):
    """Why a fit was stopped."""

    NOT_STOPPED = "not_stopped"
    STOPPING_THRESHOLD = "stopping_threshold"
    DIVERGENCE_THRESHOLD = "divergence_threshold"
    PATIENCE_EXHAUSTED = "patience_exhausted"
    NON_FINITE_METRIC = "non_finite_metric"


class EarlyStopping(Callback):
    """Stop when ``monitor`` has not improved by more than ``min_delta`` for ``patience`` values.

    Patience counts new values only: an epoch without validation, or one value at two moments, counts
    nothing. By default a value is looked at when epochs end, and where validations lie within epochs also
    at their ends; ``check_on_train_epoch_end`` says one of the two. A resumed run that had stopped stops
    again, unless it is given more patience or another threshold. ``min_epochs`` and ``min_steps`` come first.

    ``verbose`` prints a line a change; with ``log_rank_zero_only=False`` every rank prints its own.

    Collectives:
        with several ranks, one object of a few bytes each time a value is looked at; every rank must call.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.monitor]: nothing logged ``monitor``, and ``strict`` is on.
    """

    decides = True

    def __init__(
        self,
        monitor: str,
        min_delta: float = 0.0,
        patience: int = 3,
        verbose: bool = False,
        mode: str = "min",
        strict: bool = True,
        check_finite: bool = True,
        *,
        stopping_threshold: float | None = None,
        divergence_threshold: float | None = None,
        check_on_train_epoch_end: bool | None = None,
        log_rank_zero_only: bool = False,
    ) -> None:
        if type(patience) is not int or patience < 0:
            raise bad_argument(self, "patience", patience, "an int of 0 or more: values without improvement")
        self.monitor = check_text(self, "monitor", monitor, "the name of a logged value")
        self.patience, self.mode = patience, check_mode(self, mode)
        self.min_delta = check_number(self, "min_delta", min_delta, least=0.0)
        self.verbose, self.strict = check_flag(self, "verbose", verbose), check_flag(self, "strict", strict)
        self.check_finite = check_flag(self, "check_finite", check_finite)
        self.log_rank_zero_only = check_flag(self, "log_rank_zero_only", log_rank_zero_only)
        self.stopping_threshold = self.divergence_threshold = None
        if stopping_threshold is not None:
            self.stopping_threshold = check_number(self, "stopping_threshold", stopping_threshold)
        if divergence_threshold is not None:
            self.divergence_threshold = check_number(self, "divergence_threshold", divergence_threshold)
        self._at_epoch_end = check_on_train_epoch_end
        if check_on_train_epoch_end is not None:
            check_flag(self, "check_on_train_epoch_end", check_on_train_epoch_end)
        self._watch = Monitor(monitor, type(self).__name__)
        self._forget()

    def _forget(self) -> None:
        self.wait_count = 0
        """Values since the last improvement."""
        self.stopped_epoch = 0
        """The epoch in which it stopped; 0 where it did not, or in the first."""
        self.best_score = torch.tensor(math.inf if self.mode == "min" else -math.inf, dtype=torch.float64)
        self.stopping_reason = EarlyStoppingReason.NOT_STOPPED
        self.stopping_reason_message: str | None = None
        self._current: float | None = None
        self._checked_step = self._seen_step = -1
        self._checked_epoch = 0
        self._is_fitting = False

    @property
    def monitor_op(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Whether the first is better than the second."""
        return torch.lt if self.mode == "min" else torch.gt

    @property
    def state_key(self) -> str:
        """The class, and what tells two of them in one run apart."""
        return f"{type(self).__qualname__}(monitor={self.monitor!r}, mode={self.mode!r})"

    def state_dict(self) -> dict[str, Any]:
        """Return what was seen so far."""
        return {
            "wait_count": self.wait_count,
            "stopped_epoch": self.stopped_epoch,
            "best_score": self.best_score,
            "current": self._current,
            "checked_step": self._checked_step,
            "checked_epoch": self._checked_epoch,
            "seen_step": self._watch.step,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what was seen so far; patience and thresholds are those that this one was made with.

        What Lightning's callback of this name saved is taken up too.
        """
        if "patience" in state_dict:
            state_dict = {"current": None, "checked_step": -1, "seen_step": -1, **state_dict}
        state_dict = {"checked_epoch": state_dict.get("stopped_epoch"), **state_dict}  # older files have none
        counters = ("wait_count", "stopped_epoch", "checked_step", "checked_epoch", "seen_step")
        model = {**dict.fromkeys(counters, 0), "best_score": 0.0}
        Entry(state_dict, "", f"callbacks.{self.state_key}").check_like({**model, "current": None})
        self.wait_count, self.stopped_epoch = state_dict["wait_count"], state_dict["stopped_epoch"]
        current = state_dict["current"]
        self.best_score, self._current = state_dict["best_score"], None if current is None else float(current)
        self._checked_step, self._seen_step = state_dict["checked_step"], state_dict["seen_step"]
        self._checked_epoch = state_dict["checked_epoch"]

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint says what was seen."""
        if stage == "fit":
            self._forget()

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Stop at once where the run that is resumed had stopped."""
        self._is_fitting = True
        self._watch.begin(trainer, self._seen_step)
        if self._current is not None:
            self._stop_if(trainer, *self._judge(self._current))

    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """Look at the value, unless it is looked at when the epoch ends."""
        if not self._is_fitting or trainer.sanity_checking:
            return
        self._watch.note_validation()
        if self._at_epoch_end is False or (self._at_epoch_end is None and validates_within_epochs(trainer)):
            self._check(trainer, may_raise=True)
        else:
            self._watch.mark(trainer)

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Look at the value, unless it is looked at when validation ends."""
        if self._at_epoch_end is False:
            self._watch.mark(trainer)
        else:
            self._check(trainer, may_raise=self._watch.has_had_its_chance(trainer))

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Validations from here on are no part of the fit."""
        self._is_fitting = False

    def _check(self, trainer: Run, *, may_raise: bool) -> None:
        value, is_current = self._watch.look(trainer)
        if value is None:
            # A value of training's epochs is not there yet when the first validation within one ends.
            if self.strict and may_raise and not (self._at_epoch_end is None and trainer.validating):
                raise self._watch.missing(trainer)
            return
        if not is_current or self._checked_step == trainer.global_step:
            return
        self._checked_step, self._current = trainer.global_step, value
        self._checked_epoch = trainer.current_epoch
        self._count(trainer, value)
        self._stop_if(trainer, *self._judge(value))

    def _count(self, trainer: Run, value: float) -> None:
        """Take a value into best score and patience."""
        best, margin = float(self.best_score), self.min_delta
        if not (value + margin < best if self.mode == "min" else value - margin > best):
            self.wait_count += 1
            return
        by = f" by {abs(value - best):.3g}" if math.isfinite(best) else ""
        self.best_score, self.wait_count = torch.tensor(value, dtype=torch.float64), 0
        self._say(trainer, f"{self.monitor} improved{by} to {value:.5g}")

    def _judge(self, value: float) -> tuple[EarlyStoppingReason, str]:
        """Return whether to stop after a value that was counted, and why."""
        name, is_min = self.monitor, self.mode == "min"
        if self.check_finite and not math.isfinite(value):
            return EarlyStoppingReason.NON_FINITE_METRIC, f"{name} is {value}, which is not finite"
        goal, limit = self.stopping_threshold, self.divergence_threshold
        if goal is not None and (value < goal if is_min else value > goal):
            return (
                EarlyStoppingReason.STOPPING_THRESHOLD,
                f"{name}={value:.5g} is better than stopping_threshold={goal:g}",
            )
        if limit is not None and (value > limit if is_min else value < limit):
            return (
                EarlyStoppingReason.DIVERGENCE_THRESHOLD,
                f"{name}={value:.5g} is worse than divergence_threshold={limit:g}",
            )
        if self.wait_count and self.wait_count >= self.patience:
            best = float(self.best_score)
            return (
                EarlyStoppingReason.PATIENCE_EXHAUSTED,
                f"{name} has not improved on {best:.5g} for {self.wait_count} values",
            )
        return EarlyStoppingReason.NOT_STOPPED, ""

    def _stop_if(self, trainer: Run, reason: EarlyStoppingReason, message: str) -> None:
        if reason is EarlyStoppingReason.NOT_STOPPED:
            return
        self.stopping_reason, self.stopping_reason_message = reason, message
        self.stopped_epoch = self._checked_epoch
        trainer.should_stop = True
        self._say(trainer, f"{message}: stopping")

    def _say(self, trainer: Run, text: str) -> None:
        if self.verbose:
            say(trainer, text, everywhere=not self.log_rank_zero_only)
