"""Kubeflow's PyTorchJob: one process a pod."""

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
from drivetrain.resolver.known.environments import kubeflow as known

if TYPE_CHECKING:
    from drivetrain.resolver.facts import EnvironmentFacts
    from drivetrain.resolver.ranks import Ranks

_FACTS = known.FACTS[0]
_BECAUSE = "Kubeflow's PyTorchJob sets MASTER_ADDR and MASTER_PORT in every pod"
_HINT = "set MASTER_ADDR to the host of rank 0 and MASTER_PORT to a free port on it, on every rank"


@final
class KubeflowEnvironment(ClusterEnvironment):
    """Kubeflow: each pod is a node of one rank."""

    @property
    def facts(self) -> EnvironmentFacts:
        """Return the facts of ``kubeflow``."""
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
