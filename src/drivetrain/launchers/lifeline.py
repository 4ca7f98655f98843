"""A started process ends when its parent does, whatever ended the parent."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable
from queue import SimpleQueue

_PR_SET_PDEATHSIG = 1
_ORPHANED = 70


def tie_to_parent(parent: int | None) -> None:
    """Ask the kernel to end this process with its parent; on Linux only, elsewhere do nothing.

    ``parent`` is its process id; None when another process stands between (forkserver).
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if parent is not None and os.getppid() != parent:
        os._exit(_ORPHANED)  # the parent ended before the kernel was asked


class Inbox:
    """What the parent sends; when the parent's end closes, this process ends.

    One thread reads, so that a large payload arrives while the main thread imports torch.
    """

    def __init__(self, receive: Callable[[], bytes]) -> None:
        self._receive = receive
        self._frames: SimpleQueue[bytes] = SimpleQueue()
        threading.Thread(target=self._read, name="drivetrain-lifeline", daemon=True).start()

    def get(self) -> bytes:
        """Return the next thing that the parent sent; wait for it."""
        return self._frames.get()

    def _read(self) -> None:
        try:
            while True:
                self._frames.put(self._receive())
        except (EOFError, OSError):
            os._exit(_ORPHANED)
