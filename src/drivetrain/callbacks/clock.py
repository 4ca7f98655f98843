"""SharedClock: a time that is over at the same step on every rank."""

from __future__ import annotations

import time
from typing import final

import torch

from drivetrain.modules import Run

_ASK_S = 5.0
"""How long several ranks go on, by estimate, before rank 0's clock is asked again."""
_MOST_STEPS = 10_000


@final
class SharedClock:
    """Says whether an interval is over; rank 0's clock decides for all.

    Clocks of ranks differ, so they must agree, and agreeing each step would cost each step. So rank 0 also
    says how many steps are surely safe until it has to be asked again: half of the time that is left, and
    never more than some seconds' worth. The end of an interval is met to the step, or nearly.

    Units:
        interval_s: seconds.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self.restart()

    def restart(self) -> None:
        """Begin an interval now."""
        self._began = self._asked = time.monotonic()
        self._steps = 0
        self._wait = 1

    def is_over(self, trainer: Run) -> bool:
        """Say whether the interval is over, and begin the next one if so; to be called after each step.

        Collectives:
            with several ranks, a broadcast of 16 bytes, seldom; every rank must call.
        """
        if trainer.world_size == 1:
            now = time.monotonic()
            is_over = now - self._began >= self._interval_s
            if is_over:
                self._began = now
            return is_over
        self._steps += 1
        if self._steps < self._wait:
            return False
        told = torch.tensor(
            self._look() if trainer.is_global_zero else (0, 0), device=trainer.strategy.device
        )
        over, self._wait = trainer.collectives.broadcast(told).tolist()
        self._steps = 0
        return bool(over)

    def _look(self) -> tuple[int, int]:
        """Return, on rank 0, whether the interval is over, and how many steps not to ask."""
        now = time.monotonic()
        step_s = max(now - self._asked, 1e-6) / self._steps
        self._asked = now
        left_s = self._interval_s - (now - self._began)
        is_over = left_s <= 0
        if is_over:
            self._began, left_s = now, self._interval_s
        return int(is_over), max(1, min(int(min(left_s / 2, _ASK_S) / step_s), _MOST_STEPS))
