"""CheckpointIO: writes, reads and removes checkpoints; knows nothing of what is in them."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from typing import Any, TypeAlias

from drivetrain.resolver.facts import CheckpointIOFacts

StrPath: TypeAlias = "str | os.PathLike[str]"


class CheckpointIO(ABC):
    """One way of storing checkpoints. Called on rank 0 for a checkpoint that is one file."""

    @property
    @abstractmethod
    def facts(self) -> CheckpointIOFacts:
        """What this way declares about itself; the resolver reads it from the object."""

    @property
    def is_deferred(self) -> bool:
        """Whether `save` returns before the file is there.

        `remove` then removes after what is being written is there, and not at all if that failed.
        """
        return False

    @abstractmethod
    def save(self, checkpoint: dict[str, Any], path: StrPath) -> None:
        """Write the checkpoint so that ``path`` holds the old one or the new one, never a part.

        Raises:
            CheckpointError [checkpoint.not-plain]: it holds something that could not be read back safely.
            CheckpointError [checkpoint.write]: the storage refused.
        """

    @abstractmethod
    def load(self, path: StrPath, *, weights_only: bool = True) -> dict[str, Any]:
        """Read a checkpoint onto the CPU. Executes nothing that the file holds unless told to.

        Raises:
            CheckpointError [checkpoint.missing]: there is no such file.
            CheckpointError [checkpoint.not-a-file]: it is a folder, a pipe, a device.
            CheckpointError [checkpoint.read]: the storage refused, or the connection was cut.
            CheckpointError [checkpoint.unsafe]: the file wants to run code.
            CheckpointError [checkpoint.torn]: the file is not a whole checkpoint.
        """

    @abstractmethod
    def remove(self, path: StrPath) -> None:
        """Remove a checkpoint; nothing happens when it is gone already."""

    def wait(self) -> None:  # noqa: B027 - nothing to wait for is the common case
        """Return when everything that was saved is there.

        Raises:
            CheckpointError: what could not be written, if it was not raised before.
        """

    def teardown(self) -> None:
        """End a run: wait, and let go of what is held. It may be used again."""
        self.wait()
