"""LearningRateMonitor: writes down the learning rates that steps are taken with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.logging_steps import may_be_logged
from drivetrain.callbacks.refusal import bad_argument, check_flag
from drivetrain.modules import Module, Run

_INTERVALS = (None, "step", "epoch")


class _Named(NamedTuple):
    """An optimizer with the names of its parameter groups."""

    optimizer: torch.optim.Optimizer
    names: list[str]
    interval: str | None
    """When its scheduler steps; None where it has none."""


@final
class LearningRateMonitor(Callback):
    """Give the loggers each parameter group's learning rate, and keep them in ``lrs``.

    ``logging_interval="step"`` writes them at the optimizer steps of ``log_every_n_steps``, in the row of
    that step and as the step used them; ``"epoch"`` at each epoch's start; None as each scheduler steps, and
    both where an optimizer has none. Names: ``lr-AdamW``, ``lr-AdamW-1`` for the second optimizer of its
    class, ``lr-AdamW/pg1`` where there are several groups; a scheduler's ``name`` takes the place of
    ``lr-AdamW``, a group's ``name`` that of ``pg1``. ``log_momentum`` and ``log_weight_decay`` add
    ``lr-AdamW-momentum`` (for Adam its first beta) and ``lr-AdamW-weight_decay``.

    The newest are in ``trainer.callback_metrics``, with or without a logger; ``lrs`` has all of this run,
    newest last.

    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.group-names]: two parameter groups of one optimizer have the same name.
    """

    def __init__(
        self,
        logging_interval: Literal["step", "epoch"] | None = None,
        log_momentum: bool = False,
        log_weight_decay: bool = False,
    ) -> None:
        if logging_interval not in _INTERVALS:
            raise bad_argument(self, "logging_interval", logging_interval, "'step', 'epoch' or None")
        self.logging_interval = logging_interval
        self.log_momentum = check_flag(self, "log_momentum", log_momentum)
        self.log_weight_decay = check_flag(self, "log_weight_decay", log_weight_decay)
        self._forget()
        if logging_interval == "epoch":
            # What has nothing to do there is not called there, as if nobody overrode the hooks.
            vars(self)["on_train_batch_start"] = super().on_train_batch_start
            vars(self)["on_train_batch_end"] = super().on_train_batch_end

    def _forget(self) -> None:
        self.lrs: dict[str, list[float]] = {}
        """By name, what was written."""
        self.last_momentum_values: dict[str, float] = {}
        self.last_weight_decay_values: dict[str, float] = {}
        self._coming: tuple[int, dict[str, float]] = (0, {})
        """What the step that is coming is taken with, and its number."""

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew."""
        if stage == "fit":
            self._forget()

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Look for all names, so that one that is not unique is found now."""
        for one in _named(trainer):
            for name in one.names:
                self.lrs.setdefault(name, [])

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Write what the epoch starts with."""
        if self.logging_interval != "step":
            self._write(trainer, trainer.coming_logging_step, self._read(trainer, "epoch"))

    def on_train_batch_start(self, trainer: Run, module: Module, batch: Any, batch_idx: int) -> None:
        """Note what a step that will be logged is taken with: schedulers move before it is."""
        if may_be_logged(trainer):
            self._coming = (trainer.global_step + 1, self._read(trainer, "step"))

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Write it in the row of the step, once the step was taken."""
        number, found = self._coming
        if found and trainer.global_step >= number and trainer.is_logging_step:
            self._coming = (0, {})
            self._write(trainer, trainer.logging_step, found)

    def _read(self, trainer: Run, interval: str) -> dict[str, float]:
        wanted = (interval, None) if self.logging_interval is None else (None, "step", "epoch")
        found: dict[str, float] = {}
        for one in _named(trainer):
            if one.interval not in wanted:
                continue
            for name, group in zip(one.names, one.optimizer.param_groups, strict=True):
                found[name] = float(group["lr"])
                if self.log_momentum:
                    found[f"{name}-momentum"] = _momentum(group)
                if self.log_weight_decay:
                    found[f"{name}-weight_decay"] = float(group.get("weight_decay", 0.0))
        return found

    def _write(self, trainer: Run, step: int, found: Mapping[str, float]) -> None:
        for name, value in found.items():
            if name.endswith("-momentum"):
                self.last_momentum_values[name] = value
            elif name.endswith("-weight_decay"):
                self.last_weight_decay_values[name] = value
            else:
                self._of(name).append(value)
        if found:
            trainer.note_metrics(found)
        if found and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics({**found, "epoch": float(trainer.current_epoch)}, step)

    def _of(self, name: str) -> list[float]:
        """Return what was kept under a name; an only group, once there are others, is the first of them."""
        before = name.removesuffix("/pg1")
        if name not in self.lrs and before in self.lrs:
            self.lrs[name] = self.lrs.pop(before)
        return self.lrs.setdefault(name, [])


def _momentum(group: Mapping[str, Any]) -> float:
    betas = group.get("betas")
    return float(betas[0] if betas is not None else group.get("momentum", 0.0))


def _named(trainer: Run) -> Iterator[_Named]:
    """Yield the optimizers, those with a scheduler first, each once."""
    counts: dict[type, int] = {}
    seen: list[torch.optim.Optimizer] = []
    for config in trainer.lr_scheduler_configs:
        optimizer = getattr(config.scheduler, "optimizer", None)
        is_known = any(optimizer is one for one in seen)
        if not isinstance(optimizer, torch.optim.Optimizer) or (is_known and config.name is None):
            continue
        seen.append(optimizer)
        name = config.name if config.name is not None else _numbered(optimizer, counts)
        yield _Named(optimizer, _suffixed(name, optimizer), config.interval)
    for optimizer in trainer.optimizers:
        if not any(optimizer is one for one in seen):
            yield _Named(optimizer, _suffixed(_numbered(optimizer, counts), optimizer), None)


def _numbered(optimizer: torch.optim.Optimizer, counts: dict[type, int]) -> str:
    kind = type(optimizer)
    count = counts[kind] = counts.get(kind, 0) + 1
    return f"lr-{kind.__name__}" + (f"-{count - 1}" if count > 1 else "")


def _suffixed(name: str, optimizer: torch.optim.Optimizer) -> list[str]:
    groups: Sequence[Mapping[str, Any]] = optimizer.param_groups
    if len(groups) == 1:
        own = groups[0].get("name")
        return [f"{name}/{own}" if own else name]
    names = [str(group.get("name") or f"pg{number}") for number, group in enumerate(groups, 1)]
    twice = sorted({one for one in names if names.count(one) > 1})
    if twice:
        raise ModuleError(
            "callback.group-names",
            f"two parameter groups of {type(optimizer).__name__} have the name {twice[0]!r}",
            values={"optimizer": type(optimizer).__name__, "names": names},
            because="a logged value has a name of its own",
            hint="give the groups different names, or none: they are pg1, pg2, ... then",
        )
    return [f"{name}/{one}" for one in names]
