"""Several machines without a cluster manager: the user runs the script once on each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from drivetrain.base.errors import LaunchError
from drivetrain.collectives.meeting import serve_store
from drivetrain.collectives.place import Place
from drivetrain.resolver.ranks import Ranks

if TYPE_CHECKING:
    from drivetrain.resolver.plan import Plan

_LAUNCHES = itertools.count(1)
_NODE_RANK = ("DRIVETRAIN_NODE_RANK", "NODE_RANK")
_MOST_PORT = 65_535


@dataclass(frozen=True)
class Node:
    """Which of the plan's machines this is, and where rank 0's machine is."""

    node_rank: int
    num_nodes: int
    num_devices: int
    address: str = "127.0.0.1"
    port: int = 0

    @classmethod
    def of(cls, plan: Plan, variables: Mapping[str, str]) -> Node:
        """Read it from the variables; one machine needs none.

        Raises:
            LaunchError [launch.no-node-rank]: a variable is missing or makes no sense.
        """
        if plan.num_nodes == 1:
            return cls(0, 1, plan.num_devices)
        name = next((name for name in _NODE_RANK if name in variables), _NODE_RANK[0])
        node_rank = _number(plan, variables, name, plan.num_nodes - 1)
        port = _number(plan, variables, "MASTER_PORT", _MOST_PORT)
        address = variables.get("MASTER_ADDR", "").strip()
        if not address:
            raise _missing(plan, "MASTER_ADDR", None)
        return cls(node_rank, plan.num_nodes, plan.num_devices, address, port)

    def ranks(self, local_rank: int) -> Ranks:
        """Return the place of one of this machine's processes."""
        return Ranks(
            rank=self.node_rank * self.num_devices + local_rank,
            local_rank=local_rank,
            node_rank=self.node_rank,
            world_size=self.num_nodes * self.num_devices,
            local_world_size=self.num_devices,
            num_nodes=self.num_nodes,
        )

    def place(self, timeout_s: float) -> Place:
        """Return the caller's place, with a live store where this machine alone takes part.

        With several machines the port is the user's: rank 0 opens it when it connects, and keeps it
        for later launches, which the ranks tell apart by counting.
        """
        place = Place(self.ranks(0), self.address, self.port, timeout_s)
        if self.num_nodes > 1:
            place.serves = self.node_rank == 0
            place.session = f"launch {next(_LAUNCHES)}"
        elif self.num_devices > 1:
            place.store, place.port = serve_store(self.address, 0, timeout_s)
        return place

    def peer_place(self, place: Place, local_rank: int) -> Place:
        """Return the place of another process of this machine in the caller's launch."""
        return Place(self.ranks(local_rank), place.address, place.port, place.timeout_s, place.session)


def _number(plan: Plan, variables: Mapping[str, str], name: str, most: int) -> int:
    text = variables.get(name, "").strip()
    if not (text.isdecimal() and int(text) <= most):
        raise _missing(plan, name, text or None)
    return int(text)


def _missing(plan: Plan, name: str, text: str | None) -> LaunchError:
    return LaunchError(
        "launch.no-node-rank",
        f"num_nodes={plan.num_nodes}, but {name} {'is not set' if text is None else f'is {text!r}'}",
        values={"num_nodes": plan.num_nodes, name: text},
        because="without a cluster manager, each node's script needs DRIVETRAIN_NODE_RANK (0, 1, ...), "
        "MASTER_ADDR (the host of node 0) and MASTER_PORT (a free port on it)",
        hint=f"set all three on each of the {plan.num_nodes} nodes, or start the script with torchrun",
    )
