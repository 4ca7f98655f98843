from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader, IterableDataset

import drivetrain as dt
from drivetrain.data import CombinedFeed, CombinedLoader, make_feed
from drivetrain.data.combined import flattened, holds_loaders
from tests.data.test_feed import Numbers


def feed(loader: CombinedLoader, rank: int = 0, world_size: int = 1, limit: float = 1.0) -> CombinedFeed:
    parts = [make_feed(one, "x", "limit", 1.0, 0, rank, world_size) for one in loader.flattened]
    return CombinedFeed(loader, parts, ("limit", limit), world_size)


def numbers(count: int, *, shuffle: bool = False) -> DataLoader:
    return DataLoader(Numbers(count), 1, shuffle=shuffle)


def plain(batch: Any) -> Any:
    return None if batch is None else batch.item()


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("min_size", [(0, 0), (1, 1)]),
        ("max_size", [(0, 0), (1, 1), (2, None), (3, None), (4, None)]),
        ("max_size_cycle", [(0, 0), (1, 1), (2, 0), (3, 1), (4, 0)]),
    ],
)
def test_each_mode_ends_where_it_says(mode: str, expected: list) -> None:
    loader = CombinedLoader({"a": numbers(5), "b": numbers(2)}, mode)
    assert len(loader) == len(expected)
    assert [(plain(batch["a"]), plain(batch["b"])) for batch, _, _ in loader] == expected
    for read in (feed(loader).training(0, 0), feed(loader).evaluation()):
        assert [(plain(batch["a"]), plain(batch["b"])) for batch, _ in read] == expected


@given(
    counts=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    world_size=st.integers(1, 4),
    mode=st.sampled_from(["min_size", "max_size", "max_size_cycle"]),
    start=st.integers(0, 2),
)
@settings(max_examples=60, deadline=None)
def test_ranks_together_read_what_one_reads_alone(
    counts: list[int], world_size: int, mode: str, start: int
) -> None:
    loader = CombinedLoader([numbers(count, shuffle=True) for count in counts], mode)
    start = start * world_size if start * world_size < len(loader) else 0
    alone = [[plain(one) for one in batch] for batch, _ in feed(loader).training(3, 0)]
    together: dict[int, Any] = {}
    steps = set()
    for rank in range(world_size):
        count = 0
        for batch, share in feed(loader, rank, world_size).training(3, start):
            count += 1
            if share.size:
                together[share.number] = [plain(one) for one in batch]
        steps.add(count)
    assert len(steps) == 1
    assert [together[number] for number in sorted(together)] == alone[start:]
    assert sorted(together) == list(range(start, len(alone)))


def test_data_that_is_begun_anew_within_an_epoch_has_another_order() -> None:
    loader = CombinedLoader([numbers(40), numbers(20, shuffle=True)], "max_size_cycle")
    read = [plain(batch[1]) for batch, _ in feed(loader).training(0, 0)]
    assert sorted(read[:20]) == sorted(read[20:]) == list(range(20))
    assert read[:20] != read[20:]


def test_a_limit_holds_for_the_whole_and_nesting_is_kept() -> None:
    loader = CombinedLoader({"a": [numbers(5), numbers(4)], "b": (numbers(3),)}, "max_size_cycle")
    found = [batch for batch, _ in feed(loader, limit=2).training(0, 0)]
    assert len(found) == 2
    assert (type(found[0]["a"]), type(found[0]["b"])) == (list, tuple)
    leaves, build = flattened({"a": [numbers(1)], "b": numbers(1)})
    assert len(leaves) == 2
    assert build([1, 2]) == {"a": [1], "b": 2}
    assert not holds_loaders([torch.ones(2), torch.ones(2)])


class Stream(IterableDataset):
    def __iter__(self):
        return iter(torch.arange(3))


def test_lengths_are_needed_but_for_the_shortest() -> None:
    loaders = [DataLoader(Stream(), 1), numbers(5)]
    assert len(list(feed(CombinedLoader(loaders, "min_size")).training(0, 0))) == 3
    with pytest.raises(dt.DataError, match=r"data.combined-length"):
        feed(CombinedLoader(loaders, "max_size"))
    with pytest.raises(dt.DataError, match=r"data.combined-mode"):
        CombinedLoader(loaders, "longest")


class Counting:
    """A sampler whose order depends on how often it was read."""

    epochs = 0

    def __len__(self) -> int:
        return 4

    def __iter__(self):
        self.epochs += 1
        return iter([(self.epochs + index) % 4 for index in range(4)])

    def state_dict(self):
        return {"epochs": self.epochs}

    def load_state_dict(self, state):
        self.epochs = state["epochs"]


def test_the_loaders_own_state_goes_on() -> None:
    def new():
        return feed(CombinedLoader([numbers(4), DataLoader(torch.arange(4), sampler=Counting())], "min_size"))

    whole = new()
    epochs = [[plain(batch[1]) for batch, _ in whole.training(epoch, 0)] for epoch in range(2)]
    resumed = new()
    resumed.load_state_dict(whole.state_dict(is_read=False))
    assert [plain(batch[1]) for batch, _ in resumed.training(1, 2)] == epochs[1][2:]
    assert feed(CombinedLoader([numbers(4), numbers(4)])).state_dict(is_read=True) == {}
