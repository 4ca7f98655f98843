"""Feed: the batches of one rank, each with its share in the step that all ranks take together."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple


class Share(NamedTuple):
    """What one rank's batch is in its step."""

    number: int
    """Its number in the epoch's order of all batches."""
    size: int
    """Its samples; 0 for a stand-in that only keeps the ranks together."""
    weight: float
    """What the loss is multiplied with, so that the ranks' average is the mean over all samples."""
    consumed: int
    """Batches of the epoch that are used up once this step is done, over all ranks."""
    total: int
    """Samples of the step, over all ranks."""


class Feed(ABC):
    """One loader's batches for one rank. The unit that ranks share is the user's own batch.

    Training gives step k the batches kN to kN+N-1 of the epoch's order, rank r the r-th; a rank that
    the last step leaves without one gets a stand-in of weight 0. Evaluation gives batch i to rank
    i % N and invents none.
    """

    length: int | None
    """Batches of the data over all ranks, without the limit; None where nobody knows."""
    num_batches: int | None
    """Batches of an epoch over all ranks, after the limit; None where nobody knows."""
    is_counted: bool = True
    """Whether a share's samples are known; otherwise each batch counts as one."""

    @abstractmethod
    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches of an epoch, from global batch ``start`` on."""

    @abstractmethod
    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, once through."""

    def state_dict(self, *, is_read: bool) -> dict[str, Any]:  # noqa: ARG002 - for those that have state
        """Return what the user's sampler, dataset or loader keeps itself, as its own state_dict says.

        ``is_read``: the epoch was read to its end, so that the next one begins from what is there now.
        """
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - as above
        """Take up what `state_dict` returned, when training goes on."""

    @property
    def indices(self) -> Any:
        """The dataset's indices of the samples in the batch that was given last; None where nobody knows."""
        return None

    @abstractmethod
    def close(self) -> None:
        """End the loader's workers."""


class WrappedFeed(Feed):
    """Another feed whose batches are given on in another way; its state and its workers stay its own."""

    def __init__(self, feed: Feed) -> None:
        self._feed = feed

    @property
    def indices(self) -> Any:
        """The other feed's."""
        return self._feed.indices

    def state_dict(self, *, is_read: bool) -> dict[str, Any]:
        """Return the other feed's."""
        return self._feed.state_dict(is_read=is_read)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Give it to the other feed."""
        self._feed.load_state_dict(state)

    def close(self) -> None:
        """End the other feed's workers."""
        self._feed.close()


class Part(Feed):
    """A feed that can be one of several which are read side by side."""

    @abstractmethod
    def span(self, epoch: int, start: int, stop: int | None, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        """Return this rank's part of the batches ``start`` to ``stop`` of an epoch.

        The data is begun anew, in another order, as often as ``stop`` needs it. With ``deal`` batches are
        dealt out as in evaluation; otherwise ranks stay together as in training.
        """

    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches of an epoch, from global batch ``start`` on."""
        return self.span(epoch, start, self.num_batches, deal=False)

    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, once through, in order."""
        return self.span(0, 0, self.num_batches, deal=True)


class Slice(NamedTuple):
    """Which rank a feed is for, of how many."""

    rank: int = 0
    world_size: int = 1


def share_out(stream: Iterator[Any], sizes: Any, place: Slice, start: int) -> Iterator[tuple[Any, Share]]:
    """Yield this rank's entry of each group of N, weighted by its part of the group's samples."""
    rank, world_size = place
    index = start
    while group := list(itertools.islice(stream, world_size)):
        found = [sizes(entry) for entry in group]
        consumed, total = index + len(group), sum(found)
        if rank < len(group):
            weight = found[rank] * world_size / total if total else 1.0
            yield group[rank], Share(index + rank, found[rank], weight, consumed, total)
        else:
            yield group[0], Share(index, 0, 0.0, consumed, total)
        index = consumed


def dealt(stream: Iterator[Any], sizes: Any, place: Slice) -> Iterator[tuple[Any, Share]]:
    """Yield every N-th entry, none invented."""
    for index, entry in enumerate(stream):
        if index % place.world_size == place.rank:
            size = sizes(entry)
            yield entry, Share(index, size, 1.0, index + 1, size)


def again(epoch: int, cycle: int) -> int:
    """Return an epoch of its own for each time that data is begun anew within one."""
    return epoch + (cycle << 40)


def repeated(begin: Callable[[int], Iterator[Any]], start: int, stop: int | None) -> Iterator[Any]:
    """Return the entries ``start`` to ``stop`` of a stream that is begun anew whenever it ends."""

    def cycles() -> Iterator[Any]:
        for cycle in itertools.count():
            is_empty = True
            for entry in begin(cycle):
                is_empty = False
                yield entry
            if is_empty:
                return

    return itertools.islice(cycles(), start, stop)
