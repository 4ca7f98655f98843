"""Callback: code that acts on a run from outside of the module."""

from __future__ import annotations

from typing import Any, ClassVar

import torch

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
        """A checkpoint was read; before anything of it is taken up."""

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
