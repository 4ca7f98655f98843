"""When a fit validates and logs, where that is said in a unit."""

from __future__ import annotations

import time
from typing import final

import torch

from drivetrain.base.quantity import Quantity
from drivetrain.collectives.collectives import Collectives
from drivetrain.loops.progress import Progress
from drivetrain.loops.pulse import Pulse
from drivetrain.loops.refusal import no_part

_COUNTERS = {"steps": "global_step", "samples": "samples", "tokens": "tokens"}
"""Which counter of a fit counts a unit."""


@final
class Interval:
    """When to validate: once a counter has passed a multiple; counters may jump over one.

    A time is rank 0's, asked for at the steps that are logged, so that all ranks hear the same.
    """

    def __init__(self, wanted: Quantity, collectives: Collectives, device: torch.device) -> None:
        self._wanted, self._passing = wanted, Passing("val_check_interval", wanted)
        self._collectives, self._device = collectives, device
        self._began = time.monotonic()

    def begin(self, progress: Progress) -> None:
        """Begin a fit, or go on with one."""
        if self._wanted.unit != "seconds":
            self._passing.begin(progress, None)

    def is_due(self, progress: Progress, *, is_logging: bool) -> bool:
        """Say whether it is due; to be asked after every batch, and before the first of a resumed run.

        Collectives:
            with several ranks and a time, a broadcast of 8 bytes at logging steps; every rank must call.
        """
        if self._wanted.unit == "seconds":
            return is_logging and self._is_time()
        return self._passing.is_due(progress, None)

    def _is_time(self) -> bool:
        now = time.monotonic()
        is_due = torch.tensor([int(now - self._began >= float(self._wanted.value))], device=self._device)
        if not self._collectives.broadcast(is_due).item():
            return False
        self._began = now
        return True


@final
class LogInterval:
    """Which optimizer steps are logged: the first at which a counter has passed a multiple.

    A time is rank 0's. With several ranks it travels with the pulse, so no step waits for it.
    """

    def __init__(self, wanted: Quantity, pulse: Pulse | None, *, is_teller: bool) -> None:
        self._wanted, self._passing = wanted, Passing("log_every_n_steps", wanted)
        self._pulse, self._is_teller = pulse, is_teller
        self._began = time.monotonic()

    def begin(self, progress: Progress, num_batches: int | None) -> None:
        """Begin a fit, or go on with one.

        Raises:
            DataError [data.val-interval]: a part of an epoch whose length nobody knows.
        """
        if self._wanted.unit != "seconds":
            self._passing.begin(progress, num_batches)

    def is_due(self, progress: Progress, num_batches: int | None) -> bool:
        """Say whether the step that was taken is logged; to be asked after each."""
        if self._wanted.unit != "seconds":
            return self._passing.is_due(progress, num_batches)
        return self.is_over() if self._pulse is None else self._pulse.take_alarm()

    def is_over(self) -> bool:
        """Whether this rank keeps the time, and it is over; then it begins anew."""
        if self._wanted.unit != "seconds" or not self._is_teller:
            return False
        now = time.monotonic()
        if now - self._began < self._wanted.value:
            return False
        self._began = now
        return True


@final
class Passing:
    """Sees a counter of a fit pass multiples of a quantity; the last one is in the fit's checkpoints."""

    def __init__(self, name: str, wanted: Quantity) -> None:
        self._name, self._wanted = name, wanted

    def begin(self, progress: Progress, num_batches: int | None) -> None:
        """Begin a fit; one that goes on in another quantity than it was said before counts from where it is.

        Raises:
            DataError [data.val-interval]: a part of an epoch whose length nobody knows.
        """
        number = self._number(progress, num_batches)
        if progress.passed.get(self._name, ("",))[0] != str(self._wanted):
            progress.passed[self._name] = (str(self._wanted), number)

    def is_due(self, progress: Progress, num_batches: int | None) -> bool:
        """Say whether one was passed since this was asked last."""
        number = self._number(progress, num_batches)
        said, before = progress.passed[self._name]
        if number > before:
            progress.passed[self._name] = (said, number)
        return number > before

    def _number(self, progress: Progress, num_batches: int | None) -> int:
        if self._wanted.unit == "epochs":
            if num_batches is None:
                raise no_part(self._name, self._wanted.value)
            seen = progress.epoch * num_batches + progress.batches
            return int(seen // (self._wanted.exact * num_batches))
        counter: int = getattr(progress, _COUNTERS[self._wanted.unit])
        return counter // int(self._wanted.value)
