"""Which parameters a backward uses."""

from __future__ import annotations

import torch

from drivetrain.strategies.use import Use, some, told, unused_since


def test_what_got_no_gradient_is_named_and_nothing_is_left_behind() -> None:
    net = torch.nn.ModuleDict({name: torch.nn.Linear(2, 1) for name in "abc"})
    net["c"].requires_grad_(requires_grad=False)
    use = Use(net)
    net["a"](torch.ones(1, 2)).sum().backward()
    assert use.unused() == ["b.weight", "b.bias"]
    assert not any(one._post_accumulate_grad_hooks for one in net["a"].parameters())


def test_ranks_that_use_other_parameters_are_told_apart() -> None:
    assert told([["x", "y"], ["x"]]).endswith("x on every rank; y on rank 0")
    assert told([[], ["z"]]).endswith(": z on rank 1")
    assert some([str(number) for number in range(9)]) == "0, 1, 2, 3, 4, 5, 6, 7, ..."


def test_torchs_indices_become_names() -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 1))
    net[0].bias.requires_grad_(requires_grad=False)
    error = RuntimeError("Parameter indices which did not receive grad for rank 1: 0 2\n In addition")
    assert unused_since(error, net) == ["0.weight", "1.bias"]
    assert unused_since(RuntimeError("something else"), net) == []
