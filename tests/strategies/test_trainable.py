from __future__ import annotations

import torch

from drivetrain.strategies.trainable import Trainable


def test_every_way_of_changing_what_is_trained_is_seen() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Linear(2, 2))
    before = Trainable(module)
    assert not before.has_changed
    module[0].weight.requires_grad_(False)
    assert before.has_changed
    module[0].weight.requires_grad_(True)
    assert not before.has_changed
    module[1].bias = torch.nn.Parameter(torch.zeros(2))
    assert before.has_changed
    again = Trainable(module)
    module.append(torch.nn.Linear(2, 2))
    assert again.has_changed
