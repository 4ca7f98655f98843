"""A module with a batch size, and memory that ends: what tests of the searches share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader

from drivetrain.modules import DataModule
from tests.loops.models import Regression, data


def rank() -> int:
    """Return the rank of this process, whatever a trial of it alone says."""
    return dist.get_rank() if dist.is_initialized() else 0


class Memory:
    """An allocator that gives out ``rooms[rank]`` samples a batch, and not one more."""

    def __init__(self, rooms: dict[int, int], log: Path | None = None) -> None:
        self.rooms, self.log = rooms, log

    def take(self, size: int) -> None:
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(f"{rank()} {size}\n")
        if size > self.rooms.get(rank(), 10**9):
            message = f"CUDA out of memory. Tried to allocate {size} samples"
            raise torch.OutOfMemoryError(message)


class Sized(Regression):
    """Its loaders have ``self.batch_size``, and each step takes room for its batch."""

    def __init__(
        self, rooms: dict[int, int] | None = None, log: str | None = None, num_samples: int = 4000
    ) -> None:
        super().__init__()
        self.memory = Memory(rooms or {}, None if log is None else Path(log))
        self.batch_size, self.num_samples = 3, num_samples

    def loader(self) -> DataLoader:
        return DataLoader(data(self.num_samples), self.batch_size)

    def train_dataloader(self) -> Any:
        return self.loader()

    def val_dataloader(self) -> Any:
        return self.loader()

    def test_dataloader(self) -> Any:
        return self.loader()

    def predict_dataloader(self) -> Any:
        return self.loader()

    def loss(self, batch: Any) -> torch.Tensor:
        self.memory.take(len(batch[0]))
        return super().loss(batch)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:
        self.memory.take(len(batch[0]))
        return super().predict_step(batch, batch_idx)


class SizedData(DataModule):
    """The same as a data module; ``ready`` counts, over all processes, who prepared and who set up."""

    def __init__(self, batch_size: int = 3, ready: Path | None = None) -> None:
        self.save_hyperparameters("batch_size")
        self.ready = ready

    def _note(self, what: str) -> None:
        if self.ready is not None:
            with self.ready.open("a") as file:
                file.write(f"{what} {rank()}\n")

    def prepare_data(self) -> None:
        self._note("prepare")

    def setup(self, stage: str) -> None:
        self._note("setup")
        self.dataset = data(4000)

    def teardown(self, stage: str) -> None:
        self._note("teardown")

    def train_dataloader(self) -> Any:
        return DataLoader(self.dataset, self.hparams.batch_size)
