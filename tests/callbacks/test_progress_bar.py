from __future__ import annotations

import math
import pickle
from typing import Any

import pytest
import torch

import drivetrain as dt
from drivetrain.callbacks.progress_bar import shown
from tests.loops.models import Regression, loader, quiet


class Percent(dt.ProgressBar):
    """A bar as a user writes one."""

    def __init__(self) -> None:
        super().__init__()
        self.percents: list[float] = []
        self.totals: dict[str, float] = {}
        self.metrics: dict[str, Any] = {}

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        super().on_train_batch_end(trainer, module, outputs, batch, batch_idx)
        self.percents.append(100 * (batch_idx + 1) / self.total_train_batches)
        self.metrics = self.get_metrics(trainer, module)

    def on_validation_batch_start(self, trainer, module, batch, batch_idx, dataloader_idx=0):
        if self.has_dataloader_changed(dataloader_idx):
            kind = "sanity" if trainer.sanity_checking else "val"
            self.totals[f"{kind} {dataloader_idx}"] = self.total_val_batches_current_dataloader
            self.totals["all val"] = self.total_val_batches

    def on_validation_end(self, trainer, module):
        self.reset_dataloader_idx_tracker()

    def on_test_start(self, trainer, module):
        self.totals["test"] = self.total_test_batches_current_dataloader

    def on_predict_start(self, trainer, module):
        self.totals["predict"] = self.total_predict_batches_current_dataloader


class Shown(Regression):
    def training_step(self, batch, batch_idx):
        self.log("loss", self.loss(batch), prog_bar=True)
        self.log("hidden", 1.0)
        return self.loss(batch)

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        pass


def test_a_users_bar_is_the_only_one_and_knows_how_long_everything_is(tmp_path) -> None:
    bar = Percent()
    logger = dt.CSVLogger(tmp_path, version="a-long-name")
    trainer = quiet(
        max_epochs=1, callbacks=[bar], enable_progress_bar=True, num_sanity_val_steps=2, logger=logger
    )
    trainer.fit(Shown(), loader(), [loader(20), loader(4)])
    assert [type(one) for one in trainer.callbacks] == [Percent]
    assert trainer.progress_bar_callback is bar
    assert bar.percents == pytest.approx([10.0 * n for n in range(1, 11)])
    assert bar.totals == {"sanity 0": 2, "sanity 1": 1, "val 0": 5, "val 1": 1, "all val": 6}
    assert set(bar.metrics) == {"v_num", "loss"}
    assert bar.metrics["v_num"] == "name"
    assert type(bar.metrics["loss"]) is float
    trainer.test(Shown(), loader(8))
    trainer.predict(Shown(), loader(12))
    assert (bar.totals["test"], bar.totals["predict"]) == (2, 3)


def test_a_length_that_nobody_knows_is_infinite() -> None:
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter([(torch.zeros(4), torch.zeros(1))] * 4)

    class Looks(Percent):
        def on_train_start(self, trainer, module):
            self.totals["train"] = self.total_train_batches

    bar = Looks()
    quiet(max_epochs=1, callbacks=[bar]).fit(Shown(), torch.utils.data.DataLoader(Stream(), batch_size=2))
    assert bar.totals["train"] == math.inf


def test_it_can_be_switched_off_and_travels_without_the_run() -> None:
    bar = Percent()
    bar.disable()
    assert (bar.is_enabled, bar.is_disabled) == (False, True)
    bar.enable()
    assert bar.is_enabled
    bar._trainer = lambda: 0
    assert pickle.loads(pickle.dumps(bar))._trainer is None  # noqa: S301 - our own bytes
    assert bar.train_description == "Training"


def test_what_is_printed_in_a_run_goes_through_the_bar(capsys) -> None:
    class Prints(Percent):
        def print(self, *args, **kwargs):
            super().print("above:", *args, **kwargs)

    class Says(Shown):
        def on_train_start(self):
            self.print("module", end="!\n")
            self.trainer.print("trainer")

    trainer = quiet(max_steps=1, callbacks=[Prints()])
    trainer.fit(Says(), loader())
    trainer.print("afterwards")
    Says().print("alone")
    assert capsys.readouterr().out.splitlines() == [
        "above: module!",
        "above: trainer",
        "afterwards",
        "alone",
    ]


def test_values_are_short() -> None:
    assert [shown(value) for value in (0.123456, 3, "x", 123456.7)] == ["0.1235", "3", "x", "1.235e+05"]
