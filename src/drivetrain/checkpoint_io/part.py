"""A file that gets its name when it is whole; what killed writers left behind is removed by the next one."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:
    _HAS_LOCKS = False  # not a POSIX system
else:
    _HAS_LOCKS = True
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@contextlib.contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """Write a file under another name beside its place, and rename it there; if that fails, nothing is left.

    The other name has this machine in it, and the file is locked until it has its place: who finds one of
    this machine's without a lock knows that its writer has ended, and removes it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    boot = _boot()
    if boot:
        _sweep(path.parent, boot)
    part, file, is_locked = _opened(path, boot)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if is_locked:  # without its lock somebody could take it away
                part.replace(path)
        if not is_locked:  # some systems rename no file that is open
            part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # a folder can be opened and synced on POSIX only
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _opened(path: Path, boot: str) -> tuple[Path, IO[bytes], bool]:
    while boot:
        part = _other_name(path, f"{uuid.uuid4().hex[:8]}-{boot}")
        file = part.open("wb")
        if not _is_mine(file):  # no locks on this file system: by a name without the machine it stays
            file.close()
            part.unlink(missing_ok=True)
            break
        if os.fstat(file.fileno()).st_nlink:
            return part, file, True
        file.close()  # it was taken for a left one before it was locked
    part = _other_name(path, uuid.uuid4().hex[:8])
    return part, part.open("wb"), False


def _other_name(path: Path, unique: str) -> Path:
    return path.with_name(f".{path.name}.{unique}.tmp")


def _sweep(folder: Path, boot: str) -> None:
    """Remove this machine's files that nobody is writing any more."""
    left = re.compile(rf"\..+\.[0-9a-f]{{8}}-{boot}\.tmp")
    try:
        there = list(folder.iterdir())
    except OSError:  # a folder may be written to without being read
        return
    for path in there:
        if left.fullmatch(path.name):
            # It may be somebody else's, or gone by now; some file systems lock only what is open for writing.
            with contextlib.suppress(OSError), path.open("r+b") as file:
                if _is_mine(file):
                    path.unlink()


def _is_mine(file: IO[bytes]) -> bool:
    """Lock a file, unless somebody else has; the system takes the lock back when a process ends."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _boot() -> str:
    """Return a word for this machine since it was started; empty where there is none, or no locks.

    Between machines locks are not sure: some shared file systems keep them to the one that took them.
    """
    try:
        return _BOOT_ID.read_text().strip().replace("-", "")[:12] if _HAS_LOCKS else ""
    except OSError:
        return ""
