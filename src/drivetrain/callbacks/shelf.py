"""Shelf: what one run has saved and keeps, and where the next file goes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, final

from drivetrain.callbacks.claims import Claims
from drivetrain.callbacks.own_files import OwnFiles
from drivetrain.callbacks.ranking import Ranking
from drivetrain.checkpoint_io.trace import trace

Named = Callable[["int | None"], str]
"""Makes a path from the number that tells it from one that is taken; None for the first."""


class Found(NamedTuple):
    """What a resumed run still finds, as rank 0 tells it."""

    ranked: tuple[str, ...]
    newest: str
    last: str


NOTHING = Found((), "", "")


@final
class Shelf:
    """The ranked files, the ``last`` one, and what is to go; decided on rank 0, the same on every rank."""

    def __init__(self, size: int, mode: str) -> None:
        self.ranking = Ranking(size, mode)
        self.files, self.claims = OwnFiles(), Claims()
        self.newest = self.last = ""
        """The file that was written newest; the one that is kept as ``last``."""
        self.step = -1
        """Optimizer steps that the newest file has."""

    def place(self, step: int, score: float, named: Named, first_version: int | None) -> str:
        """Return, on rank 0, where a file with the score goes; empty if it would not stay.

        A second save at one step replaces the first: the weights are the same.
        """
        ranking = self.ranking
        again = self.newest if step == self.step and self.newest in ranking.scores else ""
        if not again and not ranking.admits(score):
            return ""
        gone = [again] if again else ranking.pushed_out_by("")
        return self.free(named, gone, first_version)

    def place_last(self, named: Named, first_version: int | None) -> str:
        """Return, on rank 0, where the ``last`` file goes: over the one before, if it has the same name."""
        return self.free(named, [self.last], first_version)

    def free(self, named: Named, replaced: Collection[str], first_version: int | None) -> str:
        """Return the first path that is free, or has a file of this run that is replaced anyway.

        Without ``first_version`` it is the plain name, whatever is there. A free one is claimed, until
        ``claims.release``.
        """
        path, version = named(None), first_version
        while version is not None:
            is_replaced = path in replaced and self.files.is_own(path)
            # What a thread of this run is still writing is not there yet, and has its name all the same.
            if is_replaced or (not self.files.is_coming(path) and self.claims.take(path)):
                break
            path, version = named(version), version + 1
        return path

    def take(self, step: int, path: str, score: float, last: str) -> None:
        """Note, on every rank, what is written now, so that it says of itself that it is there."""
        if path:
            is_again = step == self.step and self.newest in self.ranking.scores and self.newest != path
            if is_again and self.ranking.size > 0:
                self._drop(self.newest)
            for gone in self.ranking.add(path, score):
                self._drop(gone)
            self.files.plan(path)
        if last:
            if self.last not in ("", last):
                self.files.drop(self.last)
            self.last = last
            self.files.plan(last)
        self.newest, self.step = path or last, step

    def _drop(self, path: str) -> None:
        self.ranking.discard(path)
        self.files.drop(path)

    def look_again(self) -> Found:
        """Return, on rank 0 after a resume, what is still there and this run's."""
        known = set(self.files.traces)
        own = set(self.files.look_again())
        ranked = [
            path
            for path in self.ranking.scores
            if path in own or (path not in known and trace(path) is not None)
        ]
        newest, last = (path if path in own else "" for path in (self.newest, self.last))
        return Found(tuple(ranked), newest, last)

    def keep(self, found: Found) -> None:
        """Forget, on every rank, what is not there any more."""
        for path in set(self.ranking.scores) - set(found.ranked):
            self.ranking.discard(path)
        self.newest, self.last = found.newest, found.last

    def state_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "scores": dict(self.ranking.scores),
            "newest": self.newest,
            "last": self.last,
            "step": self.step,
            "files": self.files.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], *, owns: bool) -> None:
        """Take it up; without ``owns`` the files are another place's: they count, and are left alone."""
        self.ranking.scores = {str(path): float(score) for path, score in state["scores"].items()}
        self.step = state["step"]
        if owns:
            self.newest, self.last = state["newest"], state["last"]
            self.files.load_state_dict(state["files"])
