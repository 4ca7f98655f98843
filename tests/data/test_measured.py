from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from drivetrain.data import Slice, counted, make_feed

SIZES = (3, 1, 2)


class Batches(Dataset):
    """A dataset whose entries are whole batches."""

    def __len__(self) -> int:
        return len(SIZES)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((SIZES[index],), float(index))


def _feed(rank: int, world_size: int, gather: Any) -> Any:
    made = make_feed(DataLoader(Batches(), batch_size=None), "the loader", "limit", 1.0, 0, rank, world_size)
    return counted(made, Slice(rank, world_size), gather)


def test_whole_batches_count_their_samples() -> None:
    found = [share for _, share in _feed(0, 1, None).training(0, 0)]
    assert [(share.size, share.total, share.weight) for share in found] == [(3, 3, 1), (1, 1, 1), (2, 2, 1)]
    assert [share.size for _, share in _feed(0, 1, None).evaluation()] == list(SIZES)


def test_ranks_weigh_their_batches_by_everybodys_samples() -> None:
    told = iter([[3, 1], [2, 0], [3, 1], [2, 0]])
    asked: list[int] = []

    def gather(mine: int) -> list[int]:
        asked.append(mine)
        return next(told)

    found = [[share for _, share in _feed(rank, 2, gather).training(0, 0)] for rank in range(2)]
    assert asked == [3, 2, 1, 0]  # the last is a stand-in
    assert [share.weight for share in found[0]] == [1.5, 2.0]
    assert [share.weight for share in found[1]] == [0.5, 0.0]
    assert [share.total for share in found[1]] == [4, 2]


def test_a_loader_of_batches_is_left_as_it_is() -> None:
    made = make_feed(DataLoader(torch.arange(4), batch_size=2), "the loader", "limit", 1.0, 0)
    assert counted(made, Slice(), lambda size: [size]) is made
