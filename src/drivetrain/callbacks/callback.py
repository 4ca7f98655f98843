"""Callback: code that acts on a run from outside of the module."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.events import unused
from drivetrain.modules import Module, Run


class Callback:
    """Override the hooks that are needed; what nobody overrides is never called.

    Hooks are called on every rank. State that a resumed run needs goes through `state_dict`.
    """

    is_last: ClassVar[bool] = False
    """Whether it comes after the module and all other callbacks: for those that save what is there."""
    decides: ClassVar[bool] = False
    """Whether it comes after the module, right before those that save: it acts on what all have logged."""

    acts_in_fit_only: ClassVar[bool] = False
    """Whether its state is nothing to an evaluation, which then leaves that of its checkpoint alone."""
    _logs_into: weakref.ref[Module] | None = None
    """The module of the run that goes on; a copy of the callback does not copy it."""

    def log(self, name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        """Note a value, as the module's `log` does, with its arguments.

        Raises:
            ModuleError [module.log-outside]: no run is going on.
        """
        self._logging("log").log(name, value, *args, **kwargs)

    def log_dict(self, dictionary: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Note several values with the same options, as the module's `log_dict` does.

        Raises:
            ModuleError [module.log-outside]: no run is going on.
        """
        self._logging("log_dict").log_dict(dictionary, *args, **kwargs)

    def _logging(self, method: str) -> Module:
        module = None if self._logs_into is None else self._logs_into()
        if module is not None:
            return module
        raise ModuleError(
            "module.log-outside",
            f"self.{method} of {type(self).__name__} outside of a run",
            values={"callback": type(self).__qualname__},
            because="what a callback logs is one of the run's values, under the module's options",
            hint="log in a hook between on_fit_start and on_fit_end, or in those of an evaluation",
        )

    @property
    def state_key(self) -> str:
        """The name of this callback's state in a checkpoint; two of one class need different ones."""
        return type(self).__qualname__

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: tensors and plain containers only."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` returned."""

    @unused
    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """On every rank, before the module moves to its device."""

    @unused
    def on_fit_start(self, trainer: Run, module: Module) -> None:
        """Fit begins; the module is on its device, optimizers are there."""

    @unused
    def on_load_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """A checkpoint was read, its weights are loaded; what is put into ``state_dict`` is loaded too."""

    @unused
    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Before the first epoch of this run."""

    @unused
    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Before the first batch of an epoch; not again when it is resumed midway."""

    @unused
    def on_train_batch_start(self, trainer: Run, module: Module, batch: Any, batch_idx: int) -> int | None:
        """Before each step; returning -1 ends the epoch."""

    @unused
    def on_before_zero_grad(self, trainer: Run, module: Module, optimizer: torch.optim.Optimizer) -> None:
        """Before gradients are cleared."""

    @unused
    def on_before_backward(self, trainer: Run, module: Module, loss: torch.Tensor) -> None:
        """The loss is there."""

    @unused
    def on_after_backward(self, trainer: Run, module: Module) -> None:
        """Gradients are there, averaged over ranks."""

    @unused
    def on_before_optimizer_step(
        self, trainer: Run, module: Module, optimizer: torch.optim.Optimizer
    ) -> None:
        """Before parameters change."""

    @unused
    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """After each step; counters and step schedulers have moved."""

    @unused
    def on_sanity_check_start(self, trainer: Run, module: Module) -> None:
        """Before the few validation batches that come before a fit."""

    @unused
    def on_sanity_check_end(self, trainer: Run, module: Module) -> None:
        """After them; what they logged is forgotten."""

    @unused
    def on_validation_start(self, trainer: Run, module: Module) -> None:
        """Before the first batch that ``validate`` runs; the module is in eval mode."""

    @unused
    def on_validation_epoch_start(self, trainer: Run, module: Module) -> None:
        """After on_validation_start."""

    @unused
    def on_validation_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_validation_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_validation_epoch_end(self, trainer: Run, module: Module) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """After the epoch's last batch and its validation; epoch values are reduced."""

    @unused
    def on_save_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """A checkpoint is about to be written; may add plain data to it."""

    @unused
    def on_train_end(self, trainer: Run, module: Module) -> None:
        """After the last epoch."""

    @unused
    def on_fit_end(self, trainer: Run, module: Module) -> None:
        """Fit ends; the module is still on its device."""

    @unused
    def on_test_start(self, trainer: Run, module: Module) -> None:
        """Before the first batch that ``test`` runs; the module is in eval mode."""

    @unused
    def on_test_epoch_start(self, trainer: Run, module: Module) -> None:
        """After on_test_start."""

    @unused
    def on_test_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_test_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_test_epoch_end(self, trainer: Run, module: Module) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_test_end(self, trainer: Run, module: Module) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def on_predict_start(self, trainer: Run, module: Module) -> None:
        """Before the first batch that ``predict`` runs; the module is in eval mode."""

    @unused
    def on_predict_epoch_start(self, trainer: Run, module: Module) -> None:
        """After on_predict_start."""

    @unused
    def on_predict_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_predict_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_predict_epoch_end(self, trainer: Run, module: Module) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_predict_end(self, trainer: Run, module: Module) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """A run stops with an exception, KeyboardInterrupt included."""

    @unused
    def teardown(self, trainer: Run, module: Module, stage: str) -> None:
        """On every rank, at the end of each verb."""


class Checkpoint(Callback):
    """A callback that saves: it comes after everybody else, so that it saves what they have done."""

    is_last = True

    def earlier_folder(self, root: str) -> str | None:
        """Return the folder in which an earlier process with this callback has saved, if it can be told."""
        return None


def best_path(callbacks: Iterable[Callback]) -> str | None:
    """Return the best file of the first callback that has one, or None."""
    return _first(getattr(one, "best_model_path", "") for one in callbacks if isinstance(one, Checkpoint))


def newest_path(callbacks: Iterable[Callback]) -> str | None:
    """Return the newest file of the first callback that has one, or None."""
    return _first(getattr(one, "newest_model_path", "") for one in callbacks if isinstance(one, Checkpoint))


def _first(paths: Iterable[str]) -> str | None:
    return next((path for path in paths if path and ("://" in path or Path(path).exists())), None)
