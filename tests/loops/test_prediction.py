from __future__ import annotations

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet


def test_outputs_are_complete_in_order_on_the_cpu_without_a_graph() -> None:
    class Mine(Regression):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return {"y": self(batch[0]), "number": batch_idx}

    module = Mine()
    found = quiet().predict(module, loader(5, 2))
    assert [one["number"] for one in found] == [0, 1, 2]
    with torch.no_grad():
        torch.testing.assert_close(torch.cat([one["y"] for one in found]), module(data(5)[:][0]))
    assert not found[0]["y"].requires_grad
    assert [
        len(one) for one in quiet(limit_predict_batches=1).predict(module, [loader(5, 2), loader(3, 2)])
    ] == [1, 1]


def test_a_step_may_return_a_buffer_that_it_fills_anew() -> None:
    class Refilling(Regression):
        def predict_step(self, batch, batch_idx):
            self.kept = getattr(self, "kept", torch.zeros(1)).fill_(batch_idx)
            return {"kept": self.kept}

    assert [found["kept"].item() for found in quiet().predict(Refilling(), loader())] == list(range(10))


def test_a_module_without_predict_step_and_forward_is_a_clear_error() -> None:
    with pytest.raises(dt.ModuleError, match=r"module.no-step\] Module has neither predict_step nor forward"):
        quiet().predict(dt.Module(), loader())
