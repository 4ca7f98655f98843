from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.optim.swa_utils import update_bn

import drivetrain as dt
from drivetrain.callbacks.batch_norm import refresh_batch_norm
from tests.loops.models import Regression, loader, quiet


class Normed(Regression):
    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.untracked = torch.nn.BatchNorm1d(4, track_running_stats=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.net(self.untracked(self.norm(x)))


class Shy(Normed):
    def training_step(self, batch: Any) -> torch.Tensor:  # takes no batch_idx
        return self.loss(batch)


class ByHand(Normed):
    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


class Refresh(dt.Callback):
    def on_train_end(self, trainer, module):
        self.before = [one.clone() for one in module.parameters()]
        self.metrics = dict(trainer.callback_metrics)
        rng = torch.get_rng_state()
        refresh_batch_norm(trainer, module)
        assert torch.equal(torch.get_rng_state(), rng)
        assert dict(trainer.callback_metrics) == self.metrics


@pytest.mark.parametrize("kind", [Normed, Shy, ByHand])
def test_statistics_are_those_that_torch_computes_over_all_batches(kind: type[Normed]) -> None:
    module, refresh = kind(), Refresh()
    quiet(max_epochs=2, callbacks=[refresh]).fit(module, loader(20))
    found = {name: one.clone() for name, one in module.norm.named_buffers()}
    assert module.norm.momentum == 0.1
    assert all(torch.equal(*pair) for pair in zip(module.parameters(), refresh.before, strict=True))
    update_bn(loader(20), module)
    for name, one in module.norm.named_buffers():
        torch.testing.assert_close(found[name], one)


def test_a_module_without_batch_norm_reads_nothing() -> None:
    class Reads(dt.Callback):
        def on_train_end(self, trainer, module):
            trainer._fitted.training_batches = None  # calling it would fail
            refresh_batch_norm(trainer, module)

    quiet(max_epochs=1, callbacks=[Reads()]).fit(Regression(), loader(8))
