"""trainer.init_module: a module is made where and as it will train."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import drivetrain as dt
import drivetrain.compat.lightning as pl
from drivetrain.compat import fabric
from tests.loops.models import Regression, differing, loader, quiet


def test_a_module_that_is_made_in_it_trains_as_one_that_is_not():
    trainer = quiet(max_epochs=1)
    with trainer.init_module():
        made = Regression()
    plain = Regression()
    trainer.fit(made, loader())
    quiet(max_epochs=1).fit(plain, loader())
    assert differing(made.state_dict(), plain.state_dict()) == []


@pytest.mark.parametrize("kind", [dt.Trainer, pl.Trainer, dt.Engine, fabric.Fabric])
def test_the_precision_is_that_of_the_flags(kind):
    made = kind(accelerator="cpu", devices=1, precision="64-true")
    with made.init_module():
        assert torch.nn.Linear(2, 2).weight.dtype is torch.float64
    with made.init_module(empty_init=True):
        state = torch.get_rng_state()
        assert torch.nn.Linear(2, 2).weight.dtype is torch.float64
        assert torch.equal(torch.get_rng_state(), state)
    assert torch.nn.Linear(2, 2).weight.dtype is torch.float32


def test_an_empty_module_takes_the_weights_of_a_checkpoint(tmp_path):
    trainer, module = quiet(max_epochs=1), Regression()
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    with trainer.init_module(empty_init=True):
        empty = Regression()
    trainer.test(empty, loader(), ckpt_path=tmp_path / "one.ckpt")
    assert differing(empty.state_dict(), module.state_dict()) == []


def test_configure_model_makes_its_layers_in_the_format():
    class Late(Regression):
        def configure_model(self) -> None:
            self.late = torch.nn.Linear(1, 1)
            self.seen = self.late.weight.dtype

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.late(super().forward(x))

    module = Late()
    quiet(max_steps=2, precision="64-true").fit(module, loader())
    assert module.seen is torch.float64


def test_within_a_run_it_is_the_runs():
    class Making(dt.Callback):
        def on_train_start(self, trainer: Any, module: Any) -> None:
            with trainer.init_module():
                self.dtype = torch.nn.Linear(1, 1).weight.dtype

    making = Making()
    quiet(max_steps=1, precision="64-true", callbacks=[making]).fit(Regression(), loader())
    assert making.dtype is torch.float64


@pytest.mark.ranks
def test_a_module_for_several_ranks_is_made_in_the_caller_and_copied():
    trainer = quiet(max_epochs=1, devices=2, precision="64-true")
    with trainer.init_module():
        made = Regression()
    assert made.net[0].weight.dtype is torch.float64
    trainer.fit(made, loader())
    assert trainer.global_step == 5
