from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from drivetrain import DataError
from drivetrain.data.make import make_feed


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


@pytest.mark.parametrize(
    ("source", "world_size", "code"),
    [
        (DataLoader(Stream()), 2, "data.iterable-ranks"),
        (
            DataLoader(torch.arange(4), sampler=DistributedSampler(torch.arange(4), 2, 0)),
            2,
            "data.distributed-sampler",
        ),
        (DataLoader(torch.arange(4), in_order=False), 1, "data.out-of-order"),
        (5, 1, "data.not-iterable"),
        ({"a": 1}, 1, "data.not-iterable"),
    ],
)
def test_what_cannot_be_shared_out_is_refused(source: Any, world_size: int, code: str) -> None:
    with pytest.raises(DataError) as caught:
        make_feed(source, "the loader", "limit", 1.0, 0, 0, world_size)
    assert caught.value.code == code
