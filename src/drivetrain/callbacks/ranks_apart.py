"""Callbacks that take a rank's weights for those of all."""

from __future__ import annotations

from drivetrain.base.errors import ModuleError
from drivetrain.modules.run import Run


def refuse_apart(callback: object, trainer: Run) -> None:
    """Refuse a strategy whose ranks train apart.

    Raises:
        ModuleError [callback.ranks-apart]: the ranks' weights differ between averages.
    """
    if trainer.strategy.keeps_ranks_alike or trainer.world_size == 1:
        return
    name = trainer.plan.strategy.name
    raise ModuleError(
        "callback.ranks-apart",
        f"{type(callback).__name__} under strategy {name!r}",
        values={"strategy": name, "world_size": trainer.world_size},
        because="between averages ranks step alone, and the callback would take one's weights for all",
        hint="pass strategy='ddp', whose ranks are alike after each step",
    )
