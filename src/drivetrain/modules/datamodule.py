"""DataModule: the data and its loaders, apart from the model."""

from __future__ import annotations

from typing import Any

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.events import unused
from drivetrain.modules.run import Run


class DataModule:
    """Override the loaders that are needed. They are called on every rank, after `setup`.

    A loader is written as for one device: the trainer shares its batches out.
    """

    trainer: Run | None = None
    """The trainer of the run that this is in, or None."""

    @unused
    def prepare_data(self) -> None:
        """Download and prepare, on one process only; keep nothing on ``self``."""

    @unused
    def setup(self, stage: str) -> None:
        """Make datasets, on every rank; ``stage`` is fit, validate, test or predict."""

    @unused
    def teardown(self, stage: str) -> None:
        """Clean up, on every rank."""

    @unused
    def train_dataloader(self) -> Any:
        """Return the training loader."""

    @unused
    def val_dataloader(self) -> Any:
        """Return the validation loader, or a list of them."""

    @unused
    def test_dataloader(self) -> Any:
        """Return the test loader, or a list of them."""

    @unused
    def predict_dataloader(self) -> Any:
        """Return the loader to predict on, or a list of them."""

    @unused
    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch that is to be moved; wins over the module's."""
        return batch

    @unused
    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch with its tensors on the device; wins over the module's."""
        return map_leaves(batch, lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf)

    @unused
    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:  # noqa: ARG002 - the hook's
        """Return the batch that the step gets; wins over the module's."""
        return batch

    @unused
    def on_exception(self, exception: BaseException) -> None:
        """A run stops with an exception."""

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: tensors and plain containers only."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what `state_dict` returned."""
