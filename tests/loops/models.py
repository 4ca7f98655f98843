"""Small modules and data that tests of the loops and of several ranks share."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset

import drivetrain as dt
from drivetrain.base.tree import leaves


class Regression(dt.Module):
    """A two-layer net; double precision, so that differences are not rounding."""

    def __init__(self, lr: float = 0.01, dropout: float = 0.0) -> None:
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(7)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Dropout(dropout), torch.nn.Linear(8, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(x)

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return ((self(x) - y) ** 2).mean()

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val", self.loss(batch))

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self.log("count", float(len(batch[0])))
        self.log("test", self.loss(batch))

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:
        return batch[0][:, 0]

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def data(num_samples: int = 39) -> TensorDataset:
    """Return fixed inputs; the first column is the sample's number."""
    x = torch.randn(num_samples, 4, generator=torch.Generator().manual_seed(3))
    x[:, 0] = torch.arange(num_samples) / num_samples
    return TensorDataset(x, x.sum(1, keepdim=True).sin())


def loader(num_samples: int = 39, batch_size: int = 4, *, shuffle: bool = False, **kwargs: Any) -> DataLoader:
    """Return a loader over `data`."""
    return DataLoader(data(num_samples), batch_size, shuffle=shuffle, **kwargs)


def quiet(**kwargs: Any) -> dt.Trainer:
    """Return a trainer without progress; several ranks are forks, which start in a tenth of a second.

    What is particular to how ranks start is tested with each launcher in tests/ranks/test_launch*.py.
    """
    given = {
        "accelerator": "cpu",
        "devices": 1,
        "enable_progress_bar": False,
        "enable_model_summary": None if kwargs.get("barebones") else False,
        "num_sanity_val_steps": 0,
        **kwargs,
    }
    if given["devices"] != 1:
        given.setdefault("launcher", "fork")
    return dt.Trainer(**given)


class Noisy(Dataset):
    """Samples with random augmentation, drawn from torch's generator."""

    def __len__(self) -> int:
        return 44

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.full((4,), index / 44) + torch.rand(4)
        return x, x.sum().sin()[None]


def differing(one: Any, other: Any) -> list[str]:
    """Return the paths of the entries in which two checkpoints differ, bit by bit."""
    mine, theirs = dict(leaves(one)), dict(leaves(other))
    assert mine.keys() == theirs.keys()
    return [
        name
        for name, value in mine.items()
        if not (
            torch.equal(value, theirs[name]) if isinstance(value, torch.Tensor) else value == theirs[name]
        )
    ]
