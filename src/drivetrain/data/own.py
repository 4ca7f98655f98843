"""Loaders that share themselves out by rank, with ``use_distributed_sampler=False``."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, final

from drivetrain.base.errors import DrivetrainWarning, Notice
from drivetrain.data.feed import Feed, Share, Slice, WrappedFeed


@final
class OwnFeed(WrappedFeed):
    """Every rank reads its own loader to the end; steps are taken together while every rank has a batch.

    Each rank's mean counts alike, whatever its samples. ``agree`` tells whether all ranks say yes; it is
    asked before each step, as nobody else knows when another rank's loader ends.
    """

    def __init__(self, feed: Feed, place: Slice, name: str, agree: Callable[[bool], bool]) -> None:
        super().__init__(feed)
        self._place, self._name, self._agree = place, name, agree
        self.is_counted = feed.is_counted
        # Where every rank has the same length it is known; agreement decides otherwise.
        self.length = self.num_batches = None

    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's own batches until a rank has none.

        Collectives:
            one of ``agree`` before each batch and at the end; every rank must read on alike.
        """
        rank, world_size = self._place
        stream = self._feed.training(epoch, start // world_size)
        while True:
            found = next(stream, None)
            if not self._agree(found is not None):
                if found is not None:
                    self._warn()
                return
            batch, share = found  # type: ignore[misc]  # all ranks have one, so this one has
            yield (
                batch,
                Share(
                    number=share.number * world_size + rank,
                    size=share.size,
                    weight=1.0,
                    consumed=share.consumed * world_size,
                    total=share.size * world_size,
                ),
            )

    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's own batches, all of them."""
        rank, world_size = self._place
        for batch, share in self._feed.evaluation():
            yield batch, share._replace(number=share.number * world_size + rank)

    def _warn(self) -> None:
        text = (
            f"{self._name} has more batches on rank {self._place.rank} than on another, and the epoch ends "
            "with the shortest; give every rank as many, or leave use_distributed_sampler=False out"
        )
        warnings.warn(str(Notice("data.uneven", text)), DrivetrainWarning, stacklevel=2)
