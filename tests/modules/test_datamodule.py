from __future__ import annotations

import pytest

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet


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
