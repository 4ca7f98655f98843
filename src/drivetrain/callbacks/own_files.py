"""OwnFiles: the checkpoints that a run wrote, and the removal of those, and only those."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

from drivetrain.base.errors import CheckpointError
from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO
from drivetrain.checkpoint_io.trace import trace
from drivetrain.modules import Run


@final
class OwnFiles:
    """Paths with the traces of the files that this run left there; its work is on rank 0.

    A path alone says nothing: another run, or a person, may have put a file there since. So a file is
    removed only while its trace is the one that it had when this run wrote it, and the trace goes into the
    checkpoints, so that a resumed run knows as much. The file that holds the state cannot know its own; a
    resumed run takes it as it finds it.
    """

    def __init__(self) -> None:
        self.traces: dict[str, str | None] = {}
        self.doomed: dict[str, str | None] = {}
        """What is to be removed as soon as the next file is whole."""

    def plan(self, path: str) -> None:
        """Note, on every rank, that this run is about to write the file."""
        self.traces[path] = None
        self.doomed.pop(path, None)

    @contextmanager
    def writing(self, path: str, *, is_deferred: bool = False) -> Iterator[None]:
        """Write the file inside, on rank 0; where it comes later, by another thread, it has no trace yet."""
        before = trace(path)
        yield
        now = trace(path)
        # What is there now may be what the save before wrote, for which this one waited.
        self.traces[path] = None if is_deferred or now == before else now

    def drop(self, path: str) -> None:
        """Note, on every rank, that the file is not needed any more."""
        if path in self.traces:
            self.doomed[path] = self.traces.pop(path)

    def is_own(self, path: str) -> bool:
        """Whether what lies at the path is what this run put there."""
        return path in self.traces and self.traces[path] in (None, trace(path))

    def is_coming(self, path: str) -> bool:
        """Whether this run writes the path, or wrote it without seeing the file yet."""
        return path in self.traces and self.traces[path] is None

    def sweep(self, storage: CheckpointIO, newest: str) -> None:
        """Remove what is not needed, unless the newest file is not whole yet: then next time.

        A storage that writes later also removes later, after what it writes is whole.
        """
        is_there = storage.is_deferred or (bool(newest) and trace(newest) is not None)
        if not self.doomed or not newest or not is_there:
            return
        for path, known in self.doomed.items():
            if path != newest and known in (None, trace(path)):
                storage.remove(path)
        self.doomed.clear()

    def state_dict(self) -> dict[str, Any]:
        """Return paths and traces."""
        return {"traces": dict(self.traces), "doomed": dict(self.doomed)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up paths and traces."""
        self.traces, self.doomed = (
            {str(path): None if known is None else str(known) for path, known in state[name].items()}
            for name in ("traces", "doomed")
        )

    def look_again(self) -> list[str]:
        """Return, after a resume, the paths at which this run's files still lie; forget the others."""
        found = {path: trace(path) for path in self.traces}
        self.traces = {
            path: now for path, now in found.items() if now is not None and self.traces[path] in (None, now)
        }
        self.doomed = {path: known for path, known in self.doomed.items() if known is not None}
        return [*self.traces]


def link(trainer: Run, target: str, path: str) -> None:
    """Put a symbolic link at the path, on rank 0, whole or not at all; it names its target from there.

    Collectives:
        one object of a few bytes; every rank must call.
    Raises:
        CheckpointError [checkpoint.write]: on every rank, where the folder cannot hold a link.
    """
    failure = ""
    if trainer.is_global_zero:
        part = Path(path).with_name(f".{Path(path).name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            trainer.strategy.checkpoint_io.wait()  # a link leads to a whole file
            part.symlink_to(os.path.relpath(target, part.parent))
            part.replace(path)
        except OSError as error:
            part.unlink(missing_ok=True)
            failure = error.strerror or str(error)
        except CheckpointError as error:
            failure = error.message
    failure = trainer.collectives.broadcast_object(failure)
    if failure:
        raise CheckpointError(
            "checkpoint.write",
            f"cannot link {path}: {failure}",
            values={"path": path, "target": target},
            because="save_last='link' needs a folder that can hold symbolic links",
            hint="pass save_last=True, which writes the file twice",
        )
