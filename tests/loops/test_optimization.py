from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

import drivetrain as dt
from drivetrain.events import unused
from drivetrain.loops.optimization import Clipping, read_optimizers, step_schedulers

OPTIMIZER = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)


def read(found):
    module = SimpleNamespace(configure_optimizers=lambda: found, automatic_optimization=True)
    return read_optimizers(module, Clipping(2.0, "value"))


def test_every_form_is_read() -> None:
    scheduler = StepLR(OPTIMIZER, 1)
    entry = {"scheduler": scheduler, "interval": "step", "frequency": 2}
    for found in (OPTIMIZER, [OPTIMIZER], (OPTIMIZER,), {"optimizer": OPTIMIZER}, ([OPTIMIZER], [])):
        assert [one.optimizer for one in read(found).stepped] == [OPTIMIZER]
        assert read(found).schedulers == []
    for found in (([OPTIMIZER], [entry]), {"optimizer": OPTIMIZER, "lr_scheduler": entry}):
        (one,) = read(found).schedulers
        assert (one.scheduler, one.interval, one.frequency) == (scheduler, "step", 2)
    assert read(([OPTIMIZER], [scheduler])).schedulers[0].interval == "epoch"


def test_several_optimizers_have_names_schedules_and_clipping_of_their_own() -> None:
    second = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler = StepLR(second, 1)
    named = {
        "generator": OPTIMIZER,
        "critic": {"optimizer": second, "lr_scheduler": scheduler, "gradient_clip_val": 1},
    }
    found = read(named)
    assert [(one.number, one.name, one.clip_val, one.clip_algorithm) for one in found.stepped] == [
        (0, "generator", 2.0, "value"),
        (1, "critic", 1.0, "value"),
    ]
    assert [one.scheduler for one in found.schedulers] == [scheduler]
    assert [one.name for one in read([OPTIMIZER, {"optimizer": second, "name": "critic"}]).stepped] == [
        "0",
        "critic",
    ]
    assert [one.optimizer for one in read(([OPTIMIZER, second], [scheduler])).stepped] == [OPTIMIZER, second]


@pytest.mark.parametrize(
    ("found", "code"),
    [
        (None, "module.optimizers"),
        ({"optimiser": OPTIMIZER, "lr_scheduler": StepLR(OPTIMIZER, 1)}, "module.optimizers"),
        ([OPTIMIZER, 3], "module.optimizers"),
        ({"optimizer": OPTIMIZER, "lr_schedule": 1}, "module.optimizers"),
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
    schedulers = read(([optimizer], [entry])).schedulers

    class Module:
        lr_scheduler_step = staticmethod(unused(lambda scheduler, metric: None))

    def step(logged: dict) -> None:
        results = SimpleNamespace(metrics=lambda: logged)
        step_schedulers(SimpleNamespace(schedulers=schedulers, module=Module, results=results), "epoch", 1)

    for value in (1.0, 2.0):
        step({"val": torch.tensor(value)})
    assert optimizer.param_groups[0]["lr"] == 0.5
    with pytest.raises(dt.ModuleError, match=r"module.monitor[\s\S]*logged"):
        step({})
    schedulers[0].strict = False
    step({})


def test_a_plateau_scheduler_s_monitor_may_stand_beside_it() -> None:
    scheduler = ReduceLROnPlateau(OPTIMIZER)
    beside = {"optimizer": OPTIMIZER, "lr_scheduler": scheduler, "monitor": "val"}
    (one,) = read(beside).schedulers
    assert (one.scheduler, one.monitor) == (scheduler, "val")
    own = {**beside, "lr_scheduler": {"scheduler": scheduler, "monitor": "own"}}
    assert read(own).schedulers[0].monitor == "own"
