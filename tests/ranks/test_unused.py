"""Parameters that some steps, or some ranks, do not use."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks


class Branches(Regression):
    """Two parts beside the net; a step uses what it is told to, by rank and step."""

    uses: Any = staticmethod(lambda rank, step: "ab")

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 1), torch.nn.Linear(4, 1)
        self.looked: list[bool] = []

    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = self.loss(batch)
        for name in self.uses(self.trainer.global_rank, batch_idx):
            loss = loss + getattr(self, name)(batch[0]).square().mean()
        self.looked.append(self.trainer.strategy._averaging._step.find_unused_parameters)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.05)


def branches(uses: Any) -> Branches:
    return type("Made", (Branches,), {"uses": staticmethod(uses)})()


def reference(uses: Any) -> dict[str, torch.Tensor]:
    """Train in one process with the mean of what two ranks compute."""
    module = branches(uses)
    optimizer = module.configure_optimizers()
    batches = list(loader(40))
    for step, first in enumerate(range(0, len(batches), 2)):
        optimizer.zero_grad()
        for rank in range(2):
            batch = batches[first + rank]
            loss = module.loss(batch)
            for name in uses(rank, step):
                loss = loss + getattr(module, name)(batch[0]).square().mean()
            (loss / 2).backward()
        optimizer.step()
    return module.state_dict()


def fit(uses: Any, option: str, strategy: str = "ddp") -> Branches:
    module = branches(uses)
    strategy = f"{strategy}(find_unused_parameters={option})"
    quiet(max_epochs=1, devices=2, strategy=strategy).fit(module, loader(40))
    return module


def test_auto_stops_looking_where_everything_is_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", dt.DrivetrainWarning)
        module = fit(lambda rank, step: "ab", "auto")
    assert module.looked == [True, False, False, False, False]
    for name, one in reference(lambda rank, step: "ab").items():
        torch.testing.assert_close(module.state_dict()[name], one, atol=1e-6, rtol=0)


@pytest.mark.parametrize("strategy", ["ddp", "zero1"])
def test_auto_goes_on_looking_and_names_what_is_unused(strategy: str) -> None:
    def uses(rank: int, step: int) -> str:
        return "a" if rank == 0 or step > 1 else ""

    says = "b.weight, b.bias on every rank; a.weight, a.bias on rank 1. From now on"
    with pytest.warns(dt.DrivetrainWarning, match=re.escape(says)) as caught:
        module = fit(uses, "auto", strategy)
    assert len([one for one in caught if "no gradient" in str(one.message)]) == 1
    assert module.looked == [True] * 5
    for name, one in reference(uses).items():
        torch.testing.assert_close(module.state_dict()[name], one, atol=1e-6, rtol=0)


class Unfreezes(Branches):
    """Trains one part from the third step on, and uses the other never."""

    def __init__(self) -> None:
        super().__init__()
        self.b.requires_grad_(requires_grad=False)
        self.a.requires_grad_(requires_grad=False)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        if batch_idx == 2:
            self.b.requires_grad_(requires_grad=True)


def test_auto_looks_again_when_other_parameters_are_trained() -> None:
    module = type("Made", (Unfreezes,), {"uses": staticmethod(lambda rank, step: "a")})()
    with pytest.warns(dt.DrivetrainWarning, match=r"b\.weight, b\.bias on every rank"):
        quiet(max_epochs=1, devices=2, strategy="ddp(find_unused_parameters=auto)").fit(module, loader(40))
    assert module.looked == [True, False, True, True, True]


@pytest.mark.parametrize("option", ["false", "auto"])
def test_what_is_unused_later_is_named_when_torch_notices(option: str) -> None:
    with pytest.raises(
        dt.ModuleError, match=r"unused-parameters.*2 parameters .*the step before: b\.weight, b\.bias"
    ):
        fit(lambda rank, step: "ab" if step < 2 else "a", option)
