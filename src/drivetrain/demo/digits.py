"""scikit-learn's handwritten digits, a small convolutional net, and what watches its training."""

from __future__ import annotations

import os
import signal
from typing import Any, final

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from drivetrain.callbacks.callback import Callback
from drivetrain.modules import DataModule, Module, Run

Images = tuple[torch.Tensor, torch.Tensor]


@final
class Digits(DataModule):
    """1,797 images of 8 x 8 pixels that 43 people wrote; every fifth is held out for the test."""

    def __init__(self, batch_size: int = 32) -> None:
        self._batch_size = batch_size

    def images(self, part: str) -> Images:
        """Return the images and labels of ``train`` or ``test``, split the same way every time."""
        from sklearn.datasets import load_digits

        found = load_digits()
        x = torch.from_numpy(found.images).float()[:, None] / 16
        y = torch.from_numpy(found.target)
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
        cut = len(x) * 4 // 5
        chosen = order[:cut] if part == "train" else order[cut:]
        return x[chosen], y[chosen]

    def train_dataloader(self) -> DataLoader[Any]:
        """Return the training images, shuffled."""
        return DataLoader(TensorDataset(*self.images("train")), self._batch_size, shuffle=True)

    def test_dataloader(self) -> DataLoader[Any]:
        """Return the held-out images."""
        return DataLoader(TensorDataset(*self.images("test")), self._batch_size)

    def predict_dataloader(self) -> DataLoader[Any]:
        """Return the held-out images."""
        return self.test_dataloader()


@final
class DigitNet(Module):
    """Two convolutions and two linear layers."""

    def __init__(self, num_steps: int, lr: float = 0.004) -> None:
        super().__init__()
        self.save_hyperparameters()
        nn = torch.nn
        self.net = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(64 * 16, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the ten scores of each image.

        Shapes:
            x: [batch, 1, 8, 8], floating.
            returns: [batch, 10].
        """
        scores: torch.Tensor = self.net(x)
        return scores

    def training_step(self, batch: Images, batch_idx: int) -> torch.Tensor:
        """Return the cross entropy."""
        x, y = batch
        loss = functional.cross_entropy(self(x), y)
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def test_step(self, batch: Images, batch_idx: int) -> None:
        """Log the share of images that are read right."""
        x, y = batch
        self.log("accuracy", (self(x).argmax(1) == y).float().mean())

    def predict_step(self, batch: Images, batch_idx: int, dataloader_idx: int = 0) -> torch.Tensor:
        """Return the digits that are read."""
        digits: torch.Tensor = self(batch[0]).argmax(1)
        return digits

    def configure_optimizers(self) -> tuple[list[Any], list[Any]]:
        """Return AdamW, with a learning rate that rises and falls once over the whole run."""
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.hparams.lr, total_steps=self.hparams.num_steps
        )
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]


@final
class LossCurve(Callback):
    """Keeps every step's loss over all ranks."""

    def __init__(self) -> None:
        self.points: list[tuple[int, float]] = []

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Note the loss."""
        if trainer.is_global_zero:
            self.points.append((trainer.global_step, float(trainer.callback_metrics["loss_step"])))


class PowerCut(Exception):  # noqa: N818 - it is no error: it is what the demo is about
    """The only rank there is stops here."""


@final
class KillLastRank(Callback):
    """Kills the last rank's process after a step, as a machine that loses power would."""

    is_last = True

    def __init__(self, step: int) -> None:
        self._step = step

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Kill, once it is time; what was saved in this step is on the disk already."""
        if trainer.global_step != self._step:
            return
        if trainer.world_size == 1:
            raise PowerCut
        if trainer.global_rank == trainer.world_size - 1:
            os.kill(os.getpid(), signal.SIGKILL)
