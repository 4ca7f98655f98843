"""A run that goes on from within a window, a validation, or an epoch of several validations."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader

import drivetrain as dt
from tests.loops.models import Noisy, Regression, differing, loader, quiet


class SaveAt(dt.Callback):
    """Saves once, at a moment of the run."""

    is_last = True

    def __init__(self, path: Path, batches: int, hook: str = "on_train_batch_end") -> None:
        self.path, self.batches, self.hook = path, batches, hook
        self.saved = False

    def save(self, trainer: dt.Trainer, hook: str) -> None:
        if hook == self.hook and not self.saved and trainer._fitted.progress.seen == self.batches:
            self.saved = True
            trainer.save_checkpoint(self.path)

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.save(trainer, "on_train_batch_end")

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        self.save(trainer, "on_validation_batch_end")

    def on_validation_end(self, trainer, module):
        self.save(trainer, "on_validation_end")


class Draws(Regression):
    """Draws random numbers in training and in validation, and schedules by what validation logged."""

    def __init__(self) -> None:
        super().__init__(dropout=0.3)

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch) + torch.rand(()))

    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
        return [optimizer], [{"scheduler": plateau, "monitor": "val"}]


@pytest.mark.parametrize(
    ("batches", "hook"),
    [
        (4, "on_train_batch_end"),
        (5, "on_train_batch_end"),
        (6, "on_train_batch_end"),
        (6, "on_validation_batch_end"),
        (6, "on_validation_end"),
        (14, "on_validation_end"),
    ],
)
def test_a_run_goes_on_exactly(tmp_path: Path, batches: int, hook: str) -> None:
    path = tmp_path / "a.ckpt"
    settings = {"max_epochs": 2, "accumulate_grad_batches": 4, "val_check_interval": 3}

    def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> dict:
        torch.manual_seed(1)
        trainer, module = quiet(**settings, callbacks=[*callbacks]), Draws()
        data = DataLoader(Noisy(), 4, shuffle=True)
        trainer.fit(module, data, loader(9), ckpt_path=ckpt_path)
        trainer.save_checkpoint(tmp_path / "end.ckpt")
        return torch.load(tmp_path / "end.ckpt", weights_only=True)

    save = SaveAt(path, batches, hook)
    whole = run(save)
    assert save.saved
    resumed = run(ckpt_path=path)
    assert differing(whole, resumed) == []


def test_schedulers_go_on_after_an_epochs_last_step_without_a_warning(tmp_path: Path) -> None:
    class Scheduled(Regression):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    path, whole, module = tmp_path / "a.ckpt", Scheduled(), Scheduled()
    quiet(max_epochs=2, callbacks=[SaveAt(path, batches=10)]).fit(whole, loader())
    trainer = quiet(max_epochs=2)
    trainer.fit(module, loader(), ckpt_path=path)
    assert trainer.optimizers[0].param_groups[0]["lr"] == pytest.approx(1e-4)
    assert all(
        torch.equal(one, other) for one, other in zip(whole.parameters(), module.parameters(), strict=True)
    )
