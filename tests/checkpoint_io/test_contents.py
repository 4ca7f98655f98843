from __future__ import annotations

import torch

from drivetrain.checkpoint_io.contents import Row, nonfinite, rows


def test_each_entry_is_a_row() -> None:
    tensor = torch.zeros(2, 3, dtype=torch.bfloat16)
    found = [*rows({"a": {"t": tensor, 1: [1, 2]}, "b": [tensor, {}], "long": [0] * 9, "x\n": None})]
    assert found == [
        Row("a.t", "tensor", (2, 3), "bfloat16", 12),
        Row("a.1", "list", (2,), value="[1, 2]"),
        Row("b[0]", "tensor", (2, 3), "bfloat16", 12),
        Row("b[1]", "dict", (0,), value="{}"),
        Row("long", "list", (9,)),
        Row("'x\\n'", "NoneType", value="None"),
    ]


def test_the_first_tensor_that_is_not_finite_is_named() -> None:
    good = [torch.ones(2), torch.ones(1, dtype=torch.int64), torch.eye(2).to_sparse(), torch.ones(1) * 1j]
    good.append(torch.ones(2).to(torch.float8_e5m2))
    assert nonfinite({"good": good, "n": float("inf")}) == ""
    bad = (
        torch.tensor([1.0, torch.nan]),
        torch.tensor([[torch.inf]]).to_sparse(),
        torch.tensor([torch.nan * 1j]),
    )
    for one in bad:
        assert nonfinite({"good": good, "x": [0, {"y": one}]}) == "x[1].y"
