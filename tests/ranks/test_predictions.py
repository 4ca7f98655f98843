"""Each rank writes its own predictions, with the samples' numbers; nothing is gathered that nobody wants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loops.models import Regression, loader, quiet

pytestmark = pytest.mark.ranks


class ByRank(dt.BasePredictionWriter):
    def __init__(self, folder: Path) -> None:
        super().__init__("batch_and_epoch")
        self.folder, self.batches = folder, []

    def setup(self, trainer, module, stage):
        super().setup(trainer, module, stage)
        collectives = trainer.collectives

        def refused(*_: Any) -> Any:
            raise AssertionError

        collectives.gather_object = collectives.all_gather_object = refused

    def write_on_batch_end(
        self, trainer, pl_module, prediction, batch_indices, batch, batch_idx, dataloader_idx
    ):
        self.batches.append(
            (dataloader_idx, batch_idx, (prediction * 10).round().int().tolist(), batch_indices)
        )

    def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
        kept = [[(one * 10).round().int().tolist() for one in part] for part in predictions]
        torch.save((self.batches, kept, batch_indices), self.folder / f"{trainer.global_rank}.pt")


def test_each_rank_writes_what_it_has(tmp_path: Path) -> None:
    trainer = quiet(devices=2, strategy="ddp", launcher="fork", callbacks=[ByRank(tmp_path)])
    loaders = [loader(10, 4), loader(10, 3, shuffle=True), loader(10, 16)]
    assert trainer.predict(Regression(), loaders, return_predictions=False) is None

    found = [torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2)]
    for batches, kept, indices in found:
        assert all(made == numbers for _, _, made, numbers in batches)
        assert kept == indices
        assert len(kept) == 3
    assert [one[2][0] for one in found] == [[[0, 1, 2, 3], [8, 9]], [[4, 5, 6, 7]]]
    assert sorted(number for one in found for batch in one[2][1] for number in batch) == list(range(10))
    assert [one[2][2] for one in found] == [[list(range(10))], []]
    assert sorted(one[:2] for part in found for one in part[0]) == [
        *((0, number) for number in range(3)),
        *((1, number) for number in range(4)),
        (2, 0),
    ]
