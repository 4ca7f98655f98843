"""Which feed reads a loader, and which loaders none can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from drivetrain.base.errors import DataError
from drivetrain.base.loading import Later
from drivetrain.data.feed import Part, Slice
from drivetrain.data.indexed import IndexedFeed

if TYPE_CHECKING:
    from drivetrain.data import plain
else:
    plain = Later("drivetrain.data.plain")


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
    return plain.PlainFeed(source, name, (limit_name, limit), seed, place)


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
