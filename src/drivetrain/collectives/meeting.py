"""The store that ranks meet at: serving it, joining it, and knowing who came."""

from __future__ import annotations

import os
import socket
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from drivetrain.base.errors import LaunchError
from drivetrain.base.text import listed

if TYPE_CHECKING:
    from torch.distributed.distributed_c10d import Store

    from drivetrain.collectives.place import Place

_SLOWEST_S = 0.05
_SHOWN = 8


def serve_store(address: str, port: int, timeout_s: float) -> tuple[Store, int]:
    """Open a store that other processes can join, and return it with its port.

    Port 0 takes a free port and holds it, so nobody can take it between choosing and using it. On
    a loopback address the store is reachable from this machine only.

    Raises:
        LaunchError [launch.port-taken]: another process listens on the port.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but torch lists no names

    host = address if address.startswith("127.") else ""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise LaunchError(
            "launch.port-taken",
            f"rank 0 cannot open port {port} for the other ranks to meet at",
            values={"address": address, "port": port, "error": error},
            because="one process listens on a port at a time",
            hint="set MASTER_PORT to a free port on every rank",
        ) from error
    listener.listen(4096)
    port = listener.getsockname()[1]
    # The store takes the descriptor over and closes it.
    store = TCPStore(
        address if host else "127.0.0.1",
        port,
        is_master=True,
        timeout=timedelta(seconds=timeout_s),
        wait_for_workers=False,
        multi_tenant=False,
        master_listen_fd=listener.detach(),
    )
    return store, port


def join_store(place: Place) -> Store:
    """Connect to the store of another process, which may not be there yet.

    Raises:
        LaunchError [launch.rendezvous-timeout]: nothing answered within ``place.timeout_s``.
    """
    from torch.distributed import TCPStore  # type: ignore[attr-defined]  # public, but torch lists no names

    _await_port(place)
    return TCPStore(place.address, place.port, is_master=False, timeout=timedelta(seconds=place.timeout_s))


def meet(place: Place, store: Store) -> None:
    """Return when every rank has come to the store.

    Asks again and again instead of waiting inside torch, so that Ctrl-C and the failure of another
    rank end it at once.

    Collectives:
        every rank must call; a few bytes over the store.
    Raises:
        LaunchError [launch.rendezvous-timeout]: a rank did not come; names who came and who did not.
    """
    ranks = place.ranks
    store.set(f"came/{ranks.rank}", f"{socket.gethostname()}, process {os.getpid()}")
    if store.add("num_came", 1) == ranks.world_size:
        store.set("all_came", "1")
    deadline = time.monotonic() + place.timeout_s
    pause_s = 0.001
    while not store.check(["all_came"]):
        if place.check is not None:
            place.check()
        if time.monotonic() > deadline:
            raise _not_all_came(place, store)
        time.sleep(pause_s)
        pause_s = min(pause_s * 1.5, _SLOWEST_S)


def _await_port(place: Place) -> None:
    """Wait until the port answers; torch's own wait for it cannot be interrupted."""
    deadline = time.monotonic() + place.timeout_s
    while True:
        if place.check is not None:
            place.check()
        try:
            socket.create_connection((place.address, place.port), timeout=5).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise _nothing_answers(place, error) from error
            time.sleep(_SLOWEST_S)
        else:
            return


def _not_all_came(place: Place, store: Store) -> LaunchError:
    world_size = place.ranks.world_size
    came = [rank for rank in range(world_size) if store.check([f"came/{rank}"])]
    hosts = [f"{rank} ({store.get(f'came/{rank}').decode()})" for rank in came[:_SHOWN]]
    away = [rank for rank in range(world_size) if rank not in set(came)]
    return LaunchError(
        "launch.rendezvous-timeout",
        f"{len(away)} of {world_size} ranks did not come within {place.timeout_s:g} s: {_ranks(away)}",
        values={"rank": place.ranks.rank, "address": place.address, "port": place.port},
        because=f"these came: {'; '.join(hosts)}{'; ...' if len(came) > _SHOWN else ''}",
        hint="look at the output of the ranks that did not come; if nobody started them, "
        "pass environment='none' so that this process starts them itself",
    )


def _nothing_answers(place: Place, error: OSError) -> LaunchError:
    return LaunchError(
        "launch.rendezvous-timeout",
        f"rank {place.ranks.rank} found no rank 0 at {place.address}:{place.port} "
        f"within {place.timeout_s:g} s",
        values={
            "address": place.address,
            "port": place.port,
            "world_size": place.ranks.world_size,
            "error": error,
        },
        because="rank 0 opens the port that all ranks meet at",
        hint="check that rank 0 runs, that MASTER_ADDR names its host and that no firewall closes the port; "
        "if nobody started other ranks, pass environment='none'",
    )


def _ranks(ranks: list[int]) -> str:
    return listed(ranks[:_SHOWN]) + (", ..." if len(ranks) > _SHOWN else "")
