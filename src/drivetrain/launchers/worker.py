"""The other side: what a started process does, from its first line to its last."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import LaunchError
from drivetrain.base.where import HERE
from drivetrain.collectives.connect import visit
from drivetrain.launchers.lifeline import Inbox, tie_to_parent
from drivetrain.launchers.payload import unpack
from drivetrain.launchers.report import Report, crash_file, started_file, write
from drivetrain.launchers.torch_settings import apply_settings, read_settings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from drivetrain.collectives.place import Place


@dataclass(frozen=True)
class Order:
    """What a started process knows from the beginning."""

    rank: int
    folder: str
    """Where it leaves its report."""
    parent: int | None
    """Process id of the parent; None when the parent did not start it itself."""
    num_threads: int | None = None
    forked: bool = False


PRELUDES: list[str] = []
"""What each started process calls before it takes its work: ``module:function``, in order."""


@dataclass(frozen=True)
class Header:
    """What a started process learns once the parent is ready."""

    place: Place
    argv: tuple[str, ...]
    main_file: str | None
    main_name: str | None
    torch_settings: dict[str, Any]
    preludes: tuple[str, ...] = ()

    @classmethod
    def of(cls, place: Place) -> Header:
        """Describe the caller's script, so that the other ranks look alike to user code."""
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        file, name = getattr(main, "__file__", None), getattr(spec, "name", None)
        return cls(place, tuple(sys.argv), file, name, read_settings(), tuple(PRELUDES))


def header_bytes(place: Place) -> bytes:
    """Return what `serve` waits for first."""
    return pickle.dumps(Header.of(place))


def serve(order: Order, receive: Callable[[], bytes], body: Callable[[Place], object] | None = None) -> int:
    """Take the work, do it, report how it ended, and return the exit code.

    ``body`` is there already in a fork; otherwise it is received.
    """
    if order.forked:
        # Garbage of the parent may own threads, which do not exist here and would be waited for.
        gc.freeze()
    tie_to_parent(order.parent)
    folder = Path(order.folder)
    crash = crash_file(folder, order.rank).open("w")
    faulthandler.enable(crash)
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR1, crash)
    started_file(folder, order.rank).touch()
    inbox = Inbox(receive)
    try:
        HERE.clear()
        HERE.note(stage="start")
        _share_cores(order)
        header: Header = pickle.loads(inbox.get())  # noqa: S301 - from our parent, over a pipe of our own
        if body is None:
            _look_like(header)
            apply_settings(header.torch_settings)
            _call(header.preludes)
            body = unpack(inbox.get())
        HERE.clear()
        with visit(header.place):
            body(header.place)
    except BaseException as error:  # noqa: BLE001 - whatever it is, the parent has to know
        write(Report.of(error, order.rank), folder)
        return 1
    write(Report(order.rank, "done"), folder)
    return 0


def serve_process(
    order: Order, pipe: Connection, body: Callable[[Place], object] | None, inherited: Sequence[Connection]
) -> None:
    """Run as the target of a ``multiprocessing.Process``."""
    if hasattr(os, "setsid"):
        with contextlib.suppress(OSError):
            os.setsid()
    for end in inherited:
        end.close()
    if serve(order, pipe.recv_bytes, body):
        _leave(1)


def main() -> None:
    """Run as a fresh Python; its arguments are sys.path, rank, folder and parent.

    The work comes on standard input.
    """
    _, rank, folder, parent = sys.argv[1:5]
    pipe = os.fdopen(os.dup(0), "rb")
    # User code that reads standard input finds it empty, and not the parent's words.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def receive() -> bytes:
        (size,) = struct.unpack("<Q", _exactly(8))
        return _exactly(size)

    def _exactly(size: int) -> bytes:
        data = pipe.read(size)
        if len(data) < size:
            raise EOFError
        return data

    code = serve(Order(int(rank), folder, int(parent)), receive)
    if code == 0:
        with contextlib.suppress(BaseException):
            atexit._run_exitfuncs()  # noqa: SLF001 - the rest of Python's own end only costs time
    _leave(code)


def _leave(code: int) -> None:
    """End now; the processes that user code has started here end with it."""
    for process in multiprocessing.active_children():
        process.kill()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()
    os._exit(code)


def _look_like(header: Header) -> None:
    """Let user code, and processes that it starts, find the script that it belongs to."""
    sys.argv[:] = header.argv
    main = sys.modules["__main__"]
    if getattr(main, "__file__", None) is None and header.main_file is not None:
        main.__file__ = header.main_file
    if getattr(main, "__spec__", None) is None and header.main_name is not None:
        main.__spec__ = ModuleSpec(header.main_name, None)


def _call(preludes: Sequence[str]) -> None:
    """Prepare this process for user code whose imports the caller has arranged."""
    for prelude in preludes:
        module, _, function = prelude.partition(":")
        getattr(importlib.import_module(module), function)()


def _share_cores(order: Order) -> None:
    """Import torch, while the parent still packs the work, and set its threads.

    Raises:
        LaunchError [launch.fork-after-torch]: the parent of this fork has run a backward pass.
    """
    import torch

    if not order.forked:
        if order.num_threads is not None:
            torch.set_num_threads(order.num_threads)
        return
    # The threads of the parent's pool do not exist here; one thread needs no pool.
    torch.set_num_threads(1)
    try:
        torch.ones((), requires_grad=True).backward()  # type: ignore[no-untyped-call]  # torch's own
    except RuntimeError as error:
        raise LaunchError(
            "launch.fork-after-torch",
            "launcher 'fork' cannot start ranks: this process has already run a backward pass",
            values={"launcher": "fork", "error": error},
            because="torch's autograd keeps threads, and a forked process does not have them",
            hint="pass launcher='subprocess'",
        ) from error
