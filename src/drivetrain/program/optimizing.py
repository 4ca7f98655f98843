"""Optimizers and schedulers that the command line chooses."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler

from drivetrain.base.errors import TrainerError


class ReduceLROnPlateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """torch's scheduler, and the name of the logged value that it watches."""

    def __init__(self, optimizer: torch.optim.Optimizer, monitor: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(optimizer, *args, **kwargs)
        self.monitor = monitor


def instantiate_class(args: Any, init: Mapping[str, Any]) -> Any:
    """Make an object of ``{"class_path": ..., "init_args": {...}}``, with ``args`` before the init_args.

    ``args`` is one positional argument, or a tuple of several: the parameters for an optimizer, the optimizer
    for a scheduler.

    Raises:
        TrainerError [trainer.bad-argument]: there is no such class, or it takes other arguments.
    """
    path = str(init["class_path"])
    module, _, name = path.rpartition(".")
    try:
        made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise TrainerError(
            "trainer.bad-argument",
            f"there is no class {path!r}",
            values={"class_path": path},
            because=str(error),
            hint="write the module and the class: class_path: torch.optim.AdamW",
        ) from error
    given = args if isinstance(args, tuple) else (args,)
    named = dict(init.get("init_args") or {})
    try:
        inspect.signature(made).bind(*given, **named)
    except TypeError as error:
        raise TrainerError(
            "trainer.bad-argument",
            f"{path} cannot be made of {named}",
            values={"class_path": path, "init_args": named},
            because=str(error),
            hint=f"its arguments are {inspect.signature(made)}",
        ) from error
    return made(*given, **named)


def configured(optimizer: torch.optim.Optimizer, scheduler: LRScheduler | None) -> Any:
    """Return what ``configure_optimizers`` returns for an optimizer and its scheduler."""
    if scheduler is None:
        return optimizer
    if isinstance(scheduler, ReduceLROnPlateau):
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": scheduler.monitor},
        }
    return {"optimizer": optimizer, "lr_scheduler": scheduler}


def trained_by(parameters: Iterable[torch.nn.Parameter], said: Mapping[str, Any]) -> torch.optim.Optimizer:
    """Make the optimizer that was said, of what requires a gradient."""
    made: torch.optim.Optimizer = instantiate_class([one for one in parameters if one.requires_grad], said)
    return made
