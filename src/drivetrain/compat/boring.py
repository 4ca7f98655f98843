"""Small models and data sets, for tests of callbacks, loggers and plug-ins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from drivetrain.compat.module import LightningDataModule, LightningModule


class RandomDataset(Dataset[torch.Tensor]):
    """``length`` vectors of ``size`` random numbers.

    Shapes:
        returns: [size], float32.
    """

    def __init__(self, size: int, length: int) -> None:
        self.len = length
        self.data = torch.randn(length, size)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.data[index]

    def __len__(self) -> int:
        return self.len


class RandomDictDataset(Dataset[dict[str, torch.Tensor]]):
    """The same under two names, the second shifted by one."""

    def __init__(self, size: int, length: int) -> None:
        self.len = length
        self.data = torch.randn(length, size)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"a": self.data[index], "b": self.data[index] + 1}

    def __len__(self) -> int:
        return self.len


class RandomIterableDataset(IterableDataset[torch.Tensor]):
    """A stream of ``count`` vectors, which has no length."""

    def __init__(self, size: int, count: int) -> None:
        self.size, self.count = size, count

    def __iter__(self) -> Iterator[torch.Tensor]:
        for _ in range(self.count):
            yield torch.randn(self.size)


class RandomIterableDatasetWithLen(RandomIterableDataset):
    """The same stream, with a length."""

    def __len__(self) -> int:
        return self.count


class BoringModel(LightningModule):
    """One linear layer, 32 numbers to 2, whose loss is the distance of its outputs from ones."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the layer's outputs.

        Shapes:
            x: [batch, 32].
            returns: [batch, 2].
        """
        found: torch.Tensor = self.layer(x)
        return found

    def loss(self, preds: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Return the mean squared distance from the labels, by default ones."""
        return torch.nn.functional.mse_loss(preds, torch.ones_like(preds) if labels is None else labels)

    def step(self, batch: Any) -> torch.Tensor:
        """Return the loss of a batch."""
        return self.loss(self(batch))

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss."""
        return {"loss": self.step(batch)}

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss."""
        return {"x": self.step(batch)}

    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss."""
        return {"y": self.step(batch)}

    def configure_optimizers(self) -> Any:
        """Return SGD, and a rate that falls to a tenth each epoch."""
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1)]

    def train_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return DataLoader(RandomDataset(32, 64))

    def val_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return DataLoader(RandomDataset(32, 64))

    def test_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return DataLoader(RandomDataset(32, 64))

    def predict_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return DataLoader(RandomDataset(32, 64))


class ManualOptimBoringModel(BoringModel):
    """The same, stepping by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Step, and return the loss."""
        optimizer = self.optimizers()
        loss = self.step(batch)
        optimizer.zero_grad()
        self.manual_backward(loss)
        optimizer.step()
        return loss


class DemoModel(LightningModule):
    """A linear layer between two sizes, with a tanh."""

    def __init__(self, out_dim: int = 10, learning_rate: float = 0.02) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.l1 = torch.nn.Linear(32, out_dim)
        self.learning_rate = learning_rate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs.

        Shapes:
            x: [batch, ...], 32 numbers a sample.
            returns: [batch, out_dim].
        """
        return torch.tanh(self.l1(x.flatten(1)))

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        """Return the sum of the outputs."""
        found: torch.Tensor = self(batch).sum()
        return found

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return Adam."""
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)


class Net(torch.nn.Module):
    """A plain module: a linear layer, 32 numbers to ``out_dim``, with a tanh."""

    def __init__(self, out_dim: int = 10) -> None:
        super().__init__()
        self.l1 = torch.nn.Linear(32, out_dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the outputs.

        Shapes:
            x: [batch, ...], 32 numbers a sample.
            returns: [batch, out_dim].
        """
        return torch.tanh(self.l1(x.flatten(1)))


class BoringDataModule(LightningDataModule):
    """64 samples of each kind, split off one data set in `setup`."""

    dataset_class: Any = RandomDataset
    random_train: Any
    random_val: Any
    random_test: Any
    random_predict: Any

    def __init__(self) -> None:
        super().__init__()
        self.random_full: Any = self.dataset_class(32, 64 * 4)

    def setup(self, stage: str) -> None:
        """Make the data sets of a stage."""
        names = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",), "predict": ("predict",)}
        order = ("train", "val", "test", "predict")
        for name in names[str(getattr(stage, "value", stage))]:
            part = range(64 * order.index(name), 64 * order.index(name) + 64)
            setattr(self, f"random_{name}", torch.utils.data.Subset(self.random_full, part))

    def train_dataloader(self) -> Any:
        """Return the training samples, one a batch."""
        return DataLoader(self.random_train)

    def val_dataloader(self) -> Any:
        """Return the validation samples, one a batch."""
        return DataLoader(self.random_val)

    def test_dataloader(self) -> Any:
        """Return the test samples, one a batch."""
        return DataLoader(self.random_test)

    def predict_dataloader(self) -> Any:
        """Return the samples to predict on, one a batch."""
        return DataLoader(self.random_predict)


class BoringDataModuleNoLen(LightningDataModule):
    """Streams without a length."""

    dataset_class: Any = RandomIterableDataset

    def _loader(self) -> Any:
        return DataLoader(self.dataset_class(32, 64))

    def train_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return self._loader()

    def val_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return self._loader()

    def test_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return self._loader()

    def predict_dataloader(self) -> Any:
        """Return 64 samples, one a batch."""
        return self._loader()


class IterableBoringDataModule(BoringDataModuleNoLen):
    """Streams with a length."""

    dataset_class = RandomIterableDatasetWithLen
