"""Signals that ask a run to leave: noted when they come, acted upon between two steps."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import final

ASKING = ("SIGTERM", "SIGUSR1")
"""What schedulers send before they take a machine away; SIGUSR1 is what users of SLURM choose."""


@final
class Signals:
    """The number of the signal that came, or 0.

    Nothing is done in the handler: a checkpoint that is written within one may be torn, and other ranks
    would know nothing of it. A second signal of the kind does what it does without us.
    """

    def __init__(self) -> None:
        self.number = 0

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Note signals for a block, where nobody else does; only the main thread can."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = [getattr(signal, name) for name in ASKING if hasattr(signal, name)]
        ours = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]
        for number in ours:
            signal.signal(number, self._note)
        try:
            yield
        finally:
            for number in ours:
                signal.signal(number, signal.SIG_DFL)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.number = number
        signal.signal(number, signal.SIG_DFL)
