from __future__ import annotations

import pytest

from drivetrain.compat import boring
from tests.loops.models import quiet


@pytest.mark.parametrize(
    "kind", [boring.BoringDataModule, boring.BoringDataModuleNoLen, boring.IterableBoringDataModule]
)
def test_the_boring_model_does_every_verb(kind):
    model = boring.BoringModel()
    trainer = quiet(max_epochs=1, limit_train_batches=3, limit_val_batches=2, limit_test_batches=2)
    assert trainer.fit(model, datamodule=kind()).steps == 3
    trainer.validate(model, datamodule=kind())
    trainer.test(model, datamodule=kind())
    assert len(trainer.predict(model, datamodule=kind())) == 64


@pytest.mark.parametrize("model", [boring.ManualOptimBoringModel(), boring.DemoModel(3)])
def test_the_others_train(model):
    before = [one.clone() for one in model.parameters()]
    loader = boring.BoringModel().train_dataloader()
    assert quiet(max_steps=2).fit(model, loader).steps == 2
    assert any((one != now).any() for one, now in zip(before, model.parameters(), strict=True))


def test_data_sets_have_the_sizes_that_were_asked_for():
    assert boring.RandomDataset(3, 5)[4].shape == (3,)
    assert boring.RandomDictDataset(3, 5)[4]["b"].shape == (3,)
    assert len([*boring.RandomIterableDataset(3, 5)]) == len(boring.RandomIterableDatasetWithLen(3, 5)) == 5
    assert boring.Net(2)(boring.RandomDataset(32, 4).data).shape == (4, 2)
