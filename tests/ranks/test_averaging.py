"""Averages of weights on two ranks: one average, with one set of buffers, and exact to resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim.swa_utils import update_bn

import drivetrain as dt
from tests.callbacks.test_weight_averaging import Normed, SaveAt, assert_same, copied, mean
from tests.loops.models import differing, loader, quiet

pytestmark = pytest.mark.ranks


class Same(dt.Callback):
    """Asserts that all ranks have the same weights and buffers in validation and at the end."""

    is_last = True

    def __init__(self) -> None:
        self.num_compared = 0
        self.steps: list[dict[str, torch.Tensor]] = []

    def compare(self, trainer: Any, module: Any) -> None:
        everybody = trainer.collectives.all_gather_object(copied(module.state_dict()))
        assert not differing(*everybody)
        self.num_compared += 1

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.steps.append(copied(module.state_dict()))

    def on_validation_epoch_start(self, trainer, module):
        self.compare(trainer, module)

    def on_fit_end(self, trainer, module):
        self.compare(trainer, module)


def run(*callbacks: dt.Callback, **given: Any) -> tuple[Normed, dt.Trainer]:
    torch.manual_seed(1)
    module = Normed()
    settings = {"devices": 2, "strategy": "ddp", "launcher": "fork", "max_epochs": 2}
    trainer = quiet(**settings, callbacks=list(callbacks))
    trainer.fit(module, loader(36), loader(20), **given)  # five steps; the last one has a stand-in
    return module, trainer


def test_all_ranks_have_one_average_and_a_resumed_run_the_same(tmp_path: Path) -> None:
    path, same = tmp_path / "a.ckpt", Same()
    module, trainer = run(dt.WeightAveraging(), same, SaveAt(path, 8))
    trainer.save_checkpoint(tmp_path / "whole.ckpt")
    assert same.num_compared == 3
    assert_same(module.state_dict(), mean(same.steps))

    _, resumed = run(dt.WeightAveraging(), ckpt_path=path)
    resumed.save_checkpoint(tmp_path / "resumed.ckpt")
    assert not differing(
        *(torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "resumed"))
    )


def test_statistics_are_computed_over_all_ranks_batches() -> None:
    same = Same()
    module, _ = run(dt.StochasticWeightAveraging(0.05, 1, 1), same)
    assert same.num_compared == 3
    found = copied(module.norm.state_dict())
    weights = mean([same.steps[4], same.steps[9]])
    assert_same(
        dict(module.named_parameters()), {name: weights[name] for name, _ in module.named_parameters()}
    )
    update_bn(loader(36), module)
    assert_same(found, module.norm.state_dict())
    assert found["num_batches_tracked"] == 9
