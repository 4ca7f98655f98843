"""Fresh Python processes that get their work as a payload; the user's script is not run again.

They write to the caller's own standard output and error: nothing that a failing rank says is lost
or late, no pipe can fill, and a rank's lines look as they do in a single process. What matters of a
failure travels by its report besides.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, final

from drivetrain.base.errors import LaunchError
from drivetrain.collectives.place import TIMEOUT_S, Place
from drivetrain.launchers.conduct import conduct
from drivetrain.launchers.launcher import Launcher
from drivetrain.launchers.peer import Peer, ask_for_stack, end_group
from drivetrain.launchers.threads import threads_for, with_threads
from drivetrain.machine import probe
from drivetrain.resolver.known.launchers import subprocess as known

if TYPE_CHECKING:
    from drivetrain.resolver.facts import LauncherFacts
    from drivetrain.resolver.plan import Plan

T = TypeVar("T")

_FACTS = known.FACTS[0]
# The caller's sys.path first, then the import: "-m" would look in the current folder, where a file
# that is called like a module of the standard library or of torch may lie.
_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from drivetrain.launchers.worker import main; main()"
)


@final
class SubprocessLauncher(Launcher):
    """Starts each other rank as ``python``, which takes the work from a pipe."""

    def __init__(self, variables: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self._variables = probe.variables() if variables is None else variables
        self._timeout_s = timeout_s

    @property
    def facts(self) -> LauncherFacts:
        """Return the facts of launcher ``subprocess``."""
        return _FACTS

    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:
        """Call ``body`` as rank 0 (or this node's first rank) and in ``num_devices - 1`` processes."""
        num_threads = threads_for(plan.num_devices, self._variables)
        variables = with_threads(self._variables, num_threads)

        def start(rank: int, folder: Path) -> Peer:
            return PythonPeer(rank, folder, variables)

        return conduct(plan, body, start, variables=self._variables, timeout_s=self._timeout_s)


@final
class PythonPeer(Peer):
    """A Python process that leads a process group of its own: Ctrl-C reaches the caller alone."""

    def __init__(self, rank: int, folder: Path, variables: Mapping[str, str]) -> None:
        self._rank = rank
        path = json.dumps(list(map(str, sys.path)))
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # noqa: SLF001 - as multiprocessing does
        words = [path, str(rank), str(folder), str(os.getpid())]
        try:
            self._process = subprocess.Popen(  # noqa: S603 - this very interpreter
                [sys.executable, *flags, "-c", _BOOT, *words],
                stdin=subprocess.PIPE,
                env=dict(variables),
                start_new_session=True,
            )
        except OSError as error:
            raise LaunchError(
                "launch.start-failed",
                f"no process can be started for rank {rank}: {error}",
                values={"rank": rank, "executable": sys.executable, "error": error},
                because="each rank runs in a Python process of its own",
                hint="check limits on processes and memory (ulimit -u, ulimit -v), or use fewer devices",
            ) from error

    @property
    def rank(self) -> int:
        """Its rank in the run."""
        return self._rank

    def send(self, frames: Sequence[bytes]) -> None:
        """Write each frame after its length; the pipe stays open, since its end ends the process."""
        pipe = self._process.stdin
        assert pipe is not None  # noqa: S101 - it was opened above
        for frame in frames:
            pipe.write(struct.pack("<Q", len(frame)))
            pipe.write(frame)
        pipe.flush()

    def wait(self) -> int | None:
        """Wait for its end and return its exit code."""
        code = self._process.wait()
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        return code

    def ask_for_stack(self) -> None:
        """Ask it to write its Python stack."""
        ask_for_stack(self._process.pid)

    def end(self, *, at_once: bool) -> None:
        """End its process group."""
        end_group(self._process.pid, at_once=at_once)
