from __future__ import annotations

import pytest
import torch

from drivetrain.precision import MixedPrecision, Precision, TruePrecision


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)
        self.norm = torch.nn.BatchNorm1d(2)
        self.register_buffer("index", torch.tensor([999]))
        self.register_buffer("scale", torch.tensor([1.0]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


@pytest.mark.parametrize(
    ("precision", "parameters", "result"),
    [
        (TruePrecision("32-true"), torch.float32, torch.float32),
        (TruePrecision("64-true"), torch.float64, torch.float64),
        (MixedPrecision("bf16-mixed"), torch.float32, torch.bfloat16),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_contract(precision: Precision, parameters: torch.dtype, result: torch.dtype) -> None:
    net, optimizer = Net(), torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    precision.convert_module(net)
    assert {one.dtype for one in net.parameters()} == {parameters}
    assert net.index.dtype is torch.int64
    assert net.index.item() == 999

    batch = precision.convert_input({"x": torch.randn(4, 3, dtype=torch.float64), "y": torch.tensor([1])})

    assert batch["y"].dtype is torch.int64
    with precision.forward_context("cpu"):
        assert net.linear(batch["x"]).dtype is result
        loss = net(batch["x"]).float().sum()
    precision.scale_loss(loss).backward()
    assert {one.grad.dtype for one in net.parameters()} == {parameters}
    assert precision.unscale(optimizer) is True
    precision.load_state_dict(precision.state_dict())


def test_mixed_keeps_buffers_and_inputs_of_the_right_type_are_not_copied() -> None:
    net, batch = Net(), [torch.ones(2), torch.tensor([1])]
    MixedPrecision().convert_module(net)
    assert net.scale.dtype is torch.float32
    assert MixedPrecision().convert_input(batch) is batch


@pytest.mark.parametrize(
    "precision", [TruePrecision("32-true"), TruePrecision("64-true"), MixedPrecision("bf16-mixed")]
)
def test_no_buffer_is_rounded(precision: Precision) -> None:
    """999 is no number of bfloat16, nor 16777217 one of float32."""
    net = Net()
    net.register_buffer("counted", torch.tensor([999.0]))
    net.register_buffer("exact", torch.tensor([16777217.0], dtype=torch.float64))
    precision.convert_module(net)
    with precision.forward_context("cpu"):
        net(precision.convert_input(torch.randn(4, 3)))
    assert (net.counted.item(), net.exact.item(), net.index.item()) == (999.0, 16777217.0, 999)


def test_what_autocast_shortened_leaves_as_float32() -> None:
    short, whole = torch.ones(2, dtype=torch.bfloat16), torch.ones(2, dtype=torch.float64)
    found = MixedPrecision().convert_output({"a": [short, torch.tensor([1])], "b": whole})
    assert [one.dtype for one in (*found["a"], found["b"])] == [torch.float32, torch.int64, torch.float64]
    assert TruePrecision("32-true").convert_output(short) is short
