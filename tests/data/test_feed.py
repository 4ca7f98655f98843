from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, Dataset, IterableDataset, WeightedRandomSampler

from drivetrain import DataError
from drivetrain.data.feed import Feed, Share
from drivetrain.data.make import make_feed


class Numbers(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count
        self.read: list[int] = []

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> torch.Tensor:
        self.read.append(index)
        return torch.tensor(index)


class Drawing(Numbers):
    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.stack([torch.tensor(float(index)), torch.rand(()), torch.tensor(np.random.rand())])  # noqa: NPY002 - the global one


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def feed(source: Any, rank: int = 0, world_size: int = 1, limit: float = 1.0, seed: int = 0) -> Feed:
    return make_feed(source, "the loader", "limit", limit, seed, rank, world_size)


def joined(source: Any, world_size: int, epoch: int = 0, start: int = 0, limit: float = 1.0) -> list[Any]:
    """Run all ranks and return the real batches in the epoch's order."""
    found: dict[int, Any] = {}
    for rank in range(world_size):
        for batch, share in feed(source, rank, world_size, limit).training(epoch, start):
            if share.size:
                assert share.number not in found
                found[share.number] = batch.tolist()
    assert sorted(found) == list(range(start, start + len(found)))
    return [found[number] for number in sorted(found)]


@given(
    count=st.integers(1, 40),
    size=st.integers(1, 7),
    world_size=st.integers(1, 5),
    shuffle=st.booleans(),
    drop=st.booleans(),
    epoch=st.integers(0, 3),
)
@settings(max_examples=60, deadline=None)
def test_the_order_does_not_depend_on_the_world_size(
    count: int, size: int, world_size: int, shuffle: bool, drop: bool, epoch: int
) -> None:
    loader = DataLoader(Numbers(count), size, shuffle=shuffle, drop_last=drop)
    alone = joined(loader, 1, epoch)
    assert joined(loader, world_size, epoch) == alone
    if not drop:
        assert sorted(index for batch in alone for index in batch) == list(range(count))
    middle = len(alone) // 2
    assert joined(loader, world_size, epoch, start=middle) == alone[middle:]
    plain = [torch.tensor(batch) for batch in alone]
    assert joined(plain, world_size, epoch, start=middle) == alone[middle:]


@given(sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12), world_size=st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_weights_make_the_ranks_average_the_mean_over_samples(sizes: list[int], world_size: int) -> None:
    batches = [torch.full((size,), float(size)) for size in sizes]
    ranks = [list(feed(batches, rank, world_size).training(0, 0)) for rank in range(world_size)]
    assert len({len(steps) for steps in ranks}) == 1
    for step in zip(*ranks, strict=True):
        average = sum(share.weight * batch.mean().item() for batch, share in step) / world_size
        real = torch.cat([batch for batch, share in step if share.size])
        assert average == pytest.approx(real.mean().item())
        assert {share.total for _, share in step} == {len(real)}


def test_epochs_are_shuffled_differently_and_repeatably() -> None:
    loader = DataLoader(Numbers(20), 4, shuffle=True)
    assert joined(loader, 1, 0) == joined(loader, 1, 0)
    assert joined(loader, 1, 0) != joined(loader, 1, 1)
    assert joined(loader, 1, 0) != [batch.tolist() for batch, _ in feed(loader, seed=1).training(0, 0)]


def test_evaluation_gives_each_batch_to_one_rank_and_invents_none() -> None:
    loader = DataLoader(Numbers(5), 2)
    found = {
        share.number: (rank, batch.tolist())
        for rank in range(4)
        for batch, share in feed(loader, rank, 4).evaluation()
    }
    assert found == {0: (0, [0, 1]), 1: (1, [2, 3]), 2: (2, [4])}


def test_no_global_generator_is_disturbed() -> None:
    def states() -> list[Any]:
        return [torch.get_rng_state().tolist(), random.getstate(), np.random.get_state()[1].tolist()]  # noqa: NPY002 - the global one

    before = states()
    source = feed(DataLoader(Numbers(20), 4, shuffle=True))
    list(source.training(0, 2))
    list(source.evaluation())
    list(feed(DataLoader(Stream(), 2)).training(0, 1))
    assert states() == before


def test_seeking_reads_nothing_that_comes_before() -> None:
    numbers = Numbers(100)
    batches = feed(DataLoader(numbers, 10)).training(0, 9)
    next(batches)
    assert numbers.read == list(range(90, 100))


class EvenFirst:
    """A batch sampler with a signature that nobody could guess."""

    made = 0

    def __init__(self, *, secret: str, numbers: range) -> None:
        type(self).made += 1
        self.numbers = numbers

    def __iter__(self) -> Iterator[list[int]]:
        order = [number for number in self.numbers if number % 2 == 0] + [random.choice(self.numbers)]
        yield order[:3]
        yield order[3:]

    def __len__(self) -> int:
        return 2


def test_a_users_batch_sampler_is_iterated_and_never_rebuilt() -> None:
    sampler = EvenFirst(secret="x", numbers=range(8))  # noqa: S106 - not a password
    loader = DataLoader(Numbers(8), batch_sampler=sampler)
    assert joined(loader, 2) == joined(loader, 1)
    assert joined(loader, 1)[0] == [0, 2, 4]
    assert EvenFirst.made == 1
    assert loader.batch_sampler is sampler


def test_a_users_generator_is_a_part_of_the_order_and_keeps_its_state() -> None:
    def weighted(seed: int) -> DataLoader:
        generator = torch.Generator().manual_seed(seed)
        return DataLoader(Numbers(9), 3, sampler=WeightedRandomSampler([1.0] * 9, 9, generator=generator))

    one = weighted(1)
    assert joined(one, 3) == joined(one, 1) == joined(weighted(1), 1)
    assert joined(weighted(2), 1) != joined(one, 1)
    assert one.sampler.generator.initial_seed() == 1


def test_an_endless_sampler_is_read_as_far_as_needed() -> None:
    class Endless:
        def __iter__(self) -> Iterator[int]:
            while True:
                yield int(torch.randint(5, ()))

    loader = DataLoader(Numbers(5), 2, sampler=Endless())
    found = joined(loader, 1, limit=4)
    assert len(found) == 4
    assert joined(loader, 1, limit=4) == found
    assert joined(loader, 2, limit=2) == found
    assert joined(loader, 1, start=2, limit=4) == found[2:]


def test_workers_draw_by_batch_and_not_by_worker() -> None:
    def drawn(
        num_workers: int, rank: int = 0, world_size: int = 1, start: int = 0
    ) -> dict[int, torch.Tensor]:
        loader = DataLoader(Drawing(12), 2, shuffle=True, num_workers=num_workers)
        return {share.number: batch for batch, share in feed(loader, rank, world_size).training(0, start)}

    whole = drawn(2)
    assert len(torch.cat(list(whole.values()))[:, 1].unique()) == 12
    for other in (drawn(1), drawn(2, start=3), drawn(1, rank=1, world_size=2)):
        assert all(torch.equal(batch, whole[number]) for number, batch in other.items())


def test_a_loader_without_batching_and_with_a_worker_init() -> None:
    loader = DataLoader(Numbers(5), batch_size=None, num_workers=1, worker_init_fn=_touch)
    assert [batch.item() for batch, _ in feed(loader, 1, 2).training(0, 0)] == [101, 103, 104]


def _touch(worker: int) -> None:
    dataset = torch.utils.data.get_worker_info().dataset
    original = Numbers.__getitem__
    assert dataset.count == 5
    Numbers.__getitem__ = lambda self, index: original(self, index) + 100


def test_an_iterator_trains_no_epoch_but_is_evaluated_once() -> None:
    with pytest.raises(DataError, match=r"data.one-shot"):
        feed(iter([1])).training(0, 0)
    assert [share for _, share in feed(iter([torch.ones(3)])).evaluation()] == [Share(0, 3, 1.0, 1, 3)]
