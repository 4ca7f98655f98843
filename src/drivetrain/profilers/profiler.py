"""Profiler: actions that start and stop, and a report of them."""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import ProfilerError
from drivetrain.base.loading import Later
from drivetrain.base.text import listed, nearest

if TYPE_CHECKING:
    from drivetrain.profilers import files
else:
    files = Later("drivetrain.profilers.files")


class Profiler(ABC):
    """Measures named actions; override `start`, `stop` and `summary`.

    A run calls `setup`, starts and stops its own actions (docs/profilers.md lists them), and ends with
    `describe` and `teardown`, on every rank. With ``filename`` each rank writes ``summary()`` to its own
    file, ``<stage>-<filename>-<rank>.txt`` in ``dirpath`` or else the first logger's folder; without, rank
    0 prints it. Your own actions go in ``with trainer.profiler.profile("load"):``.
    """

    _stage: str | None = None
    _rank: int | None = None
    _module: Any = None
    """What is being run, while it is."""
    dirpath: str | None = None
    filename: str | None = None
    log_dir: str | None = None
    """The folder that the run's loggers write to; where files go when nobody says otherwise."""

    def __init__(self, dirpath: str | os.PathLike[str] | None = None, filename: str | None = None) -> None:
        given: object = filename
        if given is not None and (not isinstance(given, str) or not given):
            raise bad_argument(
                self, "filename", filename, "a name without a folder", "pass filename='report'"
            )
        self.dirpath = None if dirpath is None else os.fspath(dirpath)
        self.filename = filename

    @abstractmethod
    def start(self, action_name: str) -> None:
        """Note that the action begins; others may begin and end within it."""

    @abstractmethod
    def stop(self, action_name: str) -> None:
        """Note that the action ends; what began within it ends too."""

    def summary(self) -> str:
        """Return the report; empty where there is nothing to say."""
        return ""

    @contextmanager
    def profile(self, action_name: str) -> Iterator[str]:
        """Measure what is done within."""
        self.start(action_name)
        try:
            yield action_name
        finally:
            self.stop(action_name)

    def describe(self) -> None:
        """Write the report to this rank's file, or print it on rank 0."""
        text = self.summary()
        if not text:
            return
        if self.filename is not None:
            files.append(self.folder, self._file_name(), text.rstrip() + "\n")
        elif not self._rank:
            print(text, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """Begin a run: fit, validate, test or predict. The rank is that among all."""
        self._stage, self._rank, self.log_dir = stage, local_rank, log_dir

    def teardown(self, stage: str | None) -> None:  # noqa: B027 - some hold nothing
        """End the run, also after a failure."""

    @property
    def folder(self) -> str:
        """Where this profiler's files go."""
        return self.dirpath or self.log_dir or os.path.curdir

    def _file_name(self, action_name: str | None = None, extension: str = ".txt", default: str = "") -> str:
        name = self.filename or default
        return files.file_name(self._stage, name, self._rank, action_name, extension=extension)

    def _title(self) -> str:
        return f"{self._stage.upper()} profiler report" if self._stage else "Profiler report"

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what was measured here."""
        return {name: value for name, value in self.__dict__.items() if name != "_module"}


def bad_argument(owner: object, name: str, value: object, because: str, hint: str) -> ProfilerError:
    """Return the error for a value that an argument of a profiler cannot have."""
    return ProfilerError(
        "profiler.bad-argument",
        f"{type(owner).__name__}({name}={value!r})",
        values={name: value},
        because=f"{name} is {because}",
        hint=hint,
    )


def not_started(name: str, running: Mapping[str, object]) -> ProfilerError:
    """Return the error for an action that is stopped and does not run."""
    close = nearest(name, running)
    return ProfilerError(
        "profiler.not-started",
        f"the action {name!r} is stopped and has not been started",
        values={"action": name, "running": listed(running)},
        because="an action lasts from start to stop",
        hint=f"did you mean {close!r}?" if close else f"write it as: with profiler.profile({name!r}):",
    )
