from __future__ import annotations

import pytest
import torch
from torch import nn

import drivetrain as dt
from drivetrain.strategies.units import units_of


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.out = nn.Linear(4, 4)


class Wide(Block):
    """A class derived from one that is named."""


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 4)
        self.blocks = nn.ModuleList([Block(), Wide()])
        self.tail = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 5))


def names(module: nn.Module, *how) -> list[str]:
    known = {id(part): name for name, part in module.named_modules()}
    return [known[id(part)] for part in units_of(module, *how)]


def test_elements_of_lists_are_units_unless_something_else_is_said() -> None:
    assert names(Net(), None, None) == ["tail.0", "blocks.1", "blocks.0"]
    assert names(Net(), ["Block"], None) == ["blocks.1", "blocks.0"]
    assert names(Net(), ["Wide", "Linear"], None) == [
        "tail.2",
        "tail.0.0",
        "blocks.1.out",
        "blocks.1.inner.0",
        "blocks.1",
        "blocks.0.out",
        "blocks.0.inner.0",
    ]  # inner ones first
    assert names(nn.Linear(2, 2), None, None) == []


def test_a_size_takes_the_smallest_modules_that_have_it() -> None:
    assert names(Net(), None, 40) == ["tail", "blocks.1", "blocks.0"]
    assert names(Net(), None, 20) == [
        "tail.0",
        "tail",
        "blocks.1.inner",
        "blocks.1",
        "blocks.0.inner",
        "blocks.0",
    ]
    assert names(Net(), None, 10_000) == []


def test_a_model_may_declare_its_units_itself() -> None:
    net = Net()
    net._no_split_modules = ["Wide", "NotThere"]
    assert names(net, None, None) == ["blocks.1"]
    net._no_split_modules = [Block]
    assert names(net, None, None) == ["blocks.1", "blocks.0"]


def test_what_shares_a_parameter_with_the_outside_is_no_unit() -> None:
    net = Net()
    net.blocks[0].out.weight = net.tail[0][0].weight
    assert names(net, None, None) == ["blocks.1"]
    assert names(net, ["Block"], None) == ["blocks.1"]


def test_a_class_that_is_not_there_is_an_error_with_those_that_are() -> None:
    with pytest.raises(dt.ModuleError, match=r"no module in Net is a Blok\n.*\n.*Block, Embedding, Linear"):
        units_of(Net(), ["Blok"], None)


def test_sizes_do_not_ask_lazy_parameters() -> None:
    assert names(nn.Sequential(nn.Sequential(nn.LazyLinear(3))), None, 1) == []
    assert torch.nn.parameter.is_lazy(nn.LazyLinear(3).weight)
