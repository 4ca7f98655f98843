"""The newest checkpoint that earlier processes have left in some folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from glob import escape
from pathlib import Path

from drivetrain.checkpoint_io.opening import asking, is_remote, store_of

_ENDING = ".ckpt"


def newest_of(folders: Iterable[str], files: Iterable[str]) -> str | None:
    """Return the file that was written last, of these and of the .ckpt files in the folders, if there is one.

    Raises:
        CheckpointError [checkpoint.read]: a store cannot be asked.
    """
    places = [(one, "*" + _ENDING) for one in folders]
    for one in files:
        folder, name = os.path.split(one)
        places.append((folder, escape(name)))
    found = [one for place in dict.fromkeys(places) for one in _written(*place)]
    return max(found)[1] if found else None


def _written(folder: str, ending: str) -> Iterator[tuple[float, str]]:
    """Yield when each file was written, in seconds since the epoch, and its path."""
    if not is_remote(folder):
        for path in Path(folder).glob(ending):
            if path.is_file() and not path.name.startswith("."):
                yield path.stat().st_mtime, str(path)
        return
    folder = folder.rstrip("/")
    with asking(folder):
        system, inner = store_of(folder)
        system.invalidate_cache()
        for name in system.ls(inner, detail=False) if system.isdir(inner) else []:
            found = str(name).rpartition("/")[2]
            if fnmatchcase(found, ending):
                yield system.modified(name).timestamp(), f"{folder}/{found}"
