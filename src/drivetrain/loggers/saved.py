"""Checkpoints that a callback has saved, for loggers that keep them beside the run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Saved:
    """One checkpoint file."""

    path: str
    aliases: tuple[str, ...]
    """``latest`` for the newest, ``best`` for the best by the callback's ``monitor``."""
    score: float | None

    @property
    def name(self) -> str:
        """The file's name, without its folder."""
        return self.path.rstrip("/").replace(os.sep, "/").rpartition("/")[2]


def new_checkpoints(callback: Any, seen: MutableMapping[str, float]) -> list[Saved]:
    """Return the callback's files that are there and changed since they were last seen, oldest first.

    ``seen`` holds the time of change of each, and is brought up to date.
    """
    best = str(getattr(callback, "best_model_path", "") or "")
    last = str(getattr(callback, "last_model_path", "") or "")
    scores = dict(getattr(callback, "best_k_models", None) or {})
    found = []
    for path in dict.fromkeys([*map(str, scores), best, last]):
        changed = _changed(path) if path else None
        if changed is None or seen.get(path) == changed:
            continue
        seen[path] = changed
        aliases = tuple(word for word, one in (("latest", last), ("best", best)) if one == path)
        score = scores.get(path, getattr(callback, "best_model_score", None) if path == best else None)
        found.append((changed, Saved(path, aliases, None if score is None else float(score))))
    return [saved for _, saved in sorted(found, key=lambda pair: pair[0])]


def _changed(path: str) -> float | None:
    """Return when the file last changed, or None where it is gone."""
    if "://" not in path:
        there = Path(path)
        return there.stat().st_mtime if there.is_file() else None
    import fsspec

    system, inner = fsspec.core.url_to_fs(path)
    if not system.isfile(inner):
        return None
    try:
        return float(system.modified(inner).timestamp())
    except NotImplementedError:  # not every store tells
        return 0.0


@contextmanager
def on_disk(saved: Saved) -> Iterator[str]:
    """Yield a path on this machine's disk under the file's own name: the file itself, or a copy."""
    if "://" not in saved.path:
        yield saved.path
        return
    import fsspec

    system, inner = fsspec.core.url_to_fs(saved.path)
    with tempfile.TemporaryDirectory() as folder:
        copy = str(Path(folder, saved.name))
        system.get_file(inner, copy)
        yield copy
