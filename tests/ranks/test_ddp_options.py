"""Every option of ddp reaches torch and trains, on two ranks in one launch."""

from __future__ import annotations

import functools

import pytest
import torch

import drivetrain as dt
from drivetrain.build import build_launcher, build_strategy
from drivetrain.collectives.place import Place
from drivetrain.resolver.catalogue import in_force
from drivetrain.resolver.plan import Plan

pytestmark = pytest.mark.ranks

OPTIONS = (
    "find_unused_parameters=true",
    "static_graph=true",
    "gradient_as_bucket_view=true",
    "broadcast_buffers=false",
    "bucket_cap_mb=1",
)


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.used, self.unused = torch.nn.Linear(3, 1), torch.nn.Linear(3, 1)

    def loss(self, x: torch.Tensor) -> torch.Tensor:
        return self.used(x).square().mean()


def train(plan: Plan, place: Place) -> tuple[dict[str, object], list[float]]:
    strategy = build_strategy(plan, in_force(), {}, place)
    strategy.open()
    net = Net()
    if not strategy.options.get("find_unused_parameters"):
        del net.unused
    strategy.setup(net, net.loss)
    wrapper = strategy._averaging._step
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        strategy.backward(strategy.training_step(torch.full((2, 3), float(place.ranks.rank + step))))
        optimizer.step()
    seen = {
        "find_unused_parameters": wrapper.find_unused_parameters,
        "static_graph": wrapper.static_graph,
        "gradient_as_bucket_view": wrapper.gradient_as_bucket_view,
        "broadcast_buffers": wrapper.forward_sync_buffers,
        "bucket_cap_mb": wrapper.bucket_bytes_cap // 2**20,
    }
    del wrapper  # it must not outlive its process group, which waits for its threads when it goes
    strategy.teardown(net)
    weights = net.used.weight.detach().flatten().tolist()
    strategy.close()
    return seen, weights


def train_all(plans: list[Plan], place: Place) -> list[tuple[dict[str, object], list[float]]]:
    return [train(plan, place) for plan in plans]


def test_every_option_reaches_torch_and_trains() -> None:
    plans = [dt.plan(accelerator="cpu", devices=2, strategy=f"ddp({option})") for option in OPTIONS]
    launcher = build_launcher(plans[0], in_force(), {})

    found = launcher.launch(plans[0], functools.partial(train_all, plans))

    alone = Net()
    optimizer = torch.optim.SGD(alone.used.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        alone.loss(torch.cat([torch.full((2, 3), float(rank + step)) for rank in range(2)])).backward()
        optimizer.step()
    for plan, (seen, weights) in zip(plans, found, strict=True):
        ((name, value),) = plan.strategy.options.items()
        assert seen[name] == value
        assert weights == pytest.approx(alone.used.weight.flatten().tolist(), abs=1e-6)
