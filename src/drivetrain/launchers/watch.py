"""The caller's eye on the ranks that it started.

One thread a rank sends the work, then sleeps until the process ends; nothing polls. The thread of
the first rank that fails becomes the alarm: it ends the others, so that the caller's own collective
breaks; if the caller then still does not come back, it interrupts it; at last it ends the process.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from drivetrain.launchers.peer import Peer
from drivetrain.launchers.report import PeerLost, Report, crash_file, read

_GRACE_S = 0.3
"""How long the others may take to report after a failure of which they are not the cause."""
_DOUBT_S = 5.0
"""How long to wait for the cause when only consequences were seen."""
_STUBBORN_S = 10.0
"""How long the caller may take to come back, and again after it was interrupted."""
_STACK_S = 3.0
"""How long a process may take to write its stack; a busy machine gets to it late."""
_WHOLE_S = 0.2
"""After how long without a change a stack is whole: it is written frame by frame."""
_GOODBYE_S = 2.0
"""How long a process may take to end after SIGTERM."""


class Watch:
    """Knows how each other rank of this launch ended, and ends them all together."""

    def __init__(self, folder: Path, explain: Callable[[], str]) -> None:
        self._folder = folder
        self._explain = explain
        """Says what failed, for the last words of a caller that does not come back."""
        self._changed = threading.Condition()
        self._peers: dict[int, Peer] = {}
        self._threads: list[threading.Thread] = []
        self._sent_away: set[int] = set()
        self._ended: set[int] = set()
        self._interrupt: Callable[[], None] | None = None
        """Raises `PeerLost` in the thread that runs the body; None when none does."""
        self._alarmed = False
        self.reports: dict[int, Report] = {}
        """By rank: how it ended, of those that were not sent away by us."""

    def add(self, peer: Peer) -> None:
        """Take charge of a process, from its start."""
        self._peers[peer.rank] = peer

    def attend(self, frames: dict[int, Sequence[bytes]]) -> None:
        """Begin to send each rank its work and to wait for its end."""
        for rank, peer in self._peers.items():
            thread = threading.Thread(target=self._attend, args=(peer, frames.pop(rank, ())), daemon=True)
            thread.name = f"drivetrain-rank-{rank}"
            self._threads.append(thread)
            thread.start()

    def check(self) -> None:
        """Raise in a caller that waits for ranks of which one has failed."""
        if any(report.how != "done" for report in self.reports.values()):
            raise PeerLost

    def enter(self, interrupt: Callable[[], None]) -> None:
        """Note that the caller now runs the body, and what gets it out of there."""
        with self._changed:
            self._interrupt = interrupt

    def leave(self) -> None:
        """Note that the body has ended: nothing interrupts the caller any more."""
        self._interrupt = None  # at once, since the lock may be with the one who interrupts
        with self._changed:
            self._changed.notify_all()

    def is_inside(self) -> bool:
        """Whether the caller runs the body."""
        return self._interrupt is not None

    def settle(self, own: Report | None, timeout_s: float) -> list[int]:
        """Wait until it is clear how the launch ended; return the ranks that still run.

        ``own`` is the caller's failure; None when it has done its work and the others may go on.
        """
        if own is None:
            self._wait(lambda: self._is_over() or self._has_failure(), timeout_s)
            if self._has_failure():
                self._wait(lambda: self._is_over() or self._has_cause(), _DOUBT_S)
        elif own.leaves_with_zero or own.is_consequence:
            self._wait(lambda: self._is_over() or self._has_cause(), _DOUBT_S)
        else:
            self._wait(lambda: self._is_over() or self._has_cause(), _GRACE_S)
        with self._changed:
            return sorted(self._peers.keys() - self._ended)

    def stack(self, rank: int) -> str:
        """Return the Python stack of a rank that still runs; empty when it shows none."""
        path = crash_file(self._folder, rank)
        self._peers[rank].ask_for_stack()
        deadline, size, since = time.monotonic() + _STACK_S, 0, time.monotonic()
        while (now := time.monotonic()) < deadline:
            before, size = size, path.stat().st_size if path.exists() else 0
            since = since if size == before else now
            if size and now - since > _WHOLE_S:
                break
            time.sleep(0.01)
        return path.read_text(errors="replace") if path.exists() else ""

    def end(self) -> None:
        """End every process that still runs, with what it started; return when none is left."""
        if not self._threads:
            self.attend({})
        try:
            self.send_away(at_once=False)
            self._wait(self._is_over, _GOODBYE_S)
        finally:
            self.send_away(at_once=True)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()

    def _attend(self, peer: Peer, frames: Sequence[bytes]) -> None:
        with contextlib.suppress(OSError):  # it is gone; how it ended says more
            peer.send(frames)
        del frames
        code = peer.wait()
        report = read(self._folder, peer.rank, code)
        peer.end(at_once=True)
        with self._changed:
            self._ended.add(peer.rank)
            if peer.rank not in self._sent_away or report.how != "died":
                self.reports[peer.rank] = report
            is_alarm = self._has_failure() and not self._alarmed
            self._alarmed = self._alarmed or is_alarm
            self._changed.notify_all()
        if is_alarm:
            self._alarm()

    def _alarm(self) -> None:
        """Get everybody out: the other ranks, then the caller."""
        self._wait(lambda: self._is_over() or self._has_cause(), _DOUBT_S)
        self._wait(self._is_over, _GRACE_S)
        self.send_away(at_once=False)
        self._wait(lambda: not self.is_inside() and self._is_over(), _GOODBYE_S)
        self.send_away(at_once=True)
        if self._wait(lambda: not self.is_inside(), _STUBBORN_S):
            return
        with self._changed:
            if self._interrupt is not None:
                self._interrupt()
        if self._wait(lambda: not self.is_inside(), _STUBBORN_S):
            return
        print(self._explain(), file=sys.__stderr__, flush=True)
        shutil.rmtree(self._folder, ignore_errors=True)
        os._exit(1)

    def send_away(self, *, at_once: bool = True) -> None:
        """End the processes that still run; do not wait for their end."""
        with self._changed:
            running = [peer for rank, peer in self._peers.items() if rank not in self._ended]
            self._sent_away.update(peer.rank for peer in running)
        for peer in running:
            peer.end(at_once=at_once)

    def _wait(self, is_so: Callable[[], bool], timeout_s: float) -> bool:
        with self._changed:
            return self._changed.wait_for(is_so, timeout_s)

    def _is_over(self) -> bool:
        return len(self._ended) == len(self._peers)

    def _has_failure(self) -> bool:
        return any(report.how != "done" for report in self.reports.values())

    def _has_cause(self) -> bool:
        return any(report.how != "done" and not report.is_consequence for report in self.reports.values())
