from __future__ import annotations

import torch

import drivetrain as dt


def test_a_backward_of_two_layers_is_counted_and_gradients_are_left_alone() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 1))
    mine = torch.ones(8, 4)
    model[0].weight.grad = mine
    x = torch.zeros(6, 4)
    forward = 2 * 6 * 4 * 8 + 2 * 6 * 8
    assert dt.measure_flops(model, lambda: model(x)) == forward
    # To the weights of both layers, and to the input of the second.
    assert dt.measure_flops(model, lambda: model(x), lambda y: y.sum()) == 2 * forward + 2 * 6 * 8
    assert model[0].weight.grad is mine
    assert torch.equal(mine, torch.ones(8, 4))
    assert model[1].weight.grad is None


def test_on_the_meta_device_nothing_is_computed() -> None:
    with torch.device("meta"):
        model, x = torch.nn.Linear(10_000, 10_000), torch.zeros(1000, 10_000)
    assert dt.measure_flops(model, lambda: model(x)) == 2 * 1000 * 10_000 * 10_000
