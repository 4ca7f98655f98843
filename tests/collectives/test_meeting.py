"""Meeting without other processes: who is missing, what is there already, a world of one."""

from __future__ import annotations

import pickle
import socket
import threading
import time

import pytest
import torch

import drivetrain as dt
from drivetrain.collectives.connect import connect, disconnect, visit
from drivetrain.collectives.meeting import join_store, meet, serve_store
from drivetrain.collectives.place import Place
from drivetrain.resolver.ranks import Ranks

CPU = torch.device("cpu")


def place_of(rank: int, world_size: int, port: int, timeout_s: float = 0.3) -> Place:
    return Place(Ranks(rank, rank, 0, world_size, world_size, 1), port=port, timeout_s=timeout_s)


def test_ranks_that_do_not_come_are_named_with_those_that_did():
    store, port = serve_store("127.0.0.1", 0, 10)
    places = [place_of(rank, 4, port) for rank in range(4)]
    errors = []

    def come(rank: int) -> None:
        try:
            meet(places[rank], store if rank == 0 else join_store(places[rank]))
        except dt.LaunchError as error:
            errors.append(error)

    threads = [threading.Thread(target=come, args=(rank,)) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == 2
    for error in errors:
        assert error.code == "launch.rendezvous-timeout"
        assert "2 of 4 ranks did not come within 0.3 s: 1, 3" in error.message
        assert "0 (" in error.because
        assert "2 (" in error.because
        assert "process " in error.because


def test_a_rank_zero_that_is_not_there_is_named():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = place_of(1, 2, free.getsockname()[1])
    begin = time.monotonic()
    with pytest.raises(dt.LaunchError, match=r"rank 1 found no rank 0 at 127.0.0.1:\d+ within 0.3 s"):
        connect(place, "gloo", CPU)
    assert time.monotonic() - begin < 5


def test_a_broken_launch_ends_the_wait():
    store, port = serve_store("127.0.0.1", 0, 10)
    place = place_of(0, 2, port, timeout_s=60)
    place.store = store

    def check() -> None:
        raise InterruptedError

    place.check = check
    with pytest.raises(InterruptedError):
        connect(place, "gloo", CPU)


def test_a_port_that_is_taken_is_an_error():
    _store, port = serve_store("127.0.0.1", 0, 10)
    with pytest.raises(dt.LaunchError, match=r"\[launch.port-taken\]"):
        serve_store("127.0.0.1", port, 10)


def test_a_place_travels_without_what_lives_here():
    place = place_of(0, 2, 80)
    place.store, place.check = torch.distributed.HashStore(), print
    travelled = pickle.loads(pickle.dumps(place))  # noqa: S301 - our own
    assert travelled == place
    assert (travelled.store, travelled.check) == (None, None)


def test_a_world_of_one_needs_nobody_and_is_left_as_it_was():
    for _ in range(2):
        collectives = connect(Place(Ranks()), "gloo", CPU)
        assert torch.distributed.is_initialized()
        assert collectives.all_gather_object("me") == ["me"]
        disconnect(collectives)
        assert not torch.distributed.is_initialized()
    with visit(Place(Ranks())):
        connect(Place(Ranks()), "gloo", CPU)  # left open
    assert not torch.distributed.is_initialized()


def test_a_group_of_the_script_is_used_if_it_fits_and_stays():
    mine = connect(Place(Ranks()), "gloo", CPU)
    try:
        with visit(Place(Ranks())):
            theirs = connect(Place(Ranks()), "gloo", CPU)
            disconnect(theirs)
        assert torch.distributed.is_initialized()
        with pytest.raises(dt.LaunchError, match=r"\[launch.group-mismatch\]"):
            connect(place_of(0, 2, 80), "gloo", CPU)
    finally:
        disconnect(mine)


def test_one_rank_without_a_group_keeps_the_contract():
    collectives = connect(Place(Ranks()), "none", CPU)
    tensor = torch.tensor([3.0])
    assert (collectives.rank, collectives.world_size) == (0, 1)
    assert collectives.all_reduce(tensor, "mean") is tensor
    assert collectives.broadcast(tensor) is tensor
    gathered = collectives.all_gather(tensor)
    assert gathered == [tensor]
    assert gathered[0] is not tensor
    assert collectives.all_gather_object("a") == collectives.gather_object("a") == ["a"]
    assert collectives.broadcast_object("a") == "a"
    collectives.barrier()
    disconnect(collectives)
    with pytest.raises(dt.CollectiveError, match="integer-mean"):
        collectives.all_reduce(torch.tensor([1]), "mean")
    with pytest.raises(dt.CollectiveError, match="unknown-op"):
        collectives.all_reduce(tensor, "product")
