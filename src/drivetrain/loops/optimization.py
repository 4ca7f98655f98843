"""What configure_optimizers returned, and when schedulers step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau

from drivetrain.base.errors import ModuleError, TrainerError
from drivetrain.base.text import listed, nearest
from drivetrain.events import is_unused

_FORMS = (
    "an optimizer or several; (optimizers, schedulers); {'optimizer': ..., 'lr_scheduler': ...}; "
    "or a mapping from names to these"
)
_ALGORITHMS = ("norm", "value")


@dataclass(frozen=True)
class Clipping:
    """How gradients are clipped: not at all where ``val`` is None."""

    val: float | None = None
    algorithm: str = "norm"

    @classmethod
    def read(cls, val: object, algorithm: object) -> Clipping:
        """Check what the Trainer or an optimizer's entry was told.

        Raises:
            TrainerError [trainer.bad-argument]: not a number above 0; no such algorithm.
        """
        algorithm = "norm" if algorithm is None else str(getattr(algorithm, "value", algorithm))
        if algorithm not in _ALGORITHMS:
            raise _bad_clip("gradient_clip_algorithm", algorithm, "'norm' or 'value'", "'norm'")
        if val is None or (isinstance(val, (int, float)) and not isinstance(val, bool) and val > 0):
            return cls(None if val is None else float(val), algorithm)
        if val == 0 and not isinstance(val, bool):
            return cls(None, algorithm)  # users of such Trainers know 0 as off
        raise _bad_clip("gradient_clip_val", val, "a number above 0, or None for no clipping", "1.0")


def _bad_clip(name: str, value: object, what: str, example: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"{name} cannot be {value!r}",
        values={name: value},
        because=f"{name} is {what}",
        hint=f"pass {name}={example}",
    )


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
    is_paused: bool = field(default=False, init=False)
    """Whether a callback sets the learning rate in its place."""

    def is_due(self, interval: str, count: int) -> bool:
        """Whether it steps after the ``count``-th step or epoch."""
        return self.interval == interval and count % self.frequency == 0 and not self.is_paused


@dataclass
class Stepped:
    """One optimizer, and what is said about its steps."""

    optimizer: torch.optim.Optimizer
    number: int
    name: str
    clip_val: float | None = None
    clip_algorithm: str | None = None
    is_ready: bool = False
    """Whether its gradients are there and finite, in the step that is being taken."""


@dataclass
class Configured:
    """What configure_optimizers returned."""

    stepped: list[Stepped] = field(default_factory=list)
    schedulers: list[Scheduled] = field(default_factory=list)


_ENTRY = ("optimizer", "lr_scheduler", "monitor", "gradient_clip_val", "gradient_clip_algorithm", "name")


def parameters_of(optimizer: torch.optim.Optimizer) -> list[torch.nn.Parameter]:
    """Return every parameter of an optimizer."""
    return [one for group in optimizer.param_groups for one in group["params"]]


def read_optimizers(module: Any, clipping: Clipping) -> Configured:
    """Call configure_optimizers and read any of its forms.

    ``clipping`` holds for each optimizer that says nothing else.

    Raises:
        ModuleError [module.optimizers]: it returned none of the forms.
        ModuleError [module.scheduler]: a scheduler's entry has an unknown key or value.
    """
    found = module.configure_optimizers()
    configured = Configured()
    if found is None and not module.automatic_optimization:
        return configured
    for entry, name in _entries(found):
        optimizer = entry.get("optimizer")
        unknown = [key for key in entry if key not in _ENTRY]
        if not isinstance(optimizer, torch.optim.Optimizer) or unknown:
            raise _no_optimizer(module, found, unknown)
        number = len(configured.stepped)
        own = Clipping.read(
            entry.get("gradient_clip_val", clipping.val),
            entry.get("gradient_clip_algorithm", clipping.algorithm),
        )
        known = str(entry.get("name") or name or number)
        configured.stepped.append(Stepped(optimizer, number, known, own.val, own.algorithm))
        scheduler = entry.get("lr_scheduler")
        entries = scheduler if isinstance(scheduler, (list, tuple)) else [scheduler]
        monitor = entry.get("monitor")
        configured.schedulers += [_scheduled(one, module, monitor) for one in entries if one is not None]
    if isinstance(found, (list, tuple)) and _is_pair(found):
        configured.schedulers += [_scheduled(one, module) for one in found[1]]
    if not configured.stepped and module.automatic_optimization:
        raise _no_optimizer(module, found, [])
    return configured


def _is_pair(found: Sequence[Any]) -> bool:
    return len(found) == 2 and all(isinstance(part, (list, tuple)) for part in found)  # noqa: PLR2004 - a pair


def _entries(found: Any) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """Yield each optimizer as a mapping, with the name that it was given."""
    if isinstance(found, Mapping) and "optimizer" not in found and found:
        for name, one in found.items():  # {"generator": ..., "discriminator": ...}
            yield from ((entry, str(name)) for entry, _ in _entries(one))
    elif isinstance(found, Mapping):
        yield found, None
    elif isinstance(found, (list, tuple)) and found:
        for one in found[0] if _is_pair(found) else found:
            yield from _entries(one)
    else:
        yield {"optimizer": found}, None


def _no_optimizer(module: object, found: object, unknown: list[str]) -> ModuleError:
    close = nearest(str(unknown[0]), [*_ENTRY]) if unknown else None
    return ModuleError(
        "module.optimizers",
        f"{type(module).__name__}.configure_optimizers returned "
        + (f"an entry with an unknown key {unknown[0]!r}" if unknown else f"a {type(found).__name__}"),
        values={"class": type(module).__qualname__, "returned": found},
        because=f"it returns {_FORMS}",
        hint=f"did you mean {close!r}?" if close else "return torch.optim.AdamW(self.parameters(), lr=1e-3)",
    )


def _scheduled(entry: Any, module: object, monitor: str | None = None) -> Scheduled:
    if not isinstance(entry, Mapping):
        entry = {"scheduler": entry}
    if monitor is not None:
        entry = {"monitor": monitor, **entry}
    known = [spec.name for spec in fields(Scheduled) if spec.init]
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


def step_schedulers(context: Any, interval: str, count: int) -> None:
    """Step the schedulers that are due, those that look at a value with it.

    Collectives:
        after a step, those of `Context.share_step` for each that looks at a value; every rank must call.
    Raises:
        ModuleError [module.monitor]: nothing was logged under a scheduler's ``monitor``.
    """
    for one in context.schedulers:
        if not one.is_due(interval, count):
            continue
        override, metric = context.module.lr_scheduler_step, None
        if one.reduce_on_plateau:
            if interval == "step":
                context.share_step()
            metrics = context.results.metrics()
            if one.monitor not in metrics:
                if one.strict:
                    raise _unwatched(one, metrics)
                continue
            metric = float(metrics[one.monitor])
        if not is_unused(override):
            override(one.scheduler, metric)
        elif one.reduce_on_plateau:
            one.scheduler.step(metric)
        else:
            one.scheduler.step()


def _unwatched(one: Scheduled, metrics: Mapping[str, Any]) -> ModuleError:
    return ModuleError(
        "module.monitor",
        f"{type(one.scheduler).__name__} watches {one.monitor!r}, which nothing logged",
        values={"monitor": one.monitor, "logged": sorted(metrics)},
        because="a scheduler that watches a value steps with what was logged under its name",
        hint=f"log it: self.log({one.monitor!r}, ...), or set strict=False to leave the step out",
    )
