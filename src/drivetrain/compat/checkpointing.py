"""ModelCheckpoint: the folder is the logger's, and a smoke run saves nothing."""

from __future__ import annotations

from typing import Any

from drivetrain.callbacks.checkpoint import ModelCheckpoint as Base
from drivetrain.callbacks.checkpoint_name import joined
from drivetrain.modules import Run


class ModelCheckpoint(Base):
    """`drivetrain.ModelCheckpoint`; its folder is by default ``checkpoints`` in that of the first logger."""

    def earlier_folder(self, root: str) -> str | None:
        """Return ``dirpath``; the folder of an earlier run's logger is none of this run's."""
        return self.dirpath

    def _folder_of(self, trainer: Run) -> str:
        # Only rank 0 knows the version before the loggers begin.
        here = folder(trainer) if trainer.is_global_zero else ""
        return trainer.collectives.broadcast_object(here)


def folder(trainer: Run) -> str:
    """Return ``save_dir/name/version_N/checkpoints`` of the first logger, where there is one."""
    logger: Any = trainer.logger
    root = trainer.default_root_dir
    if logger is None:
        return joined(root, "checkpoints")
    version = logger.version
    named = version if isinstance(version, str) else f"version_{version}"
    parts = [str(logger.save_dir or root), str(logger.name), named, "checkpoints"]
    path = parts[0]
    for part in parts[1:]:
        path = joined(path, part)
    return path
