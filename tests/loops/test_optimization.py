from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

import drivetrain as dt
from drivetrain.loops.optimization import read_optimizers, step_schedulers

OPTIMIZER = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def read(found):
    return read_optimizers(SimpleNamespace(configure_optimizers=lambda: found))


def test_every_form_is_read() -> None:
    scheduler = StepLR(OPTIMIZER, 1)
    entry = {"scheduler": scheduler, "interval": "step", "frequency": 2}
    for found in (OPTIMIZER, [OPTIMIZER], (OPTIMIZER,), {"optimizer": OPTIMIZER}, ([OPTIMIZER], [])):
        assert read(found) == ([OPTIMIZER], [])
    for found in (([OPTIMIZER], [entry]), {"optimizer": OPTIMIZER, "lr_scheduler": entry}):
        ((optimizer,), (one,)) = read(found)
        assert optimizer is OPTIMIZER
        assert (one.scheduler, one.interval, one.frequency) == (scheduler, "step", 2)
    assert read(([OPTIMIZER], [scheduler]))[1][0].interval == "epoch"


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (None, "module.optimizers"),
        ({"optimiser": OPTIMIZER}, "module.optimizers"),
        ([OPTIMIZER, OPTIMIZER], "module.several-optimizers"),
        (([OPTIMIZER], [{"scheduler": StepLR(OPTIMIZER, 1), "intervall": "step"}]), "module.scheduler"),
        (([OPTIMIZER], [{"scheduler": StepLR(OPTIMIZER, 1), "interval": "batch"}]), "module.scheduler"),
        (([OPTIMIZER], [{"scheduler": StepLR(OPTIMIZER, 1), "frequency": 0}]), "module.scheduler"),
        (([OPTIMIZER], [ReduceLROnPlateau(OPTIMIZER)]), "module.scheduler"),
        (([OPTIMIZER], [{}]), "module.scheduler"),
    ],
)
def test_other_forms_are_refused(found, code) -> None:
    with pytest.raises(dt.ModuleError) as caught:
        read(found)
    assert caught.value.code == code


def test_a_plateau_scheduler_steps_with_what_was_logged() -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    entry = {"scheduler": ReduceLROnPlateau(optimizer, patience=0, factor=0.5), "monitor": "val"}
    _, schedulers = read(([optimizer], [entry]))
    for value in (1.0, 2.0):
        step_schedulers(schedulers, "epoch", 1, lambda value=value: {"val": torch.tensor(value)})
    assert optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(dt.ModuleError, match=r"module.monitor[\s\S]*logged"):
        step_schedulers(schedulers, "epoch", 1, dict)
    schedulers[0].strict = False
    step_schedulers(schedulers, "epoch", 1, dict)
