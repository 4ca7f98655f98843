"""DataModule: the data and its loaders, apart from the model."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, IterableDataset
from typing_extensions import Self

from drivetrain.base.loading import Later
from drivetrain.base.tree import map_leaves
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.events import unused
from drivetrain.modules.hyperparameters import WithHyperparameters, made_from
from drivetrain.modules.run import Run

if TYPE_CHECKING:
    from drivetrain.checkpoint_io import local
else:
    local = Later("drivetrain.checkpoint_io.local")


class DataModule(WithHyperparameters):
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

    @classmethod
    def from_datasets(
        cls,
        train_dataset: Any = None,
        val_dataset: Any = None,
        test_dataset: Any = None,
        predict_dataset: Any = None,
        batch_size: int = 1,
        num_workers: int = 0,
        **kwargs: Any,
    ) -> Self:
        """Make a data module of datasets; each may be a list, for several loaders.

        The training loader shuffles, unless its dataset is iterable; ``kwargs`` go to the class.
        """

        def load(dataset: Any, *, shuffle: bool = False) -> DataLoader[Any]:
            shuffle = shuffle and not isinstance(dataset, IterableDataset)
            return DataLoader(dataset, batch_size, shuffle=shuffle, num_workers=num_workers)

        def loads(datasets: Any, *, shuffle: bool = False) -> Callable[[], Any]:
            if isinstance(datasets, (list, tuple)):
                return lambda: [load(one, shuffle=shuffle) for one in datasets]
            return lambda: load(datasets, shuffle=shuffle)

        made = cls(**kwargs)
        for name, found in (
            ("train", train_dataset),
            ("val", val_dataset),
            ("test", test_dataset),
            ("predict", predict_dataset),
        ):
            if found is not None:
                setattr(made, f"{name}_dataloader", loads(found, shuffle=name == "train"))
        return made

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | os.PathLike[str],
        hparams_file: str | os.PathLike[str] | None = None,
        weights_only: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Make a data module from a checkpoint's arguments and state; ``kwargs`` win over them."""
        found = local.LocalCheckpointIO().load(checkpoint_path, weights_only=weights_only)
        top, name = Entry(found, checkpoint_path), "datamodule_hyper_parameters"
        kept, argument = top[name] if name in found else None, found.get("datamodule_hparams_name")
        module = made_from(cls, kept, hparams_file, kwargs, argument)
        if found.get("datamodule"):
            with top["datamodule"].reading():
                module.load_state_dict(dict(top["datamodule"].mapping()))
        return module
