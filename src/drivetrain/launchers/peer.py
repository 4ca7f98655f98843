"""One process that we started as a rank."""

from __future__ import annotations

import os
import signal
from abc import ABC, abstractmethod
from collections.abc import Sequence


class Peer(ABC):
    """A started process, as its parent sees it."""

    @property
    @abstractmethod
    def rank(self) -> int:
        """Its rank in the run."""

    @abstractmethod
    def send(self, frames: Sequence[bytes]) -> None:
        """Send what it waits for; blocks until it has taken it.

        Raises:
            OSError: the process is gone.
        """

    @abstractmethod
    def wait(self) -> int | None:
        """Wait for its end and return its exit code, negative for a signal; None when unknown."""

    @abstractmethod
    def end(self, *, at_once: bool) -> None:
        """End it and all processes that it started; ``at_once`` leaves it no choice."""


def end_group(leader: int, *, at_once: bool) -> None:
    """Send SIGTERM or SIGKILL to a process and the group that it leads; do nothing where there is none."""
    number = signal.SIGKILL if at_once else signal.SIGTERM
    try:
        os.killpg(leader, number)
    except OSError:
        return
