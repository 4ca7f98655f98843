"""One process that we started as a rank."""

from __future__ import annotations

import contextlib
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

    @abstractmethod
    def ask_for_stack(self) -> None:
        """Ask it to write its Python stack to its crash file."""


def ask_for_stack(process: int | None) -> None:
    """Send the signal on which a rank writes its Python stack; do nothing where there is none."""
    if process is not None and hasattr(signal, "SIGUSR1"):
        with contextlib.suppress(OSError):
            os.kill(process, signal.SIGUSR1)


def end_group(leader: int, *, at_once: bool) -> None:
    """Send SIGTERM or SIGKILL to a process and the group that it leads; do nothing where there is none."""
    with contextlib.suppress(OSError):
        os.killpg(leader, signal.SIGKILL if at_once else signal.SIGTERM)
