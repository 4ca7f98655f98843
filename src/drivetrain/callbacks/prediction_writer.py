"""BasePredictionWriter: writes predictions where they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.modules import Module, Run

_WRITES = {"batch": ("batch",), "epoch": ("epoch",), "batch_and_epoch": ("batch", "epoch")}


class BasePredictionWriter(Callback):
    """Override `write_on_batch_end`, `write_on_epoch_end` or both, and say which in ``write_interval``.

    Each rank writes what it has predicted, with the numbers that the samples have in the dataset: ranks have
    every N-th batch, and each sample is on one of them. With ``return_predictions=False`` in
    ``trainer.predict`` nothing is gathered, and with ``write_interval="batch"`` nothing is kept either. Files
    need names that tell ranks apart: ``trainer.global_rank``.

    Raises:
        ModuleError [callback.bad-argument]: no such interval, or one whose method is not there.
    """

    def __init__(self, write_interval: Literal["batch", "epoch", "batch_and_epoch"] = "batch") -> None:
        if write_interval not in _WRITES:
            what = f"one of {', '.join(map(repr, _WRITES))}"
            raise bad_argument(self, "write_interval", write_interval, what)
        self.interval = write_interval
        self._predictions: list[list[Any]] = []
        self._indices: list[list[Any]] = []

    def write_on_batch_end(
        self,
        trainer: Run,
        pl_module: Module,
        prediction: Any,
        batch_indices: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Write the output of one batch.

        ``batch_indices`` are the dataset's indices of its samples, in order: a list; nested as the loaders
        are for a `CombinedLoader`; None for a loader without indices, such as that of an IterableDataset.
        """
        raise NotImplementedError

    def write_on_epoch_end(
        self, trainer: Run, pl_module: Module, predictions: Sequence[Any], batch_indices: Sequence[Any]
    ) -> None:
        """Write this rank's outputs of all batches, on the CPU.

        ``predictions`` is a list by batch; with several loaders, a list of these. ``batch_indices`` is a list
        by loader in either case, of lists by batch.
        """
        raise NotImplementedError

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Check, before anything is predicted, that what will be called is there."""
        for when in _WRITES[self.interval] if stage == "predict" else ():
            name = f"write_on_{when}_end"
            if getattr(type(self), name) is getattr(BasePredictionWriter, name) and name not in vars(self):
                raise bad_argument(
                    self,
                    "write_interval",
                    self.interval,
                    f"for a class that has {name}",
                    f"write def {name}(self, trainer, pl_module, ...)",
                )

    def on_predict_epoch_start(self, trainer: Run, module: Module) -> None:
        """Begin anew."""
        self._predictions = [[] for _ in trainer.num_predict_batches]
        self._indices = [[] for _ in trainer.num_predict_batches]

    def on_predict_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Write the batch, or keep it."""
        indices, wanted = trainer.batch_indices, _WRITES[self.interval]
        if "batch" in wanted:
            self.write_on_batch_end(trainer, module, outputs, indices, batch, batch_idx, dataloader_idx)
        if "epoch" in wanted:
            self._predictions[dataloader_idx].append(map_leaves(outputs, _to_cpu))
            self._indices[dataloader_idx].append(indices)

    def on_predict_epoch_end(self, trainer: Run, module: Module) -> None:
        """Write what was kept, and let it go."""
        predictions, indices = self._predictions, self._indices
        self._predictions, self._indices = [], []
        if "epoch" in _WRITES[self.interval]:
            flat = predictions[0] if len(predictions) == 1 else predictions
            self.write_on_epoch_end(trainer, module, flat, indices)


def _to_cpu(leaf: Any) -> Any:
    return leaf.detach().cpu() if isinstance(leaf, torch.Tensor) else leaf
