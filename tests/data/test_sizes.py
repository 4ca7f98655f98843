from __future__ import annotations

from dataclasses import dataclass

import torch

from drivetrain.data.sizes import batch_size


@dataclass
class Pair:
    name: str
    x: torch.Tensor


def test_the_first_tensor_says_how_many_samples() -> None:
    assert batch_size(torch.zeros(3, 2)) == 3
    assert batch_size(torch.tensor(1.0)) == 1
    assert batch_size({"names": ["a", "b"], "x": [torch.zeros(4)]}) == 4
    assert batch_size(Pair("a", torch.zeros(2))) == 2
    assert batch_size(["a", 1]) == 1
