"""Feed: the batches of one rank, each with its share in the step that all ranks take together."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, final

import torch
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from drivetrain.base.errors import DataError
from drivetrain.data.limits import limited
from drivetrain.data.seeds import mix, seeded
from drivetrain.data.sizes import batch_size
from drivetrain.data.stream import IndexStream
from drivetrain.data.workers import SeededDataset, Tagged


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
    replays: bool
    """Whether starting in the middle of an epoch has to read what comes before."""

    @abstractmethod
    def training(self, epoch: int, start: int) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches of an epoch, from global batch ``start`` on."""

    @abstractmethod
    def evaluation(self) -> Iterator[tuple[Any, Share]]:
        """Return this rank's batches, once through."""

    @abstractmethod
    def close(self) -> None:
        """End the loader's workers."""


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


def make_feed(
    source: Any,
    name: str,
    limit_name: str,
    limit: float,
    seed: int,
    rank: int = 0,
    world_size: int = 1,
) -> Part:
    """Return the feed of a loader or of any iterable of batches.

    Raises:
        DataError [data.iterable-ranks]: an iterable dataset, which cannot be sliced, with several ranks.
        DataError [data.out-of-order]: a loader with ``in_order=False``.
        DataError [data.distributed-sampler]: a sampler that slices by rank itself.
        DataError [data.not-iterable]: something that gives no batches.
    """
    place = Slice(rank, world_size)
    if isinstance(source, DataLoader):
        _check_loader(source, name, world_size)
        keeps_iteration = type(source).__iter__ is DataLoader.__iter__
        if keeps_iteration and not isinstance(source.dataset, IterableDataset):
            return IndexedFeed(source, (limit_name, limit), seed, place)
    elif not isinstance(source, Iterable) or isinstance(source, (Mapping, str)):
        raise DataError(
            "data.not-iterable",
            f"{name} is a {type(source).__name__}, which gives no batches",
            values={name: source},
            because="a loader is a DataLoader or another iterable of batches, read again each epoch",
            hint="pass a torch.utils.data.DataLoader",
        )
    return PlainFeed(source, name, (limit_name, limit), seed, place)


def _check_loader(loader: DataLoader[Any], name: str, world_size: int) -> None:
    if not getattr(loader, "in_order", True):
        raise DataError(
            "data.out-of-order",
            f"{name} gives batches as its workers finish them",
            values={"in_order": False, "num_workers": loader.num_workers},
            because="a run has one order of the data; without it no run can be repeated or resumed",
            hint="leave in_order=False out of the DataLoader",
        )
    if world_size == 1:
        return
    if isinstance(loader.dataset, IterableDataset):
        raise DataError(
            "data.iterable-ranks",
            f"{name} reads an IterableDataset on {world_size} ranks",
            values={"dataset": type(loader.dataset).__name__, "world_size": world_size},
            because="a stream without indices cannot be shared out, and every rank would read all of it",
            hint="use a map-style dataset (__len__ and __getitem__); if the dataset shares itself out by "
            "rank, pass use_distributed_sampler=False",
        )
    if isinstance(loader.sampler, DistributedSampler):
        raise DataError(
            "data.distributed-sampler",
            f"{name} has a DistributedSampler on {world_size} ranks",
            values={"sampler": type(loader.sampler).__name__, "world_size": world_size},
            because="batches are shared out by the trainer; a sampler that does it too would drop samples",
            hint="pass shuffle=True, or the sampler that you would use on one device; or leave the sharing "
            "to it with use_distributed_sampler=False",
        )


def _share_out(stream: Iterator[Any], sizes: Any, place: Slice, start: int) -> Iterator[tuple[Any, Share]]:
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


def _dealt(stream: Iterator[Any], sizes: Any, place: Slice) -> Iterator[tuple[Any, Share]]:
    """Yield every N-th entry, none invented."""
    for index, entry in enumerate(stream):
        if index % place.world_size == place.rank:
            size = sizes(entry)
            yield entry, Share(index, size, 1.0, index + 1, size)


def _again(epoch: int, cycle: int) -> int:
    """Return an epoch of its own for each time that data is begun anew within one."""
    return epoch + (cycle << 40)


def _repeated(begin: Callable[[int], Iterator[Any]], start: int, stop: int | None) -> Iterator[Any]:
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


@final
class IndexedFeed(Part):
    """A map-style loader: only indices are sliced, so a rank fetches nothing that it does not use.

    The user's loader is not touched; a twin over the same dataset fetches what we pick.
    """

    replays = False

    def __init__(self, loader: DataLoader[Any], limit: tuple[str, float], seed: int, place: Slice) -> None:
        self._stream = IndexStream(loader, seed)
        self._place, self._seed = place, seed
        try:
            total: int | None = len(self._stream)
        except (TypeError, NotImplementedError):
            total = None
        self.length = total
        self.num_batches = limited(*limit, total, place.world_size)
        self._picks = _Picks()
        self._generator = torch.Generator()
        self._tags = loader.num_workers > 0
        self._loader = _twin(loader, self._picks, self._generator, is_batched=self._stream.is_batched)

    def span(self, epoch: int, start: int, stop: int | None, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        """Seek in the epoch's order: nothing that comes before is read."""
        length = self.length
        if length is None or (stop is not None and stop <= length):
            stream = self._stream.epoch(epoch, start, stop)
        else:
            stream = _repeated(lambda cycle: self._stream.epoch(_again(epoch, cycle), 0, None), start, stop)
        if deal:
            return self._fetch(_dealt(stream, self._size, self._place), mix(self._seed, epoch, 1))
        return self._fetch(_share_out(stream, self._size, self._place, start), mix(self._seed, epoch))

    def close(self) -> None:
        """Let the workers go."""
        self._loader._iterator = None  # noqa: SLF001 - torch has no public way to end persistent workers

    def _size(self, indices: Any) -> int:
        return len(indices) if self._stream.is_batched else 1

    def _fetch(self, picked: Iterator[tuple[Any, Share]], seed: int) -> Iterator[tuple[Any, Share]]:
        shares: deque[Share] = deque()
        self._picks.source = self._indices(picked, shares, seed)
        # The loader draws its workers' base seed here: from a generator of ours, not from the user's stream.
        self._generator.manual_seed(seed)
        batches = iter(self._loader)
        return ((batch, shares.popleft()) for batch in batches)

    def _indices(self, picked: Iterator[tuple[Any, Share]], shares: deque[Share], seed: int) -> Iterator[Any]:
        for indices, share in picked:
            shares.append(share)
            yield Tagged(indices, mix(seed, share.number)) if self._tags else indices


@final
class _Picks:
    """The sampler of the twin loader: gives what the feed put into it."""

    def __init__(self) -> None:
        self.source: Iterator[Any] = iter(())

    def __iter__(self) -> Iterator[Any]:
        return self.source


def _twin(
    loader: DataLoader[Any], picks: _Picks, generator: torch.Generator, *, is_batched: bool
) -> DataLoader[Any]:
    kept: dict[str, Any] = {
        "num_workers": loader.num_workers,
        "collate_fn": loader.collate_fn,
        "pin_memory": loader.pin_memory,
        "timeout": loader.timeout,
        "worker_init_fn": loader.worker_init_fn,
    }
    dataset: Any = loader.dataset
    if loader.num_workers:
        dataset = SeededDataset(dataset)
        kept["multiprocessing_context"] = loader.multiprocessing_context
        kept["prefetch_factor"] = loader.prefetch_factor
        kept["persistent_workers"] = loader.persistent_workers
    chosen: dict[str, Any] = (
        {"batch_sampler": picks} if is_batched else {"batch_size": None, "sampler": picks}
    )
    return DataLoader(dataset, generator=generator, **chosen, **kept)


@final
class PlainFeed(Part):
    """Any other iterable of batches: a list, an iterable dataset's loader. Every rank reads all of it."""

    replays = True

    def __init__(
        self, source: Iterable[Any], name: str, limit: tuple[str, float], seed: int, place: Slice
    ) -> None:
        self._source, self._name, self._seed, self._place = source, name, seed, place
        try:
            total: int | None = len(source)  # type: ignore[arg-type]  # what has no length says so
        except (TypeError, NotImplementedError):
            total = None
        self.length = total
        self.num_batches = limited(*limit, total, place.world_size)

    def span(self, epoch: int, start: int, stop: int | None, *, deal: bool) -> Iterator[tuple[Any, Share]]:
        """Read on from global batch ``start``; what comes before is read and thrown away."""
        if isinstance(self._source, Iterator) and not deal:
            raise DataError(
                "data.one-shot",
                f"{self._name} is an iterator, which can be read only once",
                values={self._name: self._source},
                because="every epoch reads the loader from its beginning",
                hint="pass a list, a DataLoader, or an object whose __iter__ starts anew",
            )
        if self.length is None or (stop is not None and stop <= self.length):
            stream: Iterator[Any] = itertools.islice(self._batches(epoch, deal=deal), stop)
            for _ in range(start):
                next(stream, None)
        else:
            stream = _repeated(lambda cycle: self._batches(_again(epoch, cycle), deal=deal), start, stop)
        if deal:
            return _dealt(stream, batch_size, self._place)
        return _share_out(stream, batch_size, self._place, start)

    def close(self) -> None:
        """Do nothing: the source is the user's."""

    def _batches(self, epoch: int, *, deal: bool) -> Iterator[Any]:
        seed = mix(self._seed, epoch, 1) if deal else mix(self._seed, epoch)
        with seeded(seed):  # a DataLoader draws its workers' base seed when it is asked for an iterator
            return iter(self._source)
