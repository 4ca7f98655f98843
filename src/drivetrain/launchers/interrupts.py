"""Ctrl-C while the caller waits inside torch for ranks that do not answer."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_second_interrupt(act: Callable[[], None]) -> Iterator[None]:
    """Call ``act``, in a thread, when Ctrl-C is pressed a second time.

    Python handles Ctrl-C only between its own instructions, so a collective that waits for a hung
    rank would hold it back. The first one is left to Python and to the body, which may stop in good
    order. Does nothing outside of the main thread, or when somebody else listens to signals already.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    if before != -1:
        signal.set_wakeup_fd(before)
    thread = threading.Thread(target=_listen, args=(reader, act), name="drivetrain-interrupts", daemon=True)
    thread.start()
    try:
        yield
    finally:
        if before == -1:
            signal.set_wakeup_fd(-1)
        os.close(writer)
        thread.join()
        os.close(reader)


def _listen(reader: int, act: Callable[[], None]) -> None:
    num_seen = 0
    while data := os.read(reader, 64):
        num_seen += data.count(signal.SIGINT)
        if num_seen > 1:
            act()
