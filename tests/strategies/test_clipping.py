from __future__ import annotations

import pytest
import torch

from drivetrain.strategies.clipping import clip_whole, total_norm


def parameters(dtype: torch.dtype, *values: float) -> list[torch.nn.Parameter]:
    made = [torch.nn.Parameter(torch.zeros(1, dtype=dtype)) for _ in (*values, 0.0)]
    for one, value in zip(made, values, strict=False):
        one.grad = torch.tensor([value], dtype=dtype)
    return made  # the last has no gradient


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_norm_is_over_all_gradients_in_a_format_that_holds_it(dtype: torch.dtype) -> None:
    some = parameters(dtype, 30000.0, 40000.0, 40000.0, 40000.0)
    wanted = torch.cat([one.grad.double() for one in some if one.grad is not None]).norm()
    assert total_norm(some).item() == pytest.approx(wanted.item(), rel=1e-6)
    assert total_norm(some).dtype is (dtype if dtype in (torch.float32, torch.float64) else torch.float32)
    clip_whole(torch.optim.SGD(some, lr=1.0), 2.0, "norm")
    assert {one.grad.dtype for one in some[:-1]} == {dtype}
    assert total_norm(some).item() == pytest.approx(2.0, rel=2e-2)


def test_types_may_be_mixed_and_nothing_has_no_norm() -> None:
    some = parameters(torch.float16, 3.0) + parameters(torch.float32, 4.0)
    assert total_norm(some).item() == 5.0
    assert total_norm([torch.nn.Parameter(torch.zeros(1))]).item() == 0.0
