from __future__ import annotations

from pathlib import Path

import pytest
import torch
from drivetrain.compat.lightning.callbacks import EarlyStopping
from drivetrain.compat.lightning.cli import (
    LightningCLI,
    ReduceLROnPlateau,
    SaveConfigCallback,
    instantiate_class,
)
from drivetrain.compat.lightning.utilities.exceptions import MisconfigurationException

from drivetrain.compat import tools
from drivetrain.compat.lightning import LightningDataModule, LightningModule

CONFIG = """
seed_everything: 3
trainer:
  max_epochs: 2
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
  callbacks:
  - class_path: drivetrain.compat.lightning.callbacks.ModelCheckpoint
    init_args: {monitor: val_loss, save_top_k: 2}
model: {width: 16, activation: {class_path: torch.nn.Tanh}}
data: {batch_size: 8}
optimizer: {class_path: torch.optim.SGD, init_args: {lr: 0.05}}
lr_scheduler: {class_path: drivetrain.compat.lightning.cli.ReduceLROnPlateau, init_args: {monitor: val_loss}}
"""


class Net(LightningModule):
    def __init__(
        self, width: int = 8, activation: torch.nn.Module | None = None, batch_size: int = 1
    ) -> None:
        super().__init__()
        self.save_hyperparameters(ignore=["activation"])
        act = activation or torch.nn.ReLU()
        self.net = torch.nn.Sequential(torch.nn.Linear(4, width), act, torch.nn.Linear(width, 1))

    def training_step(self, batch, batch_idx):
        return self.net(batch).square().mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.net(batch).square().mean())


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 4) -> None:
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(16, 4), batch_size=self.batch_size)

    def val_dataloader(self):
        return self.train_dataloader()


class Program(LightningCLI):
    called: tuple[str, ...] = ()

    def add_arguments_to_parser(self, parser) -> None:
        parser.add_lightning_class_args(EarlyStopping, "stop")
        parser.set_defaults({"stop.monitor": "val_loss"})
        parser.link_arguments("data.batch_size", "model.batch_size")

    def before_fit(self) -> None:
        self.called += ("before",)

    def after_fit(self) -> None:
        self.called += ("after",)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tools, "_SEEDS", [])  # the seed that other tests would go on from
    return tmp_path


def test_a_program_with_its_file(here: Path) -> None:
    (here / "run.yaml").write_text(CONFIG)
    cli = Program(Net, Data, args=["fit", "--config=run.yaml"])
    assert cli.called == ("before", "after")
    assert cli.trainer.global_step == 4
    assert dict(cli.model.hparams) == {"width": 16, "batch_size": 8}
    assert isinstance(cli.model.net[1], torch.nn.Tanh)
    kinds = {type(one) for one in cli.trainer.callbacks}
    assert {EarlyStopping, SaveConfigCallback} <= kinds
    assert isinstance(cli.model.lr_schedulers(), ReduceLROnPlateau)
    assert (here / "lightning_logs" / "version_0" / "config.yaml").exists()
    assert len([*(here / "lightning_logs" / "version_0" / "checkpoints").iterdir()]) == 2


def test_the_saved_file_has_the_trainers_defaults_as_values(here: Path) -> None:
    (here / "run.yaml").write_text(CONFIG)
    LightningCLI(Net, Data, args=["fit", "--config=run.yaml"], trainer_defaults={"max_epochs": 1})
    text = (here / "lightning_logs" / "version_0" / "config.yaml").read_text()
    assert "drivetrain.base" not in text
    again = LightningCLI(Net, Data, args=["fit", "--config=lightning_logs/version_0/config.yaml"])
    assert again.trainer.max_epochs == 2


def test_a_flag_that_the_trainer_hands_on_is_honoured_from_a_default_file(here: Path) -> None:
    (here / "default.yaml").write_text("trainer: {launcher: spawn}")
    kept = {"default_config_files": [str(here / "default.yaml")]}
    cli = LightningCLI(Net, Data, args=["--trainer.devices=2"], run=False, parser_kwargs=kept)
    assert cli.trainer.plan.launcher == "spawn"


@pytest.mark.parametrize(("said", "seed"), [([], 3), (["--trainer.seed=5"], 5), (["--trainer.seed=0"], 0)])
def test_the_seed_of_the_data_is_that_of_everything_unless_another_is_said(
    said: list[str], seed: int
) -> None:
    cli = LightningCLI(Net, Data, args=["--seed_everything=3", *said], run=False)
    assert cli.trainer._settings.seed == seed


def test_a_seed_that_is_true_is_the_variables(monkeypatch) -> None:
    monkeypatch.setenv("PL_GLOBAL_SEED", "17")
    cli = LightningCLI(Net, Data, args=[], run=False)
    assert cli.config["seed_everything"] == 17
    assert cli.trainer._settings.seed == 17


@pytest.mark.parametrize(("said", "steps"), [("1", 1), ("3", 3), ("0.5", 2), ("1.0", 4)])
def test_the_limit_that_was_said_is_the_runs(said: str, steps: int) -> None:
    flags = ["--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--trainer.logger=false"]
    flags += ["--trainer.enable_checkpointing=false", f"--trainer.limit_train_batches={said}"]
    cli = LightningCLI(Net, Data, args=["fit", "--optimizer=SGD", "--optimizer.lr=0.1", *flags])
    assert cli.trainer.global_step == steps


def test_errors_are_raised_under_the_known_kind(monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["train.py", "--trainer.strategy=nosuch"])
    with pytest.raises(MisconfigurationException, match="strategy-value"):
        LightningCLI(Net, Data, run=False)


def test_variables_begin_with_pl(monkeypatch) -> None:
    monkeypatch.setenv("PL_MODEL__WIDTH", "11")
    cli = LightningCLI(Net, Data, args=[], run=False, parser_kwargs={"default_env": True})
    assert cli.model.net[0].out_features == 11


def test_instantiate_class_is_ours() -> None:
    assert instantiate_class((1, 2), {"class_path": "torch.nn.Linear"}).out_features == 2
