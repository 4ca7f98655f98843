from __future__ import annotations

import pytest
import torch

from drivetrain.modules.aside import Deaf, untouched
from drivetrain.modules.run import LogOptions
from tests.loops.models import Regression


def test_a_block_on_the_side_leaves_modes_random_numbers_and_the_recorder():
    module = Regression(dropout=0.5)
    module.net[0].eval()
    state, recorder = torch.get_rng_state(), object()
    module._recorder = recorder

    def fails() -> None:
        with untouched(module):
            assert not module.training
            assert not torch.is_grad_enabled()
            torch.rand(3)
            module.log("a", 1.0)
            raise ArithmeticError

    with pytest.raises(ArithmeticError):
        fails()
    assert module.training
    assert module.net.training
    assert not module.net[0].training
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.is_grad_enabled()
    assert module._recorder is recorder


def test_a_torch_module_has_no_recorder():
    module = torch.nn.Linear(1, 1)
    with untouched(module):
        assert "_recorder" not in vars(module)


def test_what_the_deaf_one_is_told_is_gone():
    deaf = Deaf()
    deaf.log("a", 1.0, LogOptions())
    deaf.noted.append(("a", 1.0, LogOptions()))
    assert deaf.noted == []
