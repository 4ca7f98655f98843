from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from drivetrain.loops.output import read_loss

LOSS = torch.ones((), requires_grad=True) * 2


@pytest.mark.parametrize("output", [LOSS, {"loss": LOSS, "more": 1}, LOSS.reshape(1)])
def test_a_loss_is_read_from_each_form(output) -> None:
    assert read_loss(output, object(), 2).shape == ()


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (torch.ones(()), "a tensor without a gradient"),
        (torch.ones((), dtype=torch.complex64, requires_grad=True) * 2, "a complex loss of torch.complex64"),
        (torch.ones(3, requires_grad=True), r"shape \(3,\)"),
        ({"los": LOSS}, r"a dict with \['los'\]"),
        (1.5, "1.5, a float"),
        (None, "None"),
        ({"loss": None}, "None, a NoneType"),
    ],
)
def test_anything_else_is_an_error_that_says_what_was_received(output, says) -> None:
    with pytest.raises(dt.ModuleError, match=rf"module.step-output\] .* returned .*{says}"):
        read_loss(output, object(), 2)


def test_one_rank_may_leave_a_step_out() -> None:
    assert read_loss(None, object(), 1) is None
