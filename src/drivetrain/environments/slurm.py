"""SLURM's srun: rank 0 is on the first host of the step."""

from __future__ import annotations

import re
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
from drivetrain.resolver.known.environments import slurm as known

if TYPE_CHECKING:
    from drivetrain.resolver.facts import EnvironmentFacts
    from drivetrain.resolver.ranks import Ranks

_FACTS = known.FACTS[0]
_FIRST = re.compile(r"(?:[^,\[]|\[[^\]]*\])+")
_BRACKET = re.compile(r"\[([^\]]*)\]")


@final
class SLURMEnvironment(ClusterEnvironment):
    """SLURM: one task a rank; address and port follow from the step unless MASTER_* are set."""

    @property
    def facts(self) -> EnvironmentFacts:
        """Return the facts of ``slurm``."""
        return _FACTS

    def ranks(self, variables: Variables) -> Ranks:
        """Return where this process stands."""
        return ranks_of(_FACTS, variables)

    def main_address(self, variables: Variables) -> str:
        """Return MASTER_ADDR, else the first host of the step, else of the job."""
        address = given_address(variables)
        for name in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
            address = address or first_host(variables.get(name, ""))
        if not address:
            raise no_address(
                _FACTS,
                "SLURM_STEP_NODELIST",
                "rank 0 runs on the first host of SLURM_STEP_NODELIST or SLURM_JOB_NODELIST",
                "start the script with srun, or set MASTER_ADDR on every rank",
            )
        return address

    def main_port(self, variables: Variables) -> int:
        """Return MASTER_PORT, else a port derived from the job's and the step's number."""
        given = given_port(variables)
        if given is not None:
            return given
        job = variables.get("SLURM_JOB_ID") or variables.get("SLURM_JOBID")
        if not job:
            raise no_address(
                _FACTS,
                "SLURM_JOB_ID",
                "the port is derived from SLURM_JOB_ID, which every rank shares",
                "start the script with srun, or set MASTER_PORT on every rank",
            )
        return derived_port(job, variables.get("SLURM_STEP_ID", ""))


def first_host(nodelist: str) -> str:
    """Return the first host of SLURM's short form: ``n[003-007,9]-ib,login`` gives ``n003-ib``."""
    found = _FIRST.match(nodelist.strip())
    return _BRACKET.sub(lambda bracket: re.split("[-,]", bracket[1])[0], found[0]) if found else ""
