"""A run that goes on from within a window, a validation, or an epoch of several validations."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torchmetrics
from torch.utils.data import DataLoader, Subset

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


class Everywhere(dt.Callback):
    """Saves at every moment at which a checkpoint is exact, and counts the rows that were logged by then."""

    is_last = True

    def __init__(self, folder: Path, rows: list[Any]) -> None:
        self.folder, self.rows = folder, rows
        self.saved: list[tuple[Path, int]] = []

    def save(self, trainer: dt.Trainer, hook: str) -> None:
        path = self.folder / f"{len(self.saved)}-{hook}.ckpt"
        trainer.save_checkpoint(path)
        self.saved.append((path, len(self.rows)))

    def on_train_epoch_start(self, trainer, module):
        self.save(trainer, "epoch-start")

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.save(trainer, "batch-end")

    def on_validation_batch_end(self, trainer, module, outputs, batch, batch_idx, dataloader_idx=0):
        self.save(trainer, "validation-batch-end")

    def on_validation_end(self, trainer, module):
        self.save(trainer, "validation-end")

    def on_train_epoch_end(self, trainer, module):
        self.save(trainer, "epoch-end")


class Rows(dt.Logger):
    name = version = "rows"
    experiment = None

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))

    def log_hyperparams(self, params, *args, **kwargs): ...


def fit(make: Callable[[], dt.Module], settings: dict, data: dict, path: Path, seed: int, **how: Any) -> Any:
    """Fit, and return the end's checkpoint and what was logged."""
    rows = Rows()
    torch.manual_seed(1)
    module = make()
    torch.manual_seed(seed)
    callbacks = [Everywhere(how.pop("folder"), rows.rows)] if "folder" in how else []
    trainer = quiet(**settings, logger=rows, log_every_n_steps=1, callbacks=callbacks)
    trainer.fit(module, **{name: one() for name, one in data.items()}, **how)
    trainer.save_checkpoint(path)
    return torch.load(path, weights_only=True), rows.rows, callbacks


class ByHand(Draws):
    """Steps every third batch, by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.manual_backward(loss)
        if batch_idx % 3 == 2:
            self.optimizers().step()
            self.optimizers().zero_grad()

    def configure_optimizers(self):
        return Regression.configure_optimizers(self)


class Hooks(Draws):
    """Logs in hooks and by functions, keeps torchmetrics of its own, and unfreezes in a hook."""

    def __init__(self) -> None:
        super().__init__()
        self.net[0].requires_grad_(False)
        self.seen = torchmetrics.MeanMetric()
        self.both = torchmetrics.MetricCollection(
            [torchmetrics.MeanSquaredError(), torchmetrics.MeanAbsoluteError()]
        )
        self.last = torchmetrics.RunningMean(3)
        self.extremes = torchmetrics.MinMaxMetric(torchmetrics.MeanMetric())

    def on_train_epoch_start(self):
        self.log("drawn", torch.rand(()))
        if self.current_epoch == 1:
            self.net[0].requires_grad_(True)
            self.net[2].eval()

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("spread", loss, reduce_fx=torch.std, on_step=False, on_epoch=True)
        self.log("hidden", loss, logger=False, prog_bar=True, on_step=True, on_epoch=True)
        self.seen.update(loss)
        self.last.update(loss)
        self.extremes.update(loss)
        self.both.update(self(batch[0]), batch[1])
        return loss

    def validation_step(self, batch, batch_idx):
        super().validation_step(batch, batch_idx)
        self.seen.update(torch.rand(()))

    def on_train_epoch_end(self):
        self.log_dict({"seen": self.seen.compute(), "last": self.last.compute(), **self.both.compute()})
        self.log_dict({f"{name} of all epochs": value for name, value in self.extremes.compute().items()})
        for metric in (self.seen, self.both, self.extremes):
            metric.reset()


class Chained(Draws):
    def configure_optimizers(self):
        optimizer, kinds = Regression.configure_optimizers(self), torch.optim.lr_scheduler
        parts = [kinds.LinearLR(optimizer, total_iters=4), kinds.CosineAnnealingLR(optimizer, 10)]
        scheduler = kinds.SequentialLR(optimizer, parts, milestones=[4])
        return [optimizer], [{"scheduler": scheduler, "interval": "step"}]


class Growing(dt.DataModule):
    """Gives other data in each epoch, by its state and by the epoch."""

    def __init__(self) -> None:
        super().__init__()
        self.number = 0

    def train_dataloader(self):
        self.number += 1
        first = self.number + self.trainer.current_epoch
        return DataLoader(Subset(Noisy(), range(first, 24)), 4, shuffle=True)

    def val_dataloader(self):
        return loader(9)

    def state_dict(self):
        return {"number": self.number}

    def load_state_dict(self, state_dict):
        self.number = state_dict["number"]


def shuffled() -> DataLoader:
    return DataLoader(Noisy(), 8, shuffle=True)


PASSED = {"train_dataloaders": shuffled, "val_dataloaders": lambda: loader(9)}


@pytest.mark.parametrize(
    ("make", "settings", "data"),
    [
        pytest.param(
            Draws,
            {"val_check_interval": "20 samples", "check_val_every_n_epoch": None, "max_epochs": 2},
            PASSED,
            id="validations by samples",
        ),
        pytest.param(ByHand, {"max_epochs": 2}, PASSED, id="gradients by hand"),
        pytest.param(Hooks, {"max_epochs": 3, "val_check_interval": 4}, PASSED, id="what hooks do"),
        pytest.param(Chained, {"max_epochs": 1}, PASSED, id="schedulers of several kinds in one"),
        pytest.param(Draws, {"max_epochs": -1, "max_steps": 8}, PASSED, id="killed after the last step"),
        pytest.param(Draws, {"max_epochs": -1, "max_steps": 6}, PASSED, id="that is an epoch's last"),
        pytest.param(
            Draws,
            {"max_epochs": 3, "reload_dataloaders_every_n_epochs": 1},
            {"datamodule": Growing},
            id="loaders that are made anew",
        ),
        pytest.param(Draws, {"max_epochs": 2}, {"datamodule": Growing}, id="loaders that are made once"),
    ],
)
def test_a_run_goes_on_exactly_from_every_moment(
    tmp_path: Path, make: Callable[[], dt.Module], settings: dict, data: dict
) -> None:
    alone, _, _ = fit(make, settings, data, tmp_path / "alone.ckpt", 2)
    whole, rows, (saves,) = fit(make, settings, data, tmp_path / "whole.ckpt", 2, folder=tmp_path)
    assert differing(alone, whole) == []
    assert len(saves.saved) > 10
    for number, (path, num_rows) in enumerate(saves.saved):
        end = tmp_path / "end.ckpt"
        resumed, logged, _ = fit(make, settings, data, end, 90 + number, ckpt_path=path)
        assert (path.name, differing(whole, resumed)) == (path.name, [])
        assert (path.name, logged) == (path.name, rows[num_rows:])


def test_what_was_frozen_otherwise_by_the_user_stays_so(tmp_path: Path) -> None:
    class Frozen(Regression):
        def __init__(self) -> None:
            super().__init__()
            self.net[0].requires_grad_(False)

    path = tmp_path / "a.ckpt"
    quiet(max_epochs=2, callbacks=[SaveAt(path, batches=4)]).fit(Frozen(), loader())
    module = Regression()
    quiet(max_epochs=2).fit(module, loader(), ckpt_path=path)
    assert all(one.requires_grad for one in module.parameters())
