"""MPI: Open MPI, MPICH and Intel MPI tell ranks, but not where rank 0 is."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from drivetrain.environments.environment import (
    ClusterEnvironment,
    Variables,
    given_address,
    given_port,
    no_address,
    ranks_of,
)
from drivetrain.resolver.known.environments import mpi as known

if TYPE_CHECKING:
    from drivetrain.resolver.facts import EnvironmentFacts
    from drivetrain.resolver.ranks import Ranks

_FACTS = known.FACTS[0]
_BECAUSE = "mpirun tells each process its rank, but no process where rank 0 is"
_HINT = (
    "pass both on: mpirun -x MASTER_ADDR=<host of rank 0> -x MASTER_PORT=29500 ... "
    "(MPICH, Intel MPI: mpirun -genv MASTER_ADDR <host of rank 0> -genv MASTER_PORT 29500 ...)"
)


@final
class MPIEnvironment(ClusterEnvironment):
    """MPI: MASTER_ADDR and MASTER_PORT have to be passed on by the user."""

    @property
    def facts(self) -> EnvironmentFacts:
        """Return the facts of ``mpi``."""
        return _FACTS

    def ranks(self, variables: Variables) -> Ranks:
        """Return where this process stands."""
        return ranks_of(_FACTS, variables)

    def main_address(self, variables: Variables) -> str:
        """Return MASTER_ADDR."""
        address = given_address(variables)
        if address is None:
            raise no_address(_FACTS, "MASTER_ADDR", _BECAUSE, _HINT)
        return address

    def main_port(self, variables: Variables) -> int:
        """Return MASTER_PORT."""
        port = given_port(variables)
        if port is None:
            raise no_address(_FACTS, "MASTER_PORT", _BECAUSE, _HINT)
        return port
