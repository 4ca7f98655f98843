"""Entries whose samples only the rank that fetched them can count: whole batches of ``batch_size=None``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, final

from drivetrain.data.feed import Feed, Share, Slice, WrappedFeed
from drivetrain.data.sizes import batch_size


def counted(feed: Feed, place: Slice, gather: Callable[[int], list[int]]) -> Feed:
    """Return a feed whose shares say how many samples they have: the feed itself where they do already."""
    return feed if feed.is_counted else MeasuredFeed(feed, place, gather)


@final
class MeasuredFeed(WrappedFeed):
    """Another feed, with each batch counted as it comes; ``gather`` tells every rank's count to all."""

    def __init__(self, feed: Feed, place: Slice, gather: Callable[[int], list[int]]) -> None:
        super().__init__(feed)
        self._place, self._gather = place, gather
        self.length, self.num_batches = feed.length, feed.num_batches

    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, each weighted by its part of the step's samples.

        Collectives:
            with several ranks, one of ``gather`` before each step; every rank must read on alike.
        """
        for batch, share in self._feed.training(epoch, start):
            size = batch_size(batch) if share.size else 0
            if self._place.world_size == 1:
                yield batch, share._replace(size=size, total=size)
                continue
            total = sum(self._gather(size))
            weight = size * self._place.world_size / total if total else 1.0
            yield batch, share._replace(size=size, weight=weight, total=total)

    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, once through."""
        for batch, share in self._feed.evaluation():
            size = batch_size(batch)
            yield batch, share._replace(size=size, total=size)
