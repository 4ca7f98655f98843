"""The classes of a small program."""

from __future__ import annotations

import torch

import drivetrain as dt


class Net(dt.Module):
    """A net.

    Args:
        width: units of the hidden layer
    """

    def __init__(
        self,
        width: int = 8,
        activation: torch.nn.Module | None = None,
        critic: dict | None = None,
        num_inputs: int = 4,
    ) -> None:
        super().__init__()
        self.critic = critic
        act = activation or torch.nn.ReLU()
        self.net = torch.nn.Sequential(torch.nn.Linear(num_inputs, width), act, torch.nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        loss = (self.net(batch) - 1).square().mean()
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self.net(batch) - 1).square().mean())

    def test_step(self, batch, batch_idx):
        self.log("test_loss", (self.net(batch) - 1).square().mean())

    def predict_step(self, batch, batch_idx):
        return self.net(batch)


class Adamic(Net):
    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Data(dt.DataModule):
    def __init__(self, batch_size: int = 4, num_samples: int = 16) -> None:
        super().__init__()
        self.batch_size, self.num_samples = batch_size, num_samples

    def _loader(self):
        data = torch.linspace(0, 1, self.num_samples * 4).view(-1, 4)
        return torch.utils.data.DataLoader(data, batch_size=self.batch_size)

    def train_dataloader(self):
        return self._loader()

    def val_dataloader(self):
        return self._loader()

    def test_dataloader(self):
        return self._loader()

    def predict_dataloader(self):
        return self._loader()


def make_net(width: int = 3) -> Net:
    return Net(width)
