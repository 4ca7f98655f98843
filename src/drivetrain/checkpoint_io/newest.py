"""The newest checkpoint that earlier processes have left in some folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from drivetrain.checkpoint_io.opening import asking, is_remote, store_of

_ENDING = ".ckpt"


def newest_of(folders: Iterable[str], files: Iterable[str]) -> str | None:
    """Return the file that was written last, of these and of the .ckpt files in the folders, if there is one.

    Raises:
        CheckpointError [checkpoint.read]: a store cannot be asked.
    """
    patterns = [*(os.path.join(one, "*" + _ENDING) for one in folders), *files]  # noqa: PTH118 - may be remote
    found = [one for pattern in dict.fromkeys(patterns) for one in _written(pattern)]
    return max(found)[1] if found else None


def _written(pattern: str) -> Iterator[tuple[float, str]]:
    """Yield when each file was written, in seconds since the epoch, and its path."""
    folder, _, ending = pattern.rpartition("/")
    if not is_remote(pattern):
        for path in Path(folder or ".").glob(ending):
            if path.is_file() and not path.name.startswith("."):
                yield path.stat().st_mtime, str(path)
        return
    with asking(pattern):
        system, inner = store_of(folder)
        system.invalidate_cache()
        for name in system.ls(inner, detail=False) if system.isdir(inner) else []:
            found = str(name).rpartition("/")[2]
            if fnmatchcase(found, ending):
                yield system.modified(name).timestamp(), f"{folder}/{found}"
