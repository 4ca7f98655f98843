"""One line to a person, on rank 0."""

from __future__ import annotations

import sys

from drivetrain.modules import Run


def say(trainer: Run, text: str, *, everywhere: bool = False) -> None:
    """Print a line to standard error on rank 0; ``everywhere`` on each rank, with its number."""
    if everywhere and trainer.world_size > 1:
        text = f"rank {trainer.global_rank}: {text}"
    elif not trainer.is_global_zero:
        return
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - that is what it is for
