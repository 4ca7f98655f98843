"""What tells a stored checkpoint from another one of its name."""

from __future__ import annotations

import os
from pathlib import Path

from drivetrain.checkpoint_io.checkpoint_io import StrPath
from drivetrain.checkpoint_io.opening import asking, is_remote, store_of, unreadable


def trace(path: StrPath) -> str | None:
    """Return a text that changes whenever somebody writes the file anew; None where there is no file.

    It is size and time of writing (remote: what the store says), not the content: a copy has another
    one, and nothing is read however large the file is. A link is looked at itself, not its target.

    Raises:
        CheckpointError [checkpoint.read]: a remote store does not answer.
    """
    name = os.fspath(path)
    if is_remote(name):
        return _trace_remote(name)
    try:
        found = Path(name).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{found.st_size} bytes, {found.st_mtime_ns} ns"


def _trace_remote(name: str) -> str | None:
    try:
        with asking(name):
            system, inner = store_of(name)
            system.invalidate_cache()  # what it remembers may be older than another run's writing
            return str(system.ukey(inner))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(name, error) from error
