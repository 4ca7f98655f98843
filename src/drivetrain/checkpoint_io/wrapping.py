"""WrappingCheckpointIO: a storage around another one."""

from __future__ import annotations

from typing import Any

from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO, StrPath
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from drivetrain.resolver.facts import CheckpointIOFacts


class WrappingCheckpointIO(CheckpointIO):
    """Hands everything on to another storage, by default the local one; override what is to be other."""

    def __init__(self, checkpoint_io: CheckpointIO | None = None) -> None:
        self.checkpoint_io = LocalCheckpointIO() if checkpoint_io is None else checkpoint_io

    @property
    def facts(self) -> CheckpointIOFacts:
        """Return the facts of the storage inside."""
        return self.checkpoint_io.facts

    @property
    def is_deferred(self) -> bool:
        """Whether the storage inside writes later."""
        return self.checkpoint_io.is_deferred

    def save(self, checkpoint: dict[str, Any], path: StrPath) -> None:
        """Write by the storage inside."""
        self.checkpoint_io.save(checkpoint, path)

    def load(self, path: StrPath, *, weights_only: bool = True) -> dict[str, Any]:
        """Read by the storage inside."""
        return self.checkpoint_io.load(path, weights_only=weights_only)

    def remove(self, path: StrPath) -> None:
        """Remove by the storage inside."""
        self.checkpoint_io.remove(path)

    def wait(self) -> None:
        """Wait for the storage inside."""
        self.checkpoint_io.wait()

    def teardown(self) -> None:
        """End the storage inside."""
        self.checkpoint_io.teardown()
