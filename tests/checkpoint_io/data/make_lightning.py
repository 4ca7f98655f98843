"""Write the checkpoints of Lightning that the tests read: ``python make_lightning.py FOLDER``.

Run it with pytorch-lightning 1.9 and with lightning 2.6, each in an environment of its own, beside torch.
Each writes ``lightning_VERSION_{within,epoch,objects}.ckpt``, and ``..._end.pt``: the weights at the end of
the run that was not interrupted, which a run that goes on has to reach.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset

try:
    import lightning.pytorch as pl
except ImportError:
    import pytorch_lightning as pl


class Net(pl.LightningModule):
    def __init__(self, lr: float = 0.02, hidden: int = 3, name: str = "net") -> None:
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(7)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, hidden), torch.nn.Tanh(), torch.nn.Linear(hidden, 1)
        )

    def loss(self, batch):
        x, y = batch
        return ((self.net(x) - y) ** 2).mean()

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)]


class OfObjects(Net):
    """Has hyperparameters that are no plain data."""

    def __init__(self, args: argparse.Namespace, folder: Path) -> None:
        super().__init__()
        self.save_hyperparameters()


class SaveAt(pl.Callback):
    def __init__(self, path: Path, step: int) -> None:
        self.path, self.step = path, step

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step == self.step:
            trainer.save_checkpoint(self.path)


def data() -> DataLoader:
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(3))
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True).sin()), 4)


def main(folder: Path) -> None:
    version = ".".join(pl.__version__.split(".")[:2])
    stem = f"lightning_{version}"
    saves = pl.callbacks.ModelCheckpoint(
        folder / "kept", filename="{epoch}", monitor="val", save_top_k=-1, save_on_train_epoch_end=True
    )
    callbacks = [
        saves,
        SaveAt(folder / f"{stem}_within.ckpt", 7),
        pl.callbacks.EarlyStopping("val", patience=9),
        pl.callbacks.Timer(),
    ]
    settings = {"accelerator": "cpu", "devices": 1, "logger": False, "enable_progress_bar": False}
    settings |= {"enable_model_summary": False, "num_sanity_val_steps": 0, "log_every_n_steps": 1}
    module = Net()
    pl.Trainer(max_epochs=4, callbacks=callbacks, **settings).fit(module, data(), data())
    torch.save(module.state_dict(), folder / f"{stem}_end.pt")
    (folder / "kept" / "epoch=1.ckpt").rename(folder / f"{stem}_epoch.ckpt")
    for path in (folder / "kept").iterdir():
        path.unlink()
    (folder / "kept").rmdir()
    other = OfObjects(argparse.Namespace(depth=2), Path("somewhere"))
    trainer = pl.Trainer(max_epochs=1, enable_checkpointing=False, **settings)
    trainer.fit(other, data())
    trainer.save_checkpoint(folder / f"{stem}_objects.ckpt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
