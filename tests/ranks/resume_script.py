"""A run that is whole, killed, or resumed: ``resume_script.py MODE FOLDER WORLD_SIZE NUM_WORKERS``.

Everything that an exact resume has to carry is in it: dropout, batch norm, augmentation, shuffling, a
scheduler a step and one an epoch, epoch means, a callback with state.
"""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Noisy

KILL_AT = 8
"""In the second epoch: one rank takes 11 steps an epoch, two take 6."""


class Net(dt.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 16), torch.nn.BatchNorm1d(16), torch.nn.Dropout(0.3), torch.nn.Linear(16, 1)
        )

    def training_step(self, batch: Any, batch_idx: int) -> dict[str, torch.Tensor]:
        x, y = batch
        noise = 0.01 * random.random()
        loss = ((self.net(x) - y) ** 2).mean() + noise
        self.log("loss", loss, on_step=True, on_epoch=True)
        return {"loss": loss}

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val", ((self.net(batch[0]) - batch[1]) ** 2).mean())

    def configure_optimizers(self) -> Any:
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        by_step = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=60)
        by_epoch = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
        return [optimizer], [{"scheduler": by_step, "interval": "step"}, by_epoch]


class Seen(dt.Callback):
    """Remembers every batch and every epoch's values, and lets itself be killed after a save."""

    is_last = True

    def __init__(self, mode: str, path: Path) -> None:
        self.mode, self.path = mode, str(path)
        self.batches: list[float] = []
        self.epochs: list[list[float]] = []
        self.starts = 0

    def state_dict(self) -> dict[str, Any]:
        return {"batches": self.batches, "epochs": self.epochs, "starts": self.starts}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        vars(self).update(state_dict)

    def on_train_epoch_start(self, trainer, module):
        self.starts += 1

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.batches.append(batch[0].sum().item())
        if trainer.global_step == KILL_AT and self.mode == "kill":
            trainer.save_checkpoint(self.path)
            if trainer.is_global_zero:
                os.kill(os.getpid(), signal.SIGKILL)

    def on_train_epoch_end(self, trainer, module):
        metrics = trainer.callback_metrics
        self.epochs.append([metrics[name].item() for name in ("loss_epoch", "val")])


def main(mode: str, folder: Path, world_size: int, num_workers: int) -> None:
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002 - the global generator is what users' augmentations draw from
    module, middle = Net(), folder / "middle.ckpt"
    seen = Seen(mode, middle)
    trainer = dt.Trainer(
        accelerator="cpu",
        devices=world_size,
        launcher="none" if world_size == 1 else "fork",
        strategy="ddp",
        max_epochs=3,
        callbacks=[seen],
        enable_progress_bar=False,
        log_every_n_steps=2,
    )
    train = DataLoader(Noisy(), 4, shuffle=True, num_workers=num_workers)
    torch.manual_seed(2 if mode == "resume" else 1)  # a resumed run must not depend on what came before it
    trainer.fit(module, train, DataLoader(Noisy(), 5), ckpt_path=middle if mode == "resume" else None)
    trainer.save_checkpoint(folder / f"{mode}.ckpt")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
