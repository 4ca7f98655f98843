"""Two ranks prune the same weights, also where they draw them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.test_weight_averaging import SaveAt
from tests.loops.models import Regression, differing, loader, quiet

pytestmark = pytest.mark.ranks


class Same(dt.Callback):
    is_last = True

    def on_train_epoch_end(self, trainer, module):
        state = {name: one.clone() for name, one in module.state_dict().items()}
        first, second = trainer.collectives.all_gather_object(state)
        assert "net.0.weight_mask" in first
        assert not differing(first, second)


def run(*callbacks: dt.Callback, ckpt_path: Path | None = None) -> dict[str, Any]:
    torch.manual_seed(1)
    module = Regression()
    pruning = dt.ModelPruning("random_unstructured", amount=0.3, resample_parameters=True)
    trainer = quiet(
        devices=2, strategy="ddp", launcher="fork", max_epochs=3, callbacks=[pruning, Same(), *callbacks]
    )
    trainer.fit(module, loader(40), ckpt_path=ckpt_path)
    return module.state_dict()


def test_all_ranks_have_the_same_masks_and_values(tmp_path: Path) -> None:
    whole = run(SaveAt(tmp_path / "a.ckpt", 8))
    assert sum(int((one == 0).sum()) for one in whole.values()) == 15 + 10 + 7  # of 49, of what is left
    resumed = run(ckpt_path=tmp_path / "a.ckpt")
    assert not differing(whole, resumed)
