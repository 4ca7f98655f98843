"""What tells a stored checkpoint from another one of its name."""

from __future__ import annotations

import os
from pathlib import Path

from drivetrain.checkpoint_io.checkpoint_io import StrPath


def trace(path: StrPath) -> str | None:
    """Return a text that changes whenever somebody writes the file anew; None where there is no file.

    It is size and time of writing (remote: what the store says), not the content: a copy has another
    one, and nothing is read however large the file is. A link is looked at itself, not its target.
    """
    name = os.fspath(path)
    if "://" in name:
        import fsspec

        system, inner = fsspec.core.url_to_fs(name)
        system.invalidate_cache()  # what it remembers of the store may be older than another run's writing
        try:
            return str(system.ukey(inner))
        except FileNotFoundError:
            return None
    try:
        found = Path(name).lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return f"{found.st_size} bytes, {found.st_mtime_ns} ns"
