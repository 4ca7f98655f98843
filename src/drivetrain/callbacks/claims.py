"""Claims: of several runs that save into one folder, only one takes a free name."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import final

from drivetrain.checkpoint_io.trace import trace


@final
class Claims:
    """Names that this process has taken and not written yet.

    Two runs that look at one moment would both find a name free. So a hidden file beside it is locked, by
    one of them; the system lets go of the lock when a process is killed, and the file does no harm then.
    Remote stores have no locks: there a name is free when nothing has it.
    """

    def __init__(self) -> None:
        self._held: list[tuple[Path, int]] = []

    def take(self, path: str) -> bool:
        """Take a free name until `release`; return False where it is taken, or being taken."""
        if trace(path) is not None:
            return False
        if "://" in path:
            return True
        claim = Path(path).with_name(f".{Path(path).name}.claim")
        with suppress(OSError):
            claim.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock = os.open(claim, os.O_CREAT | os.O_RDWR)
        except OSError:
            return True  # nothing can be written there, which the save itself says, and on every rank
        if not _locked(lock) or not _is_at(lock, claim):
            os.close(lock)
            return False
        self._held.append((claim, lock))
        return trace(path) is None

    def release(self) -> None:
        """Give the names back: the files are there, or will not come."""
        for claim, lock in self._held:
            claim.unlink(missing_ok=True)
            os.close(lock)
        self._held.clear()

    def __getstate__(self) -> dict[str, object]:
        """Travel to another process without what this one holds."""
        return {"_held": []}


def _locked(lock: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows: two runs that look at one moment are not kept apart
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: as above
        return True
    return True


def _is_at(lock: int, claim: Path) -> bool:
    """Whether the locked file is still the one of that name: who held it before may have removed it."""
    try:
        return os.path.samestat(os.fstat(lock), claim.stat())
    except FileNotFoundError:
        return False
