from __future__ import annotations

import copy
import pickle

import pytest
import torch

import drivetrain as dt
from drivetrain.compat import kinds
from tests.loops.models import Regression, loader, quiet


def test_enumerations_are_their_texts():
    assert kinds.TrainerFn.FITTING == "fit" == str(kinds.TrainerFn.FITTING)
    assert kinds.RunningStage("train") is kinds.RunningStage.TRAINING
    assert kinds.LightningEnum.__eq__(kinds.TrainerFn.TESTING, "TEST")
    assert kinds.TrainerFn.from_str("Validating") is kinds.TrainerFn.VALIDATING
    assert kinds.TrainerFn.from_str("other") is None
    assert {kinds.TrainerFn.FITTING: 1}["fit"] == 1
    assert kinds.RunningStage.SANITY_CHECKING.evaluating
    assert not kinds.RunningStage.TRAINING.evaluating
    assert kinds.RunningStage.VALIDATING.dataloader_prefix == "val"
    assert kinds.GradClipAlgorithmType.supported_types() == ["value", "norm"]
    assert kinds.GradClipAlgorithmType.supported_type("norm")
    assert kinds.TrainerState(kinds.TrainerStatus.INTERRUPTED).stopped


def test_intervals_are_what_callbacks_take():
    found = {one.value: (one.on_batch, one.on_epoch) for one in kinds.WriteInterval}
    assert found == {"batch": (True, False), "epoch": (False, True), "batch_and_epoch": (True, True)}
    seen = []

    class Writer(dt.BasePredictionWriter):
        def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
            seen.append(len(predictions))

    callbacks = [Writer(kinds.WriteInterval.EPOCH), dt.Timer("1:00:00:00", interval=kinds.Interval.epoch)]
    quiet(callbacks=callbacks).predict(Regression(), loader(8))
    assert seen == [2]


def test_attributes_are_entries():
    found = kinds.AttributeDict(a=1)
    found.b = 2
    assert (found.a, found["b"]) == (1, 2)
    with pytest.raises(AttributeError, match="'c'"):
        _ = found.c
    assert pickle.loads(pickle.dumps(found)) == copy.deepcopy(found) == found  # noqa: S301 - our own
    assert repr(found) == '"a": 1\n"b": 2'


def test_protocols_know_optimizers():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    assert isinstance(optimizer, kinds.Optimizable)
    assert isinstance(optimizer, kinds.LRSchedulerTypeTuple) is False
    assert not isinstance(3, kinds.Steppable)
