"""Pulse: what ranks tell each other while they train."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

import torch

from drivetrain.collectives.collectives import Collectives

_PERIOD_S = 0.05
"""How often ranks tell each other, at most: a collective costs about a millisecond on a CPU, so 2 %."""
_MASK = 2**62 - 1

Names = tuple[str, ...]


@final
class Pulse:
    """Whether all ranks logged the same names in every step, whether one got a signal, and rank 0's clock.

    What is told travels while the next steps are computed, and is read when it is told again; so no step
    waits for it. All ranks read the same at the same step. How many steps lie between follows from how
    long the slowest rank took.
    """

    def __init__(self, collectives: Collectives, device: torch.device) -> None:
        self._collectives, self._device = collectives, device
        self._pending: Callable[[], torch.Tensor] | None = None
        self._told: list[Names] = []
        self._history: list[Names] = []
        self._word = 0
        self._every = 1
        self._since = time.monotonic()
        self.signal = 0
        """The number of the signal that a rank had when it told last; 0 for none."""
        self._alarm = 0

    def step(
        self, names: Names, word: int, signal: int, is_over: Callable[[], bool] = bool
    ) -> list[Names] | None:
        """Count a step, and tell if it is time; return the steps told last if they were not all ranks' own.

        ``is_over`` is asked when it is told, and says whether a time is over that all ranks shall know of.

        Collectives:
            now and then one all_reduce of 40 bytes, not waited for; every rank must call.
        """
        self._history.append(names)
        self._word = (self._word * 1000003 ^ word) & _MASK
        return self._tell(signal, is_over()) if len(self._history) >= self._every else None

    def take_alarm(self) -> bool:
        """Whether a rank's time was over when it told; True once for each, at the same step on every rank."""
        found, self._alarm = self._alarm, 0
        return bool(found)

    def _tell(self, signal: int, is_over: bool = False) -> list[Names] | None:
        wrong = self.read()
        now = time.monotonic()
        took_us = int((now - self._since) / max(len(self._history), 1) * 1e6)
        told = torch.tensor(
            [self._word, -self._word, took_us, signal, int(is_over)], dtype=torch.int64, device=self._device
        )
        self._pending = self._collectives.start_all_reduce(told, "max")
        self._told, self._history, self._word, self._since = self._history, [], 0, now
        return wrong

    def read(self) -> list[Names] | None:
        """Wait for what was told last; return those steps' names if they were not all ranks' own."""
        pending, self._pending = self._pending, None
        if pending is None:
            return None
        high, negated_low, took_us, self.signal, alarm = pending().tolist()
        self._alarm |= alarm
        self._every = max(1, int(_PERIOD_S * 1e6 / max(took_us, 1)))
        return None if high == -negated_low else self._told

    def finish(self, signal: int) -> list[Names] | None:
        """Tell and read what is left, at an epoch's end: no step comes that would.

        Collectives:
            those of `step`; every rank must call.
        """
        wrong = self._tell(signal)
        return wrong or self.read()
