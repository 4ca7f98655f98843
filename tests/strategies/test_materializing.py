from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.strategies.materializing import fill

CPU = torch.device("cpu")


class Table(torch.nn.Module):
    def __init__(self, *, writes_all: bool = True) -> None:
        super().__init__()
        self.writes_all = writes_all
        self.weight = torch.nn.Parameter(torch.empty(3, 2))
        self.register_buffer("places", torch.arange(4))
        self.register_buffer("is_on", torch.zeros(2, dtype=torch.bool))

    def reset_parameters(self) -> None:
        self.weight.fill_(2.0)
        self.is_on.zero_()
        if self.writes_all:
            self.places.copy_(torch.arange(4))


def test_tensors_without_memory_get_the_values_that_the_module_begins_with() -> None:
    with torch.device("meta"):
        table, norm, linear = Table(), torch.nn.BatchNorm1d(3), torch.nn.Linear(3, 2)
    for module in (table, norm, linear):
        fill(module, CPU)
    assert table.weight.tolist() == [[2.0, 2.0]] * 3
    assert (table.places.tolist(), table.is_on.tolist()) == ([0, 1, 2, 3], [False, False])
    assert (norm.running_var.tolist(), int(norm.num_batches_tracked)) == ([1.0, 1.0, 1.0], 0)
    torch.manual_seed(4)
    fresh = torch.nn.Linear(3, 2)
    with torch.device("meta"):
        linear = torch.nn.Linear(3, 2)
    torch.manual_seed(4)
    fill(linear, CPU)
    assert torch.equal(linear.weight, fresh.weight)


def test_tensors_with_memory_are_left_alone() -> None:
    linear = torch.nn.Linear(3, 2)
    before = linear.weight.clone()
    fill(linear, CPU)
    assert torch.equal(linear.weight, before)
    fill(torch.nn.Tanh(), CPU)


def test_a_tensor_that_nothing_writes_is_an_error() -> None:
    with torch.device("meta"):
        half, none = Table(writes_all=False), torch.nn.Module()
        none.register_parameter("scale", torch.nn.Parameter(torch.ones(2)))
    with pytest.raises(dt.ModuleError, match=r"strategy.no-values\] nothing gives places of a Table values"):
        fill(half, CPU)
    with pytest.raises(dt.ModuleError, match=r"nothing gives scale of a Module values"):
        fill(none, CPU)
