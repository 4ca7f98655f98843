from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

import drivetrain as dt
from tests.loops.models import Regression, data, loader, quiet


class Writes(dt.BasePredictionWriter):
    """Keeps what it is to write."""

    def __init__(self, write_interval: Any = "batch_and_epoch") -> None:
        super().__init__(write_interval)
        self.batches: list[Any] = []
        self.epochs: list[Any] = []

    def write_on_batch_end(
        self, trainer, pl_module, prediction, batch_indices, batch, batch_idx, dataloader_idx
    ):
        assert torch.equal(prediction, batch[0][:, 0])
        self.batches.append((dataloader_idx, batch_idx, prediction, batch_indices))

    def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
        self.epochs.append((predictions, batch_indices))


def numbers(predictions: torch.Tensor, total: int = 10) -> list[int]:
    """Return the samples that predictions are of: `data` has their numbers in its first column."""
    return (predictions * total).round().int().tolist()


class Backwards:
    """A batch sampler that gives tensors, of unequal lengths."""

    def __iter__(self) -> Any:
        return iter([torch.tensor([9, 8, 7]), torch.tensor([0]), torch.tensor([4, 4])])

    def __len__(self) -> int:
        return 3


@pytest.mark.parametrize(
    ("given", "batches"),
    [
        (loader(10, 4), [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]),
        (loader(10, 4, drop_last=True, num_workers=2), [[0, 1, 2, 3], [4, 5, 6, 7]]),
        (DataLoader(data(10), batch_sampler=Backwards()), [[9, 8, 7], [0], [4, 4]]),
    ],
)
def test_indices_are_the_datasets(given: DataLoader, batches: list[list[int]]) -> None:
    writes = Writes()
    found = quiet(callbacks=[writes]).predict(Regression(), given)
    assert [numbers(one) for one in found] == batches
    assert [one[3] for one in writes.batches] == batches
    assert [one[:2] for one in writes.batches] == [(0, number) for number in range(len(batches))]
    ((predictions, indices),) = writes.epochs
    assert indices == [batches]
    assert all(torch.equal(*pair) for pair in zip(predictions, found, strict=True))


@pytest.mark.parametrize(
    "given",
    [
        loader(10, 3, shuffle=True),
        DataLoader(data(10), sampler=BatchSampler(RandomSampler(data(10)), 4, False), batch_size=None),
    ],
)
def test_indices_of_a_random_order_are_those_of_the_samples(given: DataLoader) -> None:
    writes = Writes("batch")
    quiet(callbacks=[writes]).predict(Regression(), given, return_predictions=False)
    shown = [one[3] if given.batch_size else one[3][0] for one in writes.batches]
    assert shown == [numbers(one[2]) for one in writes.batches]
    assert sorted(number for batch in shown for number in batch) == list(range(10))
    assert writes.epochs == []


class Stream(IterableDataset):
    def __iter__(self) -> Any:
        return iter(data(2))


def test_several_loaders_are_told_apart() -> None:
    loaders = [
        loader(10, 4),
        DataLoader(Stream(), batch_size=2),
        dt.CombinedLoader([loader(10, 2), loader(10, 3)], "max_size"),
    ]

    class Mine(Regression):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return batch[0][0][:, 0] if dataloader_idx == 2 else batch[0][:, 0]

    class OfEpochs(Writes):
        def write_on_batch_end(self, *arguments: Any) -> None:
            """Write nothing."""

    writes = OfEpochs()
    quiet(callbacks=[writes], limit_predict_batches=4).predict(Mine(), loaders, return_predictions=False)
    ((predictions, indices),) = writes.epochs
    assert [len(one) for one in predictions] == [3, 1, 4]
    assert indices == [
        [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]],
        [None],
        [[[0, 1], [0, 1, 2]], [[2, 3], [3, 4, 5]], [[4, 5], [6, 7, 8]], [[6, 7], [9]]],
    ]


class Box:
    """An output that can be followed."""


def test_what_is_not_wanted_is_not_kept() -> None:
    alive: list[int] = []
    made: list[weakref.ref] = []

    class Counts(Regression):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            alive.append(sum(one() is not None for one in made))
            found = Box()
            made.append(weakref.ref(found))
            return found

    trainer = quiet(callbacks=[Writes("batch")])
    trainer.callbacks[0].write_on_batch_end = lambda *_: None
    assert trainer.predict(Counts(), loader(20), return_predictions=False) is None
    assert max(alive) <= 1
    alive.clear()
    assert len(trainer.predict(Counts(), loader(20), return_predictions=True)) == 5
    assert max(alive) == 4
    writes = Writes("epoch")
    assert quiet(callbacks=[writes]).predict(Regression(), loader(10), return_predictions=False) is None
    assert (writes.batches, len(writes.epochs)) == ([], 1)
    assert (writes._predictions, writes._indices) == ([], [])


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*write_interval='step'"):
        Writes("step")

    class Half(dt.BasePredictionWriter):
        def write_on_batch_end(self, *arguments: Any) -> None:
            """Write nothing."""

    quiet(callbacks=[Half()]).predict(Regression(), loader(4))
    for interval in ("epoch", "batch_and_epoch"):
        with pytest.raises(dt.ModuleError, match=r"callback.bad-argument.*Half.*[\s\S]*write_on_epoch_end"):
            quiet(callbacks=[Half(interval)]).predict(Regression(), loader(4))
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument.*return_predictions"):
        quiet().predict(Regression(), loader(4), return_predictions="no")
    with pytest.raises(dt.TrainerError, match=r"trainer.bad-argument.*return_predictions"):
        quiet().predict(Regression(), loader(4), None, "a.ckpt")  # the fourth is not ckpt_path
