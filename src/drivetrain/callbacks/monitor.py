"""Monitor: a logged value that a callback decides by."""

from __future__ import annotations

from typing import Any, NamedTuple, final

from drivetrain.base.errors import ModuleError
from drivetrain.base.text import nearest
from drivetrain.modules import Run


class Reading(NamedTuple):
    """What the value is, the same on every rank."""

    value: float | None
    """None where nothing was logged under the name."""
    is_current: bool
    """Whether it is a value of the weights of now."""


@final
class Monitor:
    """One name among the logged values, and whether its value is of now.

    A value stays in ``callback_metrics`` until it is logged again, so a callback that reads it at a moment
    of its own choice may get that of other weights: after an epoch without validation, or a few hundred
    steps later. The tensor tells: a new value is a new tensor. So the owner marks it at each validation's
    and epoch's end, and a value is current at the step at which it was first seen.
    """

    def __init__(self, name: str, owner: str) -> None:
        self.name, self._owner = name, owner
        self.step = -1
        """Optimizer steps that had been taken when the value was first seen."""
        self._seen: Any = None
        self._has_validated = False

    def begin(self, trainer: Run, step: int = -1) -> None:
        """Start a fit; a value that a checkpoint brought was first seen at ``step``."""
        self._has_validated = False
        self._seen, self.step = trainer.callback_metrics.get(self.name), step

    def note_validation(self) -> None:
        """Remember that a validation of this fit has ended."""
        self._has_validated = True

    def mark(self, trainer: Run) -> None:
        """See whether there is a new value."""
        found = trainer.callback_metrics.get(self.name)
        if found is not self._seen:
            self._seen, self.step = found, trainer.global_step

    def look(self, trainer: Run) -> Reading:
        """Return what rank 0 has, so that all ranks decide alike whatever was reduced.

        Collectives:
            with several ranks, one object of a few bytes; every rank must call.
        """
        return trainer.collectives.broadcast_object(self.look_here(trainer))

    def look_here(self, trainer: Run) -> Reading:
        """Return what this rank has; reads the value from the device."""
        self.mark(trainer)
        value = None if self._seen is None else float(self._seen)
        return Reading(value, is_current=value is not None and self.step == trainer.global_step)

    def has_had_its_chance(self, trainer: Run) -> bool:
        """Whether, at an epoch's end, everything that is ever logged has been logged once.

        Where only some epochs are validated, the first of them has to be over.
        """
        every = trainer.check_val_every_n_epoch
        return self._has_validated or (every is not None and (trainer.current_epoch + 1) % every == 0)

    def missing(self, trainer: Run) -> ModuleError:
        """Return the error for a name that nothing logged."""
        logged = sorted(trainer.callback_metrics)
        close = nearest(self.name, logged)
        return ModuleError(
            "callback.monitor",
            f"{self._owner} watches {self.name!r}, which nothing logged",
            values={"monitor": self.name, "logged": logged, "epoch": trainer.current_epoch},
            because="a callback that watches a value decides by what was logged under its name",
            hint=f"did you mean monitor={close!r}?" if close else f"log it: self.log({self.name!r}, ...)",
        )


def validates_within_epochs(trainer: Run) -> bool:
    """Whether validations come at other moments than epochs' ends."""
    interval = trainer.val_check_interval
    return trainer.check_val_every_n_epoch is None or not (type(interval) is float and interval == 1.0)
