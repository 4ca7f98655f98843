from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet


class Recorded(dt.DataModule):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def prepare_data(self):
        self.calls.append("prepare_data")

    def setup(self, stage):
        self.calls.append(f"setup {stage} {self.trainer.world_size}")

    def teardown(self, stage):
        self.calls.append(f"teardown {stage}")

    def train_dataloader(self):
        self.calls.append("train")
        return loader()

    def val_dataloader(self):
        self.calls.append("val")
        return [loader(5, 2)]

    def test_dataloader(self):
        self.calls.append("test")
        return loader(5, 2)

    predict_dataloader = test_dataloader


def test_a_data_module_is_set_up_before_its_loaders_are_asked() -> None:
    found, trainer, module = Recorded(), quiet(max_epochs=2), Regression()
    result = trainer.fit(module, datamodule=found)
    assert found.calls == ["prepare_data", "setup fit 1", "train", "val", "teardown fit"]
    assert "val" in result.metrics
    found.calls.clear()
    trainer.test(module, datamodule=found)
    assert found.calls == ["prepare_data", "setup test 1", "test", "teardown test"]
    assert len(trainer.predict(module, datamodule=found)) == 3


def test_data_comes_from_one_place() -> None:
    trainer = quiet(max_epochs=1)
    with pytest.raises(dt.TrainerError, match=r"trainer.data-twice"):
        trainer.fit(Regression(), loader(), datamodule=Recorded())
    with pytest.raises(dt.TrainerError, match=r"trainer.not-a-datamodule"):
        trainer.fit(Regression(), Recorded())
    with pytest.raises(dt.TrainerError, match=r"trainer.no-data\] trainer.fit has no data"):
        trainer.fit(Regression())


def test_a_data_module_is_made_of_datasets() -> None:
    made = dt.DataModule.from_datasets(data(20), [data(6), data(4)], batch_size=4)

    class Several(Regression):
        def validation_step(self, batch, batch_idx, dataloader_idx):
            super().validation_step(batch, batch_idx)

    result = quiet(max_epochs=1).fit(Several(), datamodule=made)
    assert result.steps == 5
    assert {"val/dataloader_idx_0", "val/dataloader_idx_1"} <= set(result.metrics)
    assert isinstance(made.train_dataloader().sampler, torch.utils.data.RandomSampler)
    with pytest.raises(dt.TrainerError, match=r"trainer.no-data"):
        quiet().test(Regression(), datamodule=made)


class Sized(dt.DataModule):
    def __init__(self, size: int, other: str = "x") -> None:
        super().__init__()
        self.save_hyperparameters()
        self.epochs = 0

    def train_dataloader(self):
        return loader(self.hparams.size)

    def on_exception(self, exception):
        self.caught = exception

    def state_dict(self):
        return {"epochs": 7}

    def load_state_dict(self, state_dict):
        self.epochs = state_dict["epochs"]


def test_a_data_module_is_made_anew_from_a_checkpoint(tmp_path) -> None:
    path, trainer = tmp_path / "a.ckpt", quiet(max_epochs=1)
    trainer.fit(Regression(), datamodule=Sized(8))
    trainer.save_checkpoint(path)
    found = Sized.load_from_checkpoint(path)
    assert (found.hparams.size, found.hparams.other, found.epochs) == (8, "x", 7)
    (tmp_path / "hparams.yaml").write_text("size: 9\nother: y\n")
    found = Sized.load_from_checkpoint(path, hparams_file=tmp_path / "hparams.yaml", other="z")
    assert (found.hparams.size, found.hparams.other) == (9, "z")


def test_a_data_module_hears_of_an_exception() -> None:
    class Fails(Regression):
        def training_step(self, batch, batch_idx):
            raise ValueError("x")

    found = Sized(8)
    with pytest.raises(ValueError, match="x"):
        quiet(max_epochs=1).fit(Fails(), datamodule=found)
    assert isinstance(found.caught, ValueError)
