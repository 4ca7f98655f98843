from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.optim import lr_scheduler as schedulers

from drivetrain.callbacks.param_groups import follow, rates


def parameter() -> torch.nn.Parameter:
    return torch.nn.Parameter(torch.zeros(1))


def optimizer(*lrs: float) -> torch.optim.SGD:
    return torch.optim.SGD([{"params": [parameter()], "lr": lr} for lr in lrs], lr=1.0, momentum=0.5)


MADE = {
    "lambda": lambda one: schedulers.LambdaLR(one, lambda step: 1 / (step + 1)),
    "exponential": lambda one: schedulers.ExponentialLR(one, 0.5),
    "cosine": lambda one: schedulers.CosineAnnealingLR(one, 8),
    "one cycle": lambda one: schedulers.OneCycleLR(one, [g["lr"] for g in one.param_groups], total_steps=9),
    "cyclic": lambda one: schedulers.CyclicLR(
        one, [g["lr"] for g in one.param_groups], [2 * g["lr"] for g in one.param_groups], 3
    ),
    "sequential": lambda one: schedulers.SequentialLR(
        one, [schedulers.LinearLR(one, 0.1, 1.0, 3), schedulers.ExponentialLR(one, 0.9)], [3]
    ),
}


def stepped(one: Any, scheduler: Any, count: int) -> list[list[float]]:
    found = []
    for _ in range(count):
        one.step()
        scheduler.step()
        found.append([float(lr) for lr in rates(one)])
    return found


@pytest.mark.parametrize("name", MADE)
def test_a_group_that_comes_follows_as_if_it_had_been_there(name: str) -> None:
    whole, grown = optimizer(0.4, 0.04), optimizer(0.4)
    expected = stepped(whole, MADE[name](whole), 6)
    scheduler = MADE[name](grown)
    stepped(grown, scheduler, 2)
    before = rates(grown)
    grown.add_param_group({"params": [parameter()], "lr": before[0] / 10})
    follow([SimpleNamespace(scheduler=scheduler)], grown, before)
    assert stepped(grown, scheduler, 4) == [pytest.approx(one) for one in expected[2:]]


def test_a_rate_that_is_set_is_gone_on_from() -> None:
    one, other = optimizer(0.4, 0.2), optimizer(0.4)
    scheduler, untouched = MADE["lambda"](one), MADE["lambda"](other)
    before = rates(one)
    one.param_groups[1]["lr"] = 0.1
    follow([SimpleNamespace(scheduler=scheduler), SimpleNamespace(scheduler=untouched)], one, before)
    assert stepped(one, scheduler, 2) == [pytest.approx([0.2, 0.05]), pytest.approx([0.4 / 3, 0.1 / 3])]
    assert untouched.base_lrs == [0.4]


def test_a_plateau_scheduler_needs_nothing() -> None:
    one = optimizer(0.4)
    scheduler = schedulers.ReduceLROnPlateau(one, patience=0)
    before = rates(one)
    one.add_param_group({"params": [parameter()], "lr": 0.2})
    follow([SimpleNamespace(scheduler=scheduler)], one, before)
    for value in (1.0, 2.0):
        scheduler.step(value)
    assert rates(one) == pytest.approx([0.04, 0.02])
