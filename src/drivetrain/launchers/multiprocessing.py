"""Python's own start methods: spawn, fork, forkserver.

The work travels by our own payload also here (fork needs none: it shares memory), so lambdas and
classes of the script work; but spawn and forkserver import the user's script again, as Python does.
"""

from __future__ import annotations

import importlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, final

from drivetrain.base.errors import LaunchError
from drivetrain.collectives.place import TIMEOUT_S, Place
from drivetrain.launchers.conduct import conduct
from drivetrain.launchers.launcher import Launcher
from drivetrain.launchers.peer import Peer, ask_for_stack, end_group
from drivetrain.launchers.threads import threads_for
from drivetrain.launchers.worker import Order, serve_process
from drivetrain.machine import probe
from drivetrain.resolver.known.launchers import multiprocessing as known

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from drivetrain.resolver.facts import LauncherFacts
    from drivetrain.resolver.plan import Plan

T = TypeVar("T")

_FACTS = {facts.name: facts for facts in known.FACTS}


@final
class MultiprocessingLauncher(Launcher):
    """Starts each other rank with ``multiprocessing`` by the method ``spawn``, ``fork`` or ``forkserver``."""

    def __init__(
        self, method: str, variables: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        self._method = method
        self._variables = probe.variables() if variables is None else variables
        self._timeout_s = timeout_s

    @property
    def facts(self) -> LauncherFacts:
        """Return the facts of the method."""
        return _FACTS[self._method]

    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:
        """Call ``body`` as rank 0 (or this node's first rank) and in ``num_devices - 1`` processes.

        Raises:
            LaunchError [launch.fork-after-torch]: a fork of this process cannot use torch any more.
            LaunchError [launch.unguarded-main]: Python imports the script again, and it launches again.
            LaunchError [launch.daemonic]: multiprocessing allows this process no children.
        """
        is_fork = self._method == "fork"
        _check_daemonic(self._method)
        if is_fork:
            _check_devices()
            for name in self.ahead:
                importlib.import_module(name)
        context: Any = multiprocessing.get_context(self._method)
        if self._method == "forkserver":
            # Every rank of every launch is then a copy of a process that has torch loaded.
            context.set_forkserver_preload(["__main__", "torch", "drivetrain.launchers.worker", *self.ahead])
        num_threads = threads_for(plan.num_devices, self._variables)
        peers: list[ProcessPeer] = []

        def start(rank: int, folder: Path) -> Peer:
            parent = None if self._method == "forkserver" else os.getpid()
            order = Order(rank, str(folder), parent, num_threads, forked=is_fork)
            peers.append(ProcessPeer(context, order, body if is_fork else None, peers))
            return peers[-1]

        return conduct(
            plan,
            body,
            start,
            variables=self._variables,
            timeout_s=self._timeout_s,
            sends_work=not is_fork,
            imports_main=not is_fork,
        )


@final
class ProcessPeer(Peer):
    """A process of ``multiprocessing`` with a one-way pipe to it."""

    def __init__(
        self,
        context: Any,  # noqa: ANN401 - multiprocessing's contexts share no type
        order: Order,
        body: Callable[[Place], object] | None,
        earlier: Sequence[ProcessPeer],
    ) -> None:
        self._rank = order.rank
        ours: Connection
        theirs, ours = context.Pipe(duplex=False)
        # A fork inherits our ends of all pipes: while it holds one, that rank would not see us end.
        inherited = [peer.pipe for peer in earlier] + [ours] if order.forked else []
        self._process = context.Process(
            target=serve_process, args=(order, theirs, body, inherited), name=f"drivetrain-rank-{order.rank}"
        )
        self.pipe: Connection = ours
        try:
            with warnings.catch_warnings():
                # Python 3.12 warns of every fork with threads; whoever asked for fork knows.
                warnings.simplefilter("ignore", DeprecationWarning)
                self._process.start()
        except OSError as error:
            raise LaunchError(
                "launch.start-failed",
                f"no process can be started for rank {order.rank}: {error}",
                values={"rank": order.rank, "error": error},
                because="each rank runs in a Python process of its own",
                hint="check limits on processes and memory (ulimit -u, ulimit -v), or use fewer devices",
            ) from error
        finally:
            theirs.close()

    @property
    def rank(self) -> int:
        """Its rank in the run."""
        return self._rank

    def send(self, frames: Sequence[bytes]) -> None:
        """Send each frame; the pipe stays open, since its end ends the process."""
        for frame in frames:
            self.pipe.send_bytes(frame)

    def wait(self) -> int | None:
        """Wait for its end and return its exit code."""
        self._process.join()
        code: int | None = self._process.exitcode
        self.pipe.close()
        return code

    def ask_for_stack(self) -> None:
        """Ask it to write its Python stack."""
        ask_for_stack(self._process.pid)

    def end(self, *, at_once: bool) -> None:
        """End its process group, or itself while it leads none yet."""
        if self._process.pid is None:
            return
        end_group(self._process.pid, at_once=at_once)
        if self._process.exitcode is None:
            (self._process.kill if at_once else self._process.terminate)()


def _check_daemonic(method: str) -> None:
    if multiprocessing.current_process().daemon:
        raise LaunchError(
            "launch.daemonic",
            f"launcher {method!r} can start no process from a daemonic process",
            values={"process": multiprocessing.current_process().name},
            because="multiprocessing allows daemonic processes no children",
            hint="pass launcher='subprocess'",
        )


def _check_devices() -> None:
    """Refuse a fork of a process that has a device open."""
    torch = sys.modules.get("torch")
    kinds = ("cuda", "xpu") if torch is not None else ()
    found = [kind for kind in kinds if hasattr(torch, kind) and getattr(torch, kind).is_initialized()]
    if found:
        raise LaunchError(
            "launch.fork-after-torch",
            f"launcher 'fork' cannot start ranks: this process has already used {found[0]}",
            values={"launcher": "fork", "device": found[0]},
            because=f"a forked process cannot use {found[0]} when its parent has",
            hint="pass launcher='subprocess'",
        )
