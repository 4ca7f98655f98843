"""Interval: when a fit validates, in the unit in which it was said."""

from __future__ import annotations

import time
from typing import final

import torch

from drivetrain.base.quantity import Quantity
from drivetrain.collectives.collectives import Collectives
from drivetrain.loops.progress import Progress


@final
class Interval:
    """Due once a counter has passed a multiple since it was asked last: counters may jump over one.

    A time is rank 0's, asked for at the steps that are logged, so that all ranks hear the same.
    """

    def __init__(self, wanted: Quantity, collectives: Collectives, device: torch.device) -> None:
        self._unit, self._every = wanted.unit, float(wanted.value)
        self._collectives, self._device = collectives, device
        self._began = time.monotonic()

    def is_due(self, progress: Progress, *, is_logging: bool) -> bool:
        """Say whether it is due; to be asked after every batch, and before the first of a resumed run.

        Collectives:
            with several ranks and a time, a broadcast of 8 bytes at logging steps; every rank must call.
        """
        if self._unit == "seconds":
            return is_logging and self._is_time()
        counters = {"samples": progress.samples, "tokens": progress.tokens}
        counter = counters.get(self._unit, progress.global_step)
        passed = int(counter // self._every)
        if passed <= progress.intervals:
            return False
        progress.intervals = passed
        return True

    def _is_time(self) -> bool:
        now = time.monotonic()
        is_due = torch.tensor([int(now - self._began >= self._every)], device=self._device)
        if not self._collectives.broadcast(is_due).item():
            return False
        self._began = now
        return True
