"""A place becomes collectives, and is left again."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from drivetrain.base.errors import LaunchError
from drivetrain.base.loading import Later
from drivetrain.collectives.single import SingleCollectives

if TYPE_CHECKING:
    import torch
    from torch.distributed.distributed_c10d import Store

    from drivetrain.collectives import meeting
    from drivetrain.collectives import torch as over_torch
    from drivetrain.collectives.collectives import Collectives
    from drivetrain.collectives.place import Place
else:
    meeting = Later("drivetrain.collectives.meeting")
    over_torch = Later("drivetrain.collectives.torch")

_STORES: dict[tuple[str, int], Store] = {}
"""Stores at ports that somebody else chose: they live as long as the process, so that a second
launch cannot meet a store that is about to close."""


def connect(place: Place, backend: str, device: torch.device) -> Collectives:
    """Meet the other ranks and return the collectives over all of them.

    A default process group of the right size that is already there is used and left alone.

    Units:
        place.timeout_s: seconds, for the meeting and for each later collective.
    Collectives:
        every rank must call, the same number of times.
    Raises:
        LaunchError [launch.rendezvous-timeout]: a rank did not come; names who came and who did not.
        LaunchError [launch.no-backend]: torch does not have the backend.
        LaunchError [launch.group-mismatch]: a process group of another size is already there.
    """
    import torch
    import torch.distributed as dist

    ranks = place.ranks
    if backend == "none":
        assert ranks.world_size == 1, "a plan without a process group has one rank"  # noqa: S101 - our own bug
        return SingleCollectives()
    if dist.is_initialized():
        if (dist.get_rank(), dist.get_world_size()) != (ranks.rank, ranks.world_size):
            raise _mismatch(place)
        return over_torch.TorchCollectives(device)
    if ":" not in backend and not dist.is_backend_available(backend):
        raise LaunchError(
            "launch.no-backend",
            f"this torch has no process group backend {backend!r}",
            values={"process_group_backend": backend, "torch": torch.__version__},
            because="collectives are carried by a backend that torch was built with, or a package registers",
            hint="leave process_group_backend out of the strategy, or install a torch that has it",
        )
    store = _meeting_point(place)
    try:
        dist.init_process_group(
            backend,
            store=store,
            rank=ranks.rank,
            world_size=ranks.world_size,
            timeout=timedelta(seconds=place.timeout_s),
        )
    except BaseException:
        # torch counts the groups that it names, also those that it could not make; a fresh rank of the next
        # launch counts from 0, and they would wait for each other under two names.
        if not dist.is_initialized():
            dist.distributed_c10d._world.group_count = 0  # noqa: SLF001 - torch resets it in destroy only
        raise
    return over_torch.TorchCollectives(device, owned=True)


def disconnect(collectives: Collectives) -> None:
    """Destroy the process group if `connect` created it; a second call does nothing.

    Never raises for a group whose peers have failed: there is nothing left to say goodbye to.
    """
    import torch.distributed as dist

    if isinstance(collectives, SingleCollectives):
        return
    if not isinstance(collectives, over_torch.TorchCollectives) or not collectives.owned:
        return
    collectives.owned = False
    if dist.is_initialized():
        try:
            dist.destroy_process_group()
        except RuntimeError:
            # The peers are gone; torch has forgotten the group all the same, or forgets it here.
            dist.GroupMember.WORLD = None


@contextmanager
def visit(place: Place) -> Iterator[None]:
    """Give up, at the end, what was opened from the place and not closed: a process group, the store.

    A group that was there before stays. torch's process group replaces ``sys.excepthook``, so that
    every later traceback says ``[rank0]:``; the caller gets back the hook that was there.
    """
    import torch
    import torch.distributed as dist

    was_connected, hook = dist.is_initialized(), sys.excepthook
    try:
        yield
    finally:
        if not was_connected and dist.is_initialized():
            disconnect(over_torch.TorchCollectives(torch.device("cpu"), owned=True))
        place.store = None
        place.check = None
        sys.excepthook = hook


def _meeting_point(place: Place) -> Store:
    """Return the store of this meeting, under a prefix of its own, with every rank present."""
    from torch.distributed import HashStore  # type: ignore[attr-defined]  # public, but torch lists no names
    from torch.distributed.distributed_c10d import PrefixStore

    if place.ranks.world_size == 1:
        return HashStore()
    place.num_meetings += 1
    store = PrefixStore(f"{place.session}/{place.num_meetings}", place.store or _own_store(place))
    meeting.meet(place, store)
    return store


def _own_store(place: Place) -> Store:
    key = (place.address, place.port)
    if key not in _STORES:
        serves = place.serves
        _STORES[key] = meeting.serve_store(*key, place.timeout_s)[0] if serves else meeting.join_store(place)
    return _STORES[key]


def _mismatch(place: Place) -> LaunchError:
    import torch.distributed as dist

    return LaunchError(
        "launch.group-mismatch",
        f"a process group of {dist.get_world_size()} ranks is already there, "
        f"this run has {place.ranks.world_size}",
        values={"group": f"rank {dist.get_rank()} of {dist.get_world_size()}", "run": place.ranks},
        because="torch.distributed has one default process group in a process",
        hint="call torch.distributed.destroy_process_group() first",
    )
