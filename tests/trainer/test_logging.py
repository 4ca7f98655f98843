from __future__ import annotations

import contextlib
import csv
from pathlib import Path

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


def rows(folder: Path) -> list[dict[str, float]]:
    with (folder / "metrics.csv").open() as file:
        return [{name: float(text) for name, text in row.items() if text} for row in csv.DictReader(file)]


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.ranks)])
def test_what_is_logged_is_written_at_its_steps(tmp_path: Path, devices: int) -> None:
    logger = dt.CSVLogger(tmp_path, name="a", version="b")
    trainer = quiet(
        devices=devices,
        strategy="ddp",
        max_epochs=2,
        log_every_n_steps=2,
        num_sanity_val_steps=2,
        logger=logger,
        enable_checkpointing=True,
        default_root_dir=tmp_path,
    )
    result = trainer.fit(Regression(), loader(40 * devices // 2), loader(8))

    folder = tmp_path / "a" / "b"
    assert trainer.log_dir == str(folder)
    found = rows(folder)
    assert [row["step"] for row in found] == [2, 4, 5, 6, 8, 10]
    assert [row["epoch"] for row in found] == [0, 0, 0, 1, 1, 1]
    assert all("loss_step" in row for row in found)
    assert [("val" in row, "loss_epoch" in row) for row in found] == [(False, False)] * 2 + [(True, True)] + [
        (False, False)
    ] * 2 + [(True, True)]
    assert found[-1]["loss_epoch"] == pytest.approx(result.metrics["loss_epoch"], rel=1e-6)
    assert "lr: 0.01" in (folder / "hparams.yaml").read_text()

    trainer.test(Regression(), loader(8))
    assert rows(folder)[-1]["test"] > 0


def test_true_makes_a_csv_logger_and_a_fast_run_writes_nothing(tmp_path: Path) -> None:
    quiet(max_steps=1, logger=True, default_root_dir=tmp_path).fit(Regression(), loader(8))
    assert [path.name for path in tmp_path.rglob("metrics.csv")] == ["metrics.csv"]

    class Uses(Regression):
        def training_step(self, batch, batch_idx):
            self.logger.experiment.anything(batch_idx)
            return super().training_step(batch, batch_idx)

    before = sorted(tmp_path.rglob("*"))
    quiet(fast_dev_run=True, logger=True, default_root_dir=tmp_path).fit(Uses(), loader(8))
    trainer = quiet(barebones=True, max_steps=1, default_root_dir=tmp_path, num_sanity_val_steps=2)
    trainer.fit(Regression(), loader(8))
    assert trainer.loggers == trainer.callbacks == []
    assert sorted(tmp_path.rglob("*")) == before


class Ends(dt.Logger):
    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[str] = []

    name, version = "ends", "0"

    def log_metrics(self, metrics, step=None):
        pass

    def log_hyperparams(self, params, metrics=None):
        self.statuses.append(f"hparams {sorted(params)}")

    def finalize(self, status):
        self.statuses.append(status)


class Fails(Regression):
    error: BaseException | None = None

    def training_step(self, batch, batch_idx):
        if self.error is not None:
            raise self.error
        return super().training_step(batch, batch_idx)


def test_a_logger_hears_how_the_run_ended() -> None:
    logger = Ends()
    for error in (None, ValueError("x"), KeyboardInterrupt()):
        trainer = quiet(max_steps=1, logger=logger, enable_autolog_hparams=error is None)
        module = Fails()
        module.error = error
        with pytest.raises(type(error)) if error is not None else contextlib.nullcontext():
            trainer.fit(module, loader(8))
    assert logger.statuses == ["hparams ['dropout', 'lr']", "success", "failed", "interrupted"]


class Sometimes(Regression):
    """Logs in the hook after a step, and something in each third batch of an epoch only."""

    def training_step(self, batch, batch_idx):
        if batch_idx % 3 == 0:
            self.log("third", float(batch_idx))
        return super().training_step(batch, batch_idx)

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.log("after", float(batch_idx))


@pytest.mark.parametrize("devices", [1, pytest.param(2, marks=pytest.mark.ranks)])
def test_a_row_has_what_the_step_s_hooks_and_earlier_steps_logged(tmp_path: Path, devices: int) -> None:
    trainer = quiet(
        devices=devices,
        strategy="ddp",
        max_epochs=2,
        log_every_n_steps=2,
        logger=dt.CSVLogger(tmp_path, name="a", version="b"),
        callbacks=dt.ModelCheckpoint(tmp_path, every_n_train_steps=1, save_top_k=-1),
    )
    trainer.fit(Sometimes(), loader(20 * devices))
    found = [row for row in rows(tmp_path / "a" / "b") if "after" in row]
    assert [(row["step"], row["after"], row["third"]) for row in found] == [
        (2, 1, 0),
        (4, 3, 3),
        (5, 4, 3),
        (6, 0, 0),
        (8, 2, 0),
        (10, 4, 3),
    ]
    resumed = quiet(max_epochs=2, log_every_n_steps=2, logger=dt.CSVLogger(tmp_path, name="a", version="c"))
    if devices == 1:
        resumed.fit(Sometimes(), loader(20), ckpt_path=tmp_path / "epoch=1-step=7.ckpt")
        again = [row for row in rows(tmp_path / "a" / "c") if "after" in row]
        assert [row["third"] for row in again] == [0, 3]
