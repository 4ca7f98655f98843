"""A backbone that is unfrozen within a fit on two ranks is trained as on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.test_weight_averaging import SaveAt
from tests.loops.models import Regression, differing, loader, quiet
from tests.loops.steps import assert_close

pytestmark = pytest.mark.ranks


class Net(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.backbone, self.head = self.net[:2], self.net[3]

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD([one for one in self.parameters() if one.requires_grad], lr=0.1, momentum=0.5)


class Same(dt.Callback):
    def on_train_end(self, trainer, module):
        state = {name: one.clone() for name, one in module.state_dict().items()}
        everybody = trainer.collectives.all_gather_object(state)
        assert not differing(everybody[0], everybody[-1])


def run(devices: int, strategy: str, *callbacks: dt.Callback, **given: Any) -> tuple[Net, dt.Trainer]:
    module, size = Net(), 8 // devices
    trainer = quiet(
        devices=devices,
        strategy=strategy,
        max_epochs=4,
        callbacks=[dt.BackboneFinetuning(2), Same(), *callbacks],
    )
    trainer.fit(module, loader(32, size), **given)
    return module, trainer


@pytest.mark.parametrize("strategy", ["ddp", "zero1"])
def test_two_ranks_train_what_one_does_and_resume_it(tmp_path: Path, strategy: str) -> None:
    path = tmp_path / "a.ckpt"
    module, trainer = run(2, strategy, SaveAt(path, 10))
    trainer.save_checkpoint(tmp_path / "whole.ckpt")
    assert not torch.equal(module.backbone[0].weight, Net().backbone[0].weight)
    assert_close(module, run(1, "single")[0])

    _, resumed = run(2, strategy, ckpt_path=path)
    resumed.save_checkpoint(tmp_path / "resumed.ckpt")
    assert not differing(
        *(torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "resumed"))
    )
