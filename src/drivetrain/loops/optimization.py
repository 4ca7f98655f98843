"""What configure_optimizers returned, and when schedulers step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from drivetrain.base.errors import ModuleError
from drivetrain.base.text import listed, nearest

_FORMS = "an optimizer; (optimizers, schedulers); or {'optimizer': ..., 'lr_scheduler': ...}"


@dataclass
class Scheduled:
    """One scheduler and when it steps."""

    scheduler: Any
    interval: str = "epoch"
    """``epoch`` or ``step``: what ``frequency`` counts."""
    frequency: int = 1
    monitor: str | None = None
    """Which logged value a scheduler that looks at one is given."""
    strict: bool = True
    """Whether a missing ``monitor`` is an error; otherwise the step is left out."""
    name: str | None = None
    reduce_on_plateau: bool = False
    """Whether it steps with a value; known of torch's own, to be said of others."""

    def is_due(self, interval: str, count: int) -> bool:
        """Whether it steps after the ``count``-th step or epoch."""
        return self.interval == interval and count % self.frequency == 0


def read_optimizers(module: Any) -> tuple[list[torch.optim.Optimizer], list[Scheduled]]:
    """Call configure_optimizers and read any of its forms.

    Raises:
        ModuleError [module.optimizers]: it returned none of the forms.
        ModuleError [module.several-optimizers]: more than one optimizer, which needs manual steps.
        ModuleError [module.scheduler]: a scheduler's entry has an unknown key or value.
    """
    found = module.configure_optimizers()
    optimizers, schedulers = _split(found)
    if not optimizers or not all(isinstance(one, torch.optim.Optimizer) for one in optimizers):
        raise ModuleError(
            "module.optimizers",
            f"{type(module).__name__}.configure_optimizers returned a {type(found).__name__}",
            values={"class": type(module).__qualname__, "returned": found},
            because=f"it returns {_FORMS}",
            hint="return torch.optim.AdamW(self.parameters(), lr=1e-3)",
        )
    if len(optimizers) > 1:
        raise ModuleError(
            "module.several-optimizers",
            f"{type(module).__name__}.configure_optimizers returned {len(optimizers)} optimizers",
            values={
                "class": type(module).__qualname__,
                "optimizers": [type(one).__name__ for one in optimizers],
            },
            because="this release steps one optimizer",
            hint="give one optimizer several parameter groups",
        )
    return list(optimizers), [_scheduled(one, module) for one in schedulers]


def _split(found: Any) -> tuple[Sequence[Any], Sequence[Any]]:
    if isinstance(found, torch.optim.Optimizer):
        return [found], []
    if isinstance(found, Mapping):
        scheduler = found.get("lr_scheduler")
        return [found.get("optimizer")], [] if scheduler is None else [scheduler]
    if isinstance(found, (list, tuple)):
        if len(found) == 2 and all(isinstance(part, (list, tuple)) for part in found):  # noqa: PLR2004 - a pair
            return found[0], found[1]
        pairs = [_split(one) for one in found]
        return [one for optimizers, _ in pairs for one in optimizers], [
            one for _, some in pairs for one in some
        ]
    return [], []


def _scheduled(entry: Any, module: object) -> Scheduled:
    if not isinstance(entry, Mapping):
        entry = {"scheduler": entry}
    known = [spec.name for spec in fields(Scheduled)]
    unknown = [name for name in entry if name not in known]
    if unknown or not hasattr(entry.get("scheduler"), "step"):
        close = nearest(str(unknown[0]), known) if unknown else None
        problem = f"an unknown key {unknown[0]!r}" if unknown else "no scheduler"
        raise _bad(
            module, f"a scheduler's entry with {problem}", entry, f"its keys are {listed(known)}", close
        )
    found = Scheduled(**entry)
    found.reduce_on_plateau |= isinstance(found.scheduler, ReduceLROnPlateau)
    if found.interval not in ("epoch", "step"):
        raise _bad(module, f"interval={found.interval!r}", entry, "interval is 'epoch' or 'step'", "epoch")
    if type(found.frequency) is not int or found.frequency < 1:
        raise _bad(module, f"frequency={found.frequency!r}", entry, "frequency is an int of 1 or more", None)
    if found.reduce_on_plateau and not found.monitor:
        raise _bad(
            module, "a plateau scheduler without monitor", entry, "it steps with a logged value", "monitor"
        )
    return found


def _bad(module: object, problem: str, entry: object, because: str, close: str | None) -> ModuleError:
    return ModuleError(
        "module.scheduler",
        f"{type(module).__name__}.configure_optimizers returned {problem}",
        values={"class": type(module).__qualname__, "entry": entry},
        because=because,
        hint=f"did you mean {close!r}?" if close else "return {'scheduler': ..., 'interval': 'step'}",
    )


def step_schedulers(
    schedulers: Sequence[Scheduled], interval: str, count: int, read: Callable[[], Mapping[str, torch.Tensor]]
) -> None:
    """Step the schedulers that are due, those that look at a value with it.

    Raises:
        ModuleError [module.monitor]: nothing was logged under a scheduler's ``monitor``.
    """
    for one in schedulers:
        if not one.is_due(interval, count):
            continue
        if not one.reduce_on_plateau:
            one.scheduler.step()
            continue
        metrics = read()
        if one.monitor is not None and one.monitor in metrics:
            one.scheduler.step(float(metrics[one.monitor]))
        elif one.strict:
            raise ModuleError(
                "module.monitor",
                f"{type(one.scheduler).__name__} watches {one.monitor!r}, which nothing logged",
                values={"monitor": one.monitor, "logged": sorted(metrics)},
                because="a scheduler that watches a value steps with what was logged under its name",
                hint=f"log it: self.log({one.monitor!r}, ...), or set strict=False to leave the step out",
            )
