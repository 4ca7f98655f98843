"""Ranking: which checkpoints are the best, or the newest."""

from __future__ import annotations

import math
from typing import final


@final
class Ranking:
    """Paths with their scores, of which the best ``size`` stay; -1 keeps all.

    ``mode`` is min or max; empty ranks by age, and the newest are the best. A nan comes after every
    number: it may stay while there is room, goes first, and is never the best. Of equal scores the
    earlier one is the better.
    """

    def __init__(self, size: int, mode: str = "") -> None:
        self.size, self.mode = size, mode
        self.scores: dict[str, float] = {}
        """By path, in the order in which they came."""

    @property
    def best(self) -> str:
        """The best path; empty where there is none, or only nan."""
        if not self.mode:
            return next(reversed(self.scores), "")
        found = self._ordered(self.scores)[:1]
        return found[0] if found and not math.isnan(self.scores[found[0]]) else ""

    @property
    def worst(self) -> str:
        """The path that the next better one would push out; empty while there is room."""
        is_full = 0 <= self.size <= len(self.scores) and self.scores
        return self._ordered(self.scores)[-1] if is_full else ""

    def admits(self, score: float) -> bool:
        """Whether a checkpoint with the score would stay."""
        if self.size < 0 or len(self.scores) < self.size:
            return True
        if self.size == 0:
            return False
        return not self.mode or self._key(score) < self._key(self.scores[self.worst])

    def pushed_out_by(self, path: str) -> list[str]:
        """Return the paths that go when one comes that is admitted; itself, if it is there, is replaced."""
        others = {name: score for name, score in self.scores.items() if name != path}
        if self.size < 0:
            return []
        return self._ordered(others)[self.size - 1 :]

    def add(self, path: str, score: float) -> list[str]:
        """Take one in that is admitted; return the paths that go."""
        gone = self.pushed_out_by(path)
        for name in (path, *gone):
            self.scores.pop(name, None)
        self.scores[path] = score
        return gone

    def discard(self, path: str) -> None:
        """Forget a path."""
        self.scores.pop(path, None)

    def _ordered(self, scores: dict[str, float]) -> list[str]:
        """Return paths from the best to the worst."""
        if not self.mode:
            return list(reversed(scores))
        return sorted(scores, key=lambda path: self._key(scores[path]))

    def _key(self, score: float) -> tuple[bool, float]:
        is_nan = math.isnan(score)
        return is_nan, 0.0 if is_nan else score if self.mode == "min" else -score
