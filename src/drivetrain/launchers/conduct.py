"""One launch: start the ranks, send the work, be a rank oneself, end everything."""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from drivetrain.base.where import HERE
from drivetrain.collectives.connect import visit
from drivetrain.launchers.interrupts import on_lost_peer, on_second_interrupt
from drivetrain.launchers.nodes import Node
from drivetrain.launchers.payload import pack
from drivetrain.launchers.report import Report
from drivetrain.launchers.threads import threads_for, torch_threads
from drivetrain.launchers.verdict import Verdict, judge, stuck, unguarded
from drivetrain.launchers.watch import Watch
from drivetrain.launchers.worker import header_bytes

if TYPE_CHECKING:
    from drivetrain.collectives.place import Place
    from drivetrain.launchers.peer import Peer
    from drivetrain.resolver.plan import Plan

T = TypeVar("T")


def conduct(
    plan: Plan,
    body: Callable[[Place], T],
    start: Callable[[int, Path], Peer],
    *,
    variables: Mapping[str, str],
    timeout_s: float,
    sends_work: bool = True,
    imports_main: bool = False,
) -> T:
    """Run ``body`` as this node's first rank, and as each other rank in a process that ``start`` starts.

    The processes start before the work is packed, so that they import torch meanwhile.

    Units:
        timeout_s: seconds, for the meeting, each collective, and the end of the other ranks.
    Raises:
        LaunchError [launch.unguarded-main]: this process is a worker that still imports the script.
        see `Launcher.launch` for the others.
    """
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise unguarded("a starting worker process imports the script again, and that would launch again")
    node = Node.of(plan, variables)
    local_ranks = range(1, plan.num_devices)
    folder = Path(tempfile.mkdtemp(prefix="drivetrain-"))
    own = Report(node.ranks(0).rank, "done")
    watch = Watch(folder, lambda: _last_words(own, watch, imports_main))
    try:
        for local_rank in local_ranks:
            watch.add(start(node.ranks(local_rank).rank, folder))
        work = (pack(body),) if sends_work and local_ranks else ()
        place = node.place(timeout_s)
        num_threads = threads_for(plan.num_devices, variables)
        with (
            visit(place),
            torch_threads(num_threads),
            on_second_interrupt(watch.send_away),
            on_lost_peer(watch.is_inside) as interrupt,
        ):
            place.check = watch.check
            watch.enter(interrupt)
            places = [node.peer_place(place, local_rank) for local_rank in local_ranks]
            watch.attend({peer.ranks.rank: (header_bytes(peer), *work) for peer in places})
            del work
            return _take_part(body, place, watch, imports_main=imports_main)
    finally:
        watch.end()
        shutil.rmtree(folder, ignore_errors=True)


def _take_part(body: Callable[[Place], T], place: Place, watch: Watch, *, imports_main: bool) -> T:
    """Call the body; then return its result, or raise what came first on any rank."""
    results: list[T] = []
    error: BaseException | None = None
    try:
        try:
            results.append(body(place))
        finally:
            watch.leave()
    except KeyboardInterrupt:
        raise
    except BaseException as caught:  # noqa: BLE001 - the verdict raises it again, or what caused it
        watch.leave()  # again: the interruption may have come within the first
        error = caught
    try:
        own = _own_report(place.ranks.rank, error)
        running = watch.settle(own if error is not None else None, place.timeout_s)
        verdict = judge(own, error, watch.reports, running=running, imports_main=imports_main)
        if running and (verdict is None or (verdict.is_own and own.is_consequence)):
            # Nobody failed, but somebody does not answer: show what it does.
            verdict = Verdict(stuck(running, own, watch.stack(running[0])), error)
        if verdict is None:
            return results[0]
        if verdict.is_own:
            raise verdict.error
        raise verdict.error from verdict.cause
    finally:
        error = verdict = None  # a traceback that holds this frame must not hold itself through it


def _own_report(rank: int, error: BaseException | None) -> Report:
    return Report(rank, "done", where=str(HERE)) if error is None else Report.of(error, rank)


def _last_words(own: Report, watch: Watch, imports_main: bool) -> str:
    verdict = judge(own, None, watch.reports, imports_main=imports_main)
    said = verdict.error if verdict is not None else ""
    return f"drivetrain: rank {own.rank} does not answer any more, so this process ends\n{said}"
