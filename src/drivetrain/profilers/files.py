"""A report's file: a name that every file system takes, at a path that may be remote."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

_ODD = re.compile(r"[^\w.\-\[\]=]+")


def file_name(*parts: object, extension: str) -> str:
    """Join the parts that there are: ``fit-report-0.txt``; what a path could not hold becomes ``_``."""
    return "-".join(_ODD.sub("_", str(part)) for part in parts if part not in (None, "")) + extension


def append(folder: str, name: str, text: str) -> str:
    """Add a text to a file, which is made with its folder where it is not there; return its path."""
    import fsspec

    path = f"{folder.rstrip('/') or '/'}/{name}"
    with fsspec.open(path, "a", encoding="utf-8", auto_mkdir=True) as file:
        file.write(text)
    return path


def written_by(write: Callable[[str], object], folder: str, name: str) -> str:
    """Let ``write`` write a local file, and bring it to the folder under the name; return its path."""
    import fsspec

    filesystem, root = fsspec.core.url_to_fs(folder)
    filesystem.makedirs(root, exist_ok=True)
    with tempfile.TemporaryDirectory() as here:
        made = os.fspath(Path(here) / name)
        write(made)
        filesystem.put_file(made, f"{root.rstrip('/')}/{name}")
    return f"{folder.rstrip('/') or '/'}/{name}"
