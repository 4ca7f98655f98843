from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

import drivetrain as dt
from drivetrain.data.stream import IndexStream
from tests.loops.models import Regression, data, loader, quiet

pytestmark = pytest.mark.ranks


class Losses(dt.Callback):
    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.seen.append(float(trainer.callback_metrics["loss"]))


def by_hand(
    module: Regression,
    world_size: int,
    epochs: int,
    *,
    num_samples: int,
    shuffle: bool,
    steps: range | None = None,
) -> list[float]:
    """Train on each step's joint batch in one process, with a loop of torch alone.

    ``steps`` is a part of the epoch's batches; the optimizer of the part before goes on.
    """
    samples, losses = data(num_samples), []
    goes_on = steps is not None and steps.start > 0
    optimizer = OPTIMIZERS[id(module)] if goes_on else torch.optim.AdamW(module.parameters(), lr=0.01)
    OPTIMIZERS[id(module)] = optimizer
    stream = IndexStream(loader(num_samples, shuffle=shuffle), seed=0)
    for epoch in range(epochs):
        batches = list(stream.epoch(epoch, 0, None))
        batches = batches[steps.start : steps.stop] if steps else batches
        for first in range(0, len(batches), world_size):
            joint = [index for batch in batches[first : first + world_size] for index in batch]
            optimizer.zero_grad()
            loss = module.loss(samples[joint])
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    return losses


OPTIMIZERS: dict[int, torch.optim.Optimizer] = {}


def assert_equal(mine: torch.nn.Module, theirs: torch.nn.Module, tolerance: float = 1e-6) -> None:
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=tolerance, rtol=0)


@pytest.mark.parametrize(
    ("world_size", "num_samples", "shuffle"),
    [(2, 39, True), (2, 35, False), (4, 35, True)],
    ids=["shuffled, last batch short", "last step has one batch", "4 ranks, last step has one batch"],
)
def test_ddp_equals_one_process_on_the_joint_batch(world_size: int, num_samples: int, shuffle: bool) -> None:
    losses = Losses()
    trainer = quiet(devices=world_size, strategy="ddp", max_epochs=2, log_every_n_steps=1, callbacks=[losses])
    module = Regression()

    result = trainer.fit(module, loader(num_samples, shuffle=shuffle))

    reference = Regression()
    expected = by_hand(reference, world_size, 2, num_samples=num_samples, shuffle=shuffle)
    assert len(losses.seen) == result.steps == len(expected)
    torch.testing.assert_close(torch.tensor(losses.seen), torch.tensor(expected), atol=1e-6, rtol=0)
    assert_equal(module, reference)
    assert result.samples == 2 * num_samples
    per_epoch = len(expected) // 2
    sizes = [min(4 * world_size, num_samples - 4 * world_size * step) for step in range(per_epoch)]
    mean = sum(size * loss for size, loss in zip(sizes, expected[per_epoch:], strict=True)) / num_samples
    assert result.metrics["loss_epoch"] == pytest.approx(mean, abs=1e-6)


def test_verbs_follow_each_other_and_evaluate_every_sample_once() -> None:
    trainer = quiet(devices=2, strategy="ddp", max_epochs=1)
    module, reference, five = Regression(), Regression(), loader(5, 2)
    for _ in range(2):
        result = trainer.fit(module, loader(39, 4, shuffle=True), five)
        by_hand(reference, 2, 1, num_samples=39, shuffle=True)
        assert_equal(module, reference)
        assert result.steps == trainer.global_step == 5
        found = trainer.test(module, five)
        with torch.no_grad():
            exact = module.loss(data(5)[:]).item()
        assert found[0]["test"] == pytest.approx(exact, abs=1e-7)
        assert result.metrics["val"] == pytest.approx(exact, abs=1e-7)
        assert found[0]["count"] == pytest.approx((2 * 2 + 2 * 2 + 1 * 1) / 5, abs=1e-12)

    predictions = trainer.predict(module, [five, loader(3, 2)])

    assert [len(batch) for batch in predictions[0]] == [2, 2, 1]
    torch.testing.assert_close(torch.cat(predictions[0]), data(5)[:][0][:, 0])
    torch.testing.assert_close(torch.cat(predictions[1]), data(3)[:][0][:, 0])


def test_another_world_size_goes_on_in_the_same_order_and_loses_nothing(tmp_path: Path) -> None:
    alone, module, path = quiet(max_steps=5, log_every_n_steps=1), Regression(), tmp_path / "a.ckpt"
    alone.fit(module, loader(39, shuffle=True))
    alone.save_checkpoint(path)
    losses = Losses()

    together = quiet(devices=2, strategy="ddp", max_epochs=1, log_every_n_steps=1, callbacks=[losses])
    result = together.fit(module, loader(39, shuffle=True), ckpt_path=path)

    reference = Regression()
    first = by_hand(reference, 1, 1, num_samples=39, shuffle=True, steps=range(5))
    then = by_hand(reference, 2, 1, num_samples=39, shuffle=True, steps=range(5, 10))
    assert (result.steps, result.samples) == (8, 39)
    torch.testing.assert_close(torch.tensor(losses.seen), torch.tensor(then), atol=1e-6, rtol=0)
    assert_equal(module, reference)
    mean = (4 * sum(first) + 8 * sum(losses.seen[:2]) + 3 * losses.seen[2]) / 39
    assert result.metrics["loss_epoch"] == pytest.approx(mean, abs=1e-6)


class LogsOnOneRank(Regression):
    def training_step(self, batch: Any, batch_idx: int) -> torch.Tensor:
        loss = super().training_step(batch, batch_idx)
        if self.global_rank == 1 and batch_idx == 2:
            self.log("extra", 1.0)
        return loss


class ValidatesOnOneRank(Regression):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        if self.global_rank == 0:
            self.log("only", 1.0)


def test_a_name_that_one_rank_lacks_is_an_error_that_names_both() -> None:
    with pytest.raises(dt.CollectiveError, match=r"loop.logged-keys.*rank 0 did not log 'extra'"):
        quiet(devices=2, strategy="ddp", max_epochs=1, log_every_n_steps=1).fit(LogsOnOneRank(), loader())
    with pytest.raises(dt.CollectiveError, match=r"rank 1 did not log 'only' in this epoch"):
        quiet(devices=2, strategy="ddp").validate(ValidatesOnOneRank(), loader(8, 2))


class Strided(IterableDataset):
    """Shares itself out by rank, unevenly: rank 0 has one batch more."""

    def __iter__(self):
        rank, world_size = torch.distributed.get_rank(), torch.distributed.get_world_size()
        samples = data(36)
        return (samples[index] for index in range(rank, 32 + 4 * (rank == 0), world_size))


def test_a_stream_that_shares_itself_out_trains_while_every_rank_has_a_batch() -> None:
    module = Regression()
    trainer = quiet(devices=2, strategy="ddp", max_epochs=2, use_distributed_sampler=False)
    with pytest.warns(dt.DrivetrainWarning, match=r"data.uneven"):
        result = trainer.fit(module, DataLoader(Strided(), 4))
    assert (result.steps, result.samples) == (8, 64)
    reference = Regression()
    optimizer, samples = torch.optim.AdamW(reference.parameters(), lr=0.01), data(36)
    for step in [*range(4)] * 2:
        optimizer.zero_grad()
        reference.loss(samples[list(range(8 * step, 8 * step + 8))]).backward()
        optimizer.step()
    assert_equal(module, reference)


class Pairs(Regression):
    def training_step(self, batch, batch_idx):
        return super().training_step(batch["a"], batch_idx) + self.loss(batch["b"])


def test_loaders_side_by_side_are_shared_out_together() -> None:
    alone, module = Pairs(), Pairs()
    loaders = {"a": loader(32), "b": loader(12)}
    quiet(max_epochs=1, accumulate_grad_batches=2).fit(alone, loaders)
    result = quiet(devices=2, strategy="ddp", max_epochs=1).fit(module, loaders)
    assert result.steps == 4
    assert_equal(module, alone)


def test_loaders_one_after_the_other_are_for_evaluation() -> None:
    with pytest.raises(dt.DataError, match=r"data.combined-mode[\s\S]*ConcatDataset"):
        quiet(max_epochs=1).fit(Pairs(), dt.CombinedLoader({"a": loader(8), "b": loader(8)}, "sequential"))
