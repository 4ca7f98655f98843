from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from drivetrain import DataError
from drivetrain.data.make import make_feed


class Ending(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        return next(iter([index] if index < 3 else []))


@pytest.mark.parametrize("deal", [True, False])
def test_a_dataset_that_stops_the_iteration_does_not_end_the_epoch(deal: bool) -> None:
    feed = make_feed(DataLoader(Ending()), "the loader", "limit", 1.0, 0)
    with pytest.raises(DataError, match=r"data.ended-early") as caught:
        list(feed.evaluation() if deal else feed.training(0, 0))
    assert caught.value.values["batch"] == 3


def test_a_sampler_that_gives_more_than_it_says_is_refused() -> None:
    class Liar:
        def __len__(self) -> int:
            return 3

        def __iter__(self) -> Iterator[int]:
            return iter(range(4))

    loader = DataLoader(torch.arange(4), sampler=Liar())
    with pytest.raises(DataError, match=r"data.length"):
        list(make_feed(loader, "the loader", "limit", 1.0, 0).training(0, 0))
    limited = make_feed(loader, "the loader", "limit", 2, 0)
    assert len(list(limited.training(0, 0))) == 2


def test_batches_of_indices_may_be_iterators() -> None:
    class Batches:
        def __iter__(self) -> Iterator[Any]:
            return iter([iter([0, 1]), iter([2])])

        def __len__(self) -> int:
            return 2

    feed = make_feed(DataLoader(torch.arange(3), batch_sampler=Batches()), "the loader", "limit", 1.0, 0)
    assert [(batch.tolist(), share.size) for batch, share in feed.training(0, 0)] == [([0, 1], 2), ([2], 1)]


class Counting:
    """A sampler whose order depends on how often it was read."""

    def __init__(self) -> None:
        self.epochs = 0

    def __len__(self) -> int:
        return 4

    def __iter__(self) -> Iterator[int]:
        self.epochs += 1
        return iter([(self.epochs + index) % 4 for index in range(4)])

    def state_dict(self) -> dict[str, int]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.epochs = state["epochs"]


def test_a_samplers_own_state_goes_on_within_and_after_an_epoch() -> None:
    def numbers(feed: Any, epoch: int, start: int) -> list[int]:
        return [batch.item() for batch, _ in feed.training(epoch, start)]

    def new() -> Any:
        return make_feed(DataLoader(torch.arange(4), sampler=Counting()), "the loader", "limit", 1.0, 0)

    whole = new()
    epochs = [numbers(whole, epoch, 0) for epoch in range(2)]
    inside, after = whole.state_dict(is_read=False), whole.state_dict(is_read=True)
    third = numbers(whole, 2, 0)
    assert epochs[0] != epochs[1] != third
    within = new()
    within.load_state_dict(inside)
    assert numbers(within, 1, 2) == epochs[1][2:]
    beyond = new()
    beyond.load_state_dict(after)
    assert numbers(beyond, 2, 0) == third
    assert new().state_dict(is_read=False) == {}
