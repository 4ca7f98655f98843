"""Whether a step that is coming is one that is logged."""

from __future__ import annotations

from drivetrain.modules import Run


def may_be_logged(trainer: Run) -> bool:
    """Whether the coming optimizer step may be one that is logged; ``trainer.is_logging_step`` says it after.

    Where ``log_every_n_steps`` counts steps it is known before; in samples, tokens or a time it is not.
    """
    every = trainer.log_every_n_steps
    if not isinstance(every, int):
        return True
    return every > 0 and (trainer.coming_logging_step + 1) % every == 0
