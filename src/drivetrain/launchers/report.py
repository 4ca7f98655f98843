"""How a rank ended: what it says of itself, or what its process's end says."""

from __future__ import annotations

import pickle
import signal
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from drivetrain.base.errors import DrivetrainError
from drivetrain.base.where import HERE

How: TypeAlias = Literal["done", "failed", "died"]


class PeerLost(BaseException):
    """Another rank has failed; raised here only to get this rank out of what it is doing."""


_PEER_GONE = (
    "closed by peer",
    "reset by peer",
    "broken pipe",
    "connection refused",
    "socket closed",
    "pair closure",
    "remote process exited",
    "recvvalue failed",
    "sendbytes failed",
    "failed to recv",
    "nccl",
    "gloo",
    "tcpstore",
)
"""What torch writes when it talks to a rank that is gone; lower case."""

_LONGEST = 300


@dataclass(frozen=True)
class Report:
    """How one rank ended."""

    rank: int
    how: How
    where: str = ""
    """What the rank was doing: ``stage fit, epoch 0, step 2``."""
    kind: str = ""
    """Type of the exception."""
    message: str = ""
    traceback: str = ""
    is_consequence: bool = False
    """Whether the exception is what a rank sees when another one is gone."""
    time_s: float = 0.0
    exit_code: int | None = None
    """Of the process, as subprocess gives it: negative for a signal."""
    leaves_with_zero: bool = False
    """Whether the rank called ``sys.exit()`` or ``sys.exit(0)``."""
    has_started: bool = True
    """Whether the process came as far as our own code."""
    pickled: bytes = b""
    """The exception, if it pickles."""

    @classmethod
    def of(cls, error: BaseException, rank: int) -> Report:
        """Describe an exception where it was caught."""
        code = getattr(error, "code", None)
        return cls(
            rank=rank,
            how="failed",
            where=str(HERE),
            kind=type(error).__name__,
            message=_message(error),
            traceback=_traceback(error),
            is_consequence=is_consequence(error),
            time_s=time.time(),
            leaves_with_zero=isinstance(error, SystemExit) and code in (None, 0),
            pickled=_pickled(error),
        )

    @property
    def headline(self) -> str:
        """One line for a log: which rank, where, what."""
        at = f" at {self.where}" if self.where else ""
        if self.how == "died":
            return f"rank {self.rank} died{at}: {self.ending}"
        return f"rank {self.rank} failed{at}: {self.kind}: {self.message}".rstrip(": ")

    @property
    def ending(self) -> str:
        """How the process ended: ``killed by SIGKILL``, ``exit code 3``."""
        code = self.exit_code
        if code is None:
            return "its exit code is unknown"
        if code >= 0:
            return f"exit code {code} before its work was done"
        names = {number.value: number.name for number in signal.Signals}
        return f"killed by {names.get(-code, f'signal {-code}')}"

    def exception(self) -> BaseException | None:
        """Return the exception itself, if it could travel."""
        try:
            found = pickle.loads(self.pickled) if self.pickled else None  # noqa: S301 - written by our own rank
        except Exception:  # noqa: BLE001 - a user's exception may refuse to be rebuilt in any way
            return None
        return found if isinstance(found, BaseException) else None


def is_consequence(error: BaseException) -> bool:
    """Whether an exception, or what it came from, is what a rank sees when another one is gone.

    A user's own ``ConnectionError`` is not: torch raises RuntimeError.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        if isinstance(link, PeerLost):
            return True
        if isinstance(link, DrivetrainError):
            if link.code == "launch.rendezvous-timeout":
                return True
        elif isinstance(link, RuntimeError) and any(sign in str(link).lower() for sign in _PEER_GONE):
            return True
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)
    return False


def write(report: Report, folder: Path) -> None:
    """Leave a report for the parent; it appears whole or not at all."""
    new = folder / f"{report.rank}.new"
    new.write_bytes(pickle.dumps(report))
    new.replace(_path(folder, report.rank))


def read(folder: Path, rank: int, exit_code: int | None) -> Report:
    """Return what a rank that has ended left, or what its exit code says."""
    try:
        report = pickle.loads(_path(folder, rank).read_bytes())  # noqa: S301 - our own folder, mode 0700
        assert isinstance(report, Report)  # noqa: S101 - nobody else writes there
    except OSError:
        crash = crash_file(folder, rank)
        text = crash.read_text(errors="replace") if crash.exists() else ""
        has_started = started_file(folder, rank).exists()
        return Report(
            rank, "died", traceback=text, time_s=time.time(), exit_code=exit_code, has_started=has_started
        )
    return report


def started_file(folder: Path, rank: int) -> Path:
    """Return what a rank creates when it has come as far as our own code."""
    return folder / f"{rank}.started"


def crash_file(folder: Path, rank: int) -> Path:
    """Return where a rank's interpreter writes its Python stack when it crashes."""
    return folder / f"{rank}.crash"


def _path(folder: Path, rank: int) -> Path:
    return folder / f"{rank}.report"


def _traceback(error: BaseException) -> str:
    """Return the traceback without its first frame, which is ours: the one that caught the error."""
    link = error.__traceback__
    inner = link.tb_next if link is not None and link.tb_next is not None else link
    return "".join(traceback.format_exception(type(error), error, inner))


def _message(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except Exception as second:  # noqa: BLE001 - a user's __str__ may raise anything
        return f"<str() failed with {type(second).__name__}>"
    first = lines[0] if lines else ""
    return first if len(first) <= _LONGEST else f"{first[:_LONGEST]}..."


def _pickled(error: BaseException) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(error)
    except Exception:  # noqa: BLE001 - a user's exception may hold anything
        return b""
    return data
