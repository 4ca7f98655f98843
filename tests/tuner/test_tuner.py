from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet
from tests.tuner.sized import Sized


@pytest.mark.parametrize(
    "wrong",
    [
        {"mode": "cubic"},
        {"min_lr": 2.0},
        {"num_training": 1},
        {"method": "validate"},
        {"attr_name": "rate"},
        {"dataloaders": loader()},
    ],
)
def test_wrong_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument"):
        dt.Tuner(quiet()).lr_find(Regression(), loader(), **wrong)


def test_loaders_or_a_data_module() -> None:
    for search in (dt.Tuner(quiet()).lr_find, dt.Tuner(quiet()).scale_batch_size):
        with pytest.raises(dt.TrainerError, match=r"trainer.data-twice"):
            search(Sized(), loader(), datamodule=dt.DataModule())


def test_both_searches_then_a_fit() -> None:
    model, trainer = Sized({0: 100}), quiet(max_steps=3)
    tuner = dt.Tuner(trainer)
    assert tuner.scale_batch_size(model) == 64
    found = tuner.lr_find(model, num_training=30)
    assert model.hparams.lr == found.suggestion()
    assert trainer.fit(model).samples == 3 * 64
    assert trainer.optimizers[0].param_groups[0]["lr"] == found.suggestion()


def test_a_compiled_module_is_searched_as_it_was_written() -> None:
    model = Sized({0: 20})
    assert dt.Tuner(quiet()).scale_batch_size(torch.compile(model, backend="eager")) == 16
    assert model.batch_size == 16
