"""LSF's jsrun: rank 0 is on the first compute host of the job's rank file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, final

from drivetrain.environments.environment import (
    ClusterEnvironment,
    Variables,
    derived_port,
    given_address,
    given_port,
    no_address,
    ranks_of,
)
from drivetrain.resolver.known.environments import lsf as known

if TYPE_CHECKING:
    from drivetrain.resolver.facts import EnvironmentFacts
    from drivetrain.resolver.ranks import Ranks

_FACTS = known.FACTS[0]


@final
class LSFEnvironment(ClusterEnvironment):
    """LSF: address and port follow from the job unless MASTER_* are set."""

    @property
    def facts(self) -> EnvironmentFacts:
        """Return the facts of ``lsf``."""
        return _FACTS

    def ranks(self, variables: Variables) -> Ranks:
        """Return where this process stands."""
        return ranks_of(_FACTS, variables)

    def main_address(self, variables: Variables) -> str:
        """Return MASTER_ADDR, else the first compute host of LSB_DJOB_RANKFILE."""
        address = given_address(variables)
        if address is not None:
            return address
        hosts = _hosts(variables.get("LSB_DJOB_RANKFILE", ""))
        if not hosts:
            raise no_address(
                _FACTS,
                "MASTER_ADDR",
                "rank 0 runs on the first compute host of the file that LSB_DJOB_RANKFILE names, "
                "which names none or cannot be read",
                "start the script with jsrun inside a job, or set MASTER_ADDR on every rank",
            )
        # The file begins with the host that the job's script runs on, which computes nothing.
        return next((host for host in hosts if host != hosts[0]), hosts[0])

    def main_port(self, variables: Variables) -> int:
        """Return MASTER_PORT, else a port derived from the job's number."""
        given = given_port(variables)
        if given is not None:
            return given
        job = variables.get("LSB_JOBID")
        if not job:
            raise no_address(
                _FACTS,
                "LSB_JOBID",
                "the port is derived from LSB_JOBID, which every rank shares",
                "start the script with jsrun inside a job, or set MASTER_PORT on every rank",
            )
        return derived_port(job)


def _hosts(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").split() if path else []
    except OSError:
        return []
