from __future__ import annotations

from typing import Any

import pytest
import torch

from drivetrain.base.errors import ModuleError
from drivetrain.precision import MixedPrecision, TruePrecision
from drivetrain.strategies.closure import wants_closure
from drivetrain.strategies.own_steps import OwnSteps, give_back, withhold
from drivetrain.strategies.single import SingleRuntime
from tests.strategies.test_contract import make


def made(scale: float, kind: type[torch.optim.Optimizer] = torch.optim.SGD) -> Any:
    strategy = make(SingleRuntime, MixedPrecision("16-mixed", init_scale=scale, growth_interval=1))
    strategy.open()
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    return strategy, parameter, kind([parameter], lr=0.5)


def test_a_step_sees_true_gradients_or_none() -> None:
    strategy, parameter, optimizer = made(8.0)
    before: list[float] = []
    own = OwnSteps(strategy, lambda _: before.append(parameter.grad.item()))
    handles = own.watch(optimizer)
    assert own.watch(optimizer) == []
    strategy.backward(parameter.sum())
    assert parameter.grad.item() == 8.0
    optimizer.step()
    assert (parameter.item(), parameter.grad.item(), before) == (0.5, 1.0, [1.0])
    assert strategy.precision.scale == 8.0
    own.settle()
    assert strategy.precision.scale == 16.0
    own.settle()
    assert strategy.precision.scale == 16.0

    optimizer.zero_grad()
    strategy.backward(parameter.sum() * torch.inf)
    optimizer.step()
    assert (parameter.item(), parameter.grad.item(), before) == (0.5, torch.inf, [1.0])
    own.settle()
    assert (strategy.precision.scale, strategy.precision.num_left_out) == (8.0, 1)
    for handle in handles:
        handle.remove()
    parameter.grad = torch.tensor([1.0])
    optimizer.step()
    assert parameter.item() == 0.0


@pytest.mark.parametrize(
    "kind", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad]
)
def test_a_step_without_gradients_changes_nothing(kind: type[torch.optim.Optimizer]) -> None:
    _, parameter, optimizer = made(1.0, kind)
    for _ in range(2):
        parameter.grad = torch.tensor([1.0])
        optimizer.step()
        state = {name: one.clone() for name, one in optimizer.state[parameter].items() if one is not None}
        before = parameter.detach().clone()
        kept = withhold(optimizer)
        assert parameter.grad is None
        optimizer.step()
        give_back(kept)
        assert torch.equal(parameter, before)
        assert all(torch.equal(optimizer.state[parameter][name], one) for name, one in state.items())
        assert parameter.grad.item() == 1.0


def test_gradients_that_wait_come_to_the_new_scale() -> None:
    strategy, parameter, optimizer = made(8.0)
    waiting = torch.nn.Parameter(torch.tensor([1.0]))
    own = OwnSteps(strategy)
    own.watch(optimizer)
    own.watch(torch.optim.SGD([waiting], lr=1.0))
    strategy.backward(parameter.sum() + waiting.sum())
    optimizer.step()
    own.settle()
    assert (waiting.grad.item(), parameter.grad.item()) == (16.0, 1.0)


def test_without_a_scale_a_step_is_torchs() -> None:
    strategy = make(SingleRuntime, TruePrecision())
    parameter, called = torch.nn.Parameter(torch.tensor([1.0])), []
    optimizer = torch.optim.LBFGS([parameter])
    own = OwnSteps(strategy, called.append)
    own.watch(optimizer)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    own.settle()
    assert called == [optimizer]
    assert abs(parameter.item()) < 1e-3


def test_who_evaluates_the_loss_itself() -> None:
    parameter = torch.nn.Parameter(torch.tensor([1.0]))
    assert wants_closure(torch.optim.LBFGS([parameter]))
    assert not wants_closure(torch.optim.SGD([parameter], lr=1.0))
    strategy, _, _ = made(1.0)
    with pytest.raises(ModuleError, match=r"module.closure"):
        OwnSteps(strategy).watch(torch.optim.LBFGS([parameter]))
