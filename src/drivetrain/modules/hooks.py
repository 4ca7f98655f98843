"""Every hook of a module, empty: the table in events/, as methods to override."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.events import unused
from drivetrain.modules.attached import Attached


class ModuleHooks(Attached):
    """Override what is needed; what nobody overrides is never called."""

    @unused
    def prepare_data(self) -> None:
        """Download and prepare, on one process only; keep nothing on ``self``."""

    @unused
    def setup(self, stage: str) -> None:
        """On every rank, before the module moves to its device."""

    @unused
    def on_fit_start(self) -> None:
        """Fit begins; the module is on its device, optimizers are there."""

    @unused
    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint was read; before anything of it is taken up."""

    @unused
    def on_train_start(self) -> None:
        """Before the first epoch of this run."""

    @unused
    def on_train_epoch_start(self) -> None:
        """Before the first batch of an epoch; not again when it is resumed midway."""

    @unused
    def on_train_batch_start(self, batch: Any, batch_idx: int) -> int | None:
        """Before each step; returning -1 ends the epoch."""

    @unused
    def on_before_zero_grad(self, optimizer: torch.optim.Optimizer) -> None:
        """Before gradients are cleared."""

    @unused
    def on_before_backward(self, loss: torch.Tensor) -> None:
        """The loss is there."""

    @unused
    def on_after_backward(self) -> None:
        """Gradients are there, averaged over ranks."""

    @unused
    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Before parameters change."""

    @unused
    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """After each step; counters and step schedulers have moved."""

    @unused
    def on_validation_start(self) -> None:
        """Before the first batch that ``validate`` runs; the module is in eval mode."""

    @unused
    def on_validation_epoch_start(self) -> None:
        """After on_validation_start."""

    @unused
    def on_validation_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_validation_batch_end(
        self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_validation_epoch_end(self) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_validation_end(self) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def on_train_epoch_end(self) -> None:
        """After the epoch's last batch and its validation; epoch values are reduced."""

    @unused
    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """A checkpoint is about to be written; may add plain data to it."""

    @unused
    def on_train_end(self) -> None:
        """After the last epoch."""

    @unused
    def on_fit_end(self) -> None:
        """Fit ends; the module is still on its device."""

    @unused
    def on_test_start(self) -> None:
        """Before the first batch that ``test`` runs; the module is in eval mode."""

    @unused
    def on_test_epoch_start(self) -> None:
        """After on_test_start."""

    @unused
    def on_test_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_test_batch_end(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_test_epoch_end(self) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_test_end(self) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def on_predict_start(self) -> None:
        """Before the first batch that ``predict`` runs; the module is in eval mode."""

    @unused
    def on_predict_epoch_start(self) -> None:
        """After on_predict_start."""

    @unused
    def on_predict_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """Before each batch, on the rank that has it."""

    @unused
    def on_predict_batch_end(self, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        """After each batch, with what the step returned."""

    @unused
    def on_predict_epoch_end(self) -> None:
        """After the last batch; values logged here count once a rank."""

    @unused
    def on_predict_end(self) -> None:
        """After the logged values of all ranks are reduced."""

    @unused
    def teardown(self, stage: str) -> None:
        """On every rank, at the end of each verb."""

    @unused
    def configure_callbacks(self) -> Any:
        """Return a callback or several, which join the Trainer's and replace those of their class."""

    @unused
    def configure_model(self) -> None:
        """Make large layers here: on every rank, in each stage, after `setup`; must do nothing twice."""

    @unused
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch that is to be moved to the device."""
        return batch

    @unused
    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch with its tensors on the device; overridden for types of one's own."""
        return map_leaves(batch, lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf)

    @unused
    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch that the step gets: for augmentation on the device."""
        return batch

    @unused
    def backward(self, loss: torch.Tensor) -> None:
        """Compute gradients; the loss is divided by the accumulation window already."""
        torch.autograd.backward(loss)

    @unused
    def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: torch.optim.Optimizer) -> None:  # noqa: ARG002 - the hook's
        """Clear gradients, before those of a new accumulation window come."""
        optimizer.zero_grad()

    @unused
    def optimizer_step(
        self,
        epoch: int,  # noqa: ARG002 - the hook's
        batch_idx: int,  # noqa: ARG002 - the hook's
        optimizer: torch.optim.Optimizer,
        optimizer_closure: Callable[[], Any],
    ) -> None:
        """Change the parameters; must call the closure, which runs the step and computes the gradients."""
        optimizer.step(closure=optimizer_closure)

    @unused
    def count_tokens(self, batch: Any) -> int:  # noqa: ARG002 - the hook's
        """Return how many tokens a batch of this rank has, for bounds and intervals in tokens.

        The batch is as the loader gave it, before it is moved, so that reading it waits for no device.

        Collectives:
            none here; with several ranks the sum over them takes one all_reduce of 8 bytes a step.
        """
        return 0

    @unused
    def lr_scheduler_step(self, scheduler: Any, metric: Any) -> None:
        """Step a scheduler; ``metric`` is the monitored value, None for one that watches none."""
        if metric is None:
            scheduler.step()
        else:
            scheduler.step(metric)

    @unused
    def on_validation_model_zero_grad(self) -> None:
        """Before a validation inside fit; gradients are left as they are unless this clears them."""

    @unused
    def on_validation_model_eval(self) -> None:
        """Put the module into eval mode before the validation loop."""
        self.eval()

    @unused
    def on_validation_model_train(self) -> None:
        """Put the module into train mode after the validation loop; by default, back as it was."""
        self.train()

    @unused
    def on_test_model_eval(self) -> None:
        """Put the module into eval mode before the test loop."""
        self.eval()

    @unused
    def on_test_model_train(self) -> None:
        """Put the module into train mode after the test loop; by default, back as it was."""
        self.train()

    @unused
    def on_predict_model_eval(self) -> None:
        """Put the module into eval mode before the prediction loop."""
        self.eval()

    @unused
    def on_predict_model_train(self) -> None:
        """Put the module into train mode after the prediction loop; by default, back as it was."""
        self.train()
