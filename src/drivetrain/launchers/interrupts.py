"""Get the caller out of what it does: for Ctrl-C inside torch, and when another rank has failed."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from drivetrain.launchers.report import PeerLost


@contextmanager
def on_lost_peer(is_wanted: Callable[[], bool]) -> Iterator[Callable[[], None]]:
    """Yield what another thread may call to raise `PeerLost` in this one.

    In the main thread a signal does it, since that also ends ``time.sleep()`` and other waits of the
    operating system. It is SIGURG, which nobody ignores or presses: SIGINT is ignored in what a shell
    starts with ``&``. In another thread the exception waits for the next Python instruction.

    ``is_wanted`` tells, when the signal is handled, whether it still comes in time.
    """
    thread = threading.get_ident()
    if threading.current_thread() is not threading.main_thread():
        yield lambda: _raise_in(thread)
        return

    def leave(_number: int, _frame: FrameType | None) -> None:
        if is_wanted():
            raise PeerLost

    before = signal.signal(signal.SIGURG, leave)
    try:
        yield lambda: signal.pthread_kill(thread, signal.SIGURG)
    finally:
        signal.signal(signal.SIGURG, signal.SIG_DFL if before is None else before)


def _raise_in(thread: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(PeerLost))


_END = b"\0"
"""No signal has the number 0."""


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
        # A word of ours ends the listener, not the pipe's end: a process that was forked meanwhile, such as
        # a loader's worker, holds the pipe open for as long as it lives.
        os.write(writer, _END)
        thread.join()
        os.close(writer)
        os.close(reader)


def _listen(reader: int, act: Callable[[], None]) -> None:
    num_seen = 0
    while not (data := os.read(reader, 64)).endswith(_END):
        num_seen += data.count(signal.SIGINT)
        if num_seen > 1:
            act()
