"""PassThroughProfiler: none."""

from __future__ import annotations

from typing import final

from drivetrain.profilers.profiler import Profiler


@final
class PassThroughProfiler(Profiler):
    """Measures nothing: ``trainer.profiler`` where none was asked for. A run does not even call it."""

    def start(self, action_name: str) -> None:
        """Do nothing."""

    def stop(self, action_name: str) -> None:
        """Do nothing."""
