"""No process is started: there is one rank, or somebody else started them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, final

from drivetrain.base.errors import LaunchError
from drivetrain.base.loading import Later
from drivetrain.collectives.connect import visit
from drivetrain.collectives.place import TIMEOUT_S, Place
from drivetrain.launchers.launcher import Launcher
from drivetrain.machine import probe
from drivetrain.resolver.known.launchers import here as known
from drivetrain.resolver.ranks import Ranks

if TYPE_CHECKING:
    from drivetrain.environments.environment import ClusterEnvironment
    from drivetrain.launchers import report as reports
    from drivetrain.resolver.facts import LauncherFacts
    from drivetrain.resolver.plan import Plan
else:
    reports = Later("drivetrain.launchers.report")

T = TypeVar("T")

_LAUNCHES = itertools.count(1)
_FACTS = {facts.name: facts for facts in known.FACTS}


@final
class NoLauncher(Launcher):
    """One rank: this process."""

    def __init__(self, timeout_s: float = TIMEOUT_S) -> None:
        self._timeout_s = timeout_s

    @property
    def facts(self) -> LauncherFacts:
        """Return the facts of launcher ``none``."""
        return _FACTS["none"]

    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:  # noqa: ARG002 - one rank in any plan
        """Call ``body`` as rank 0 of 1."""
        place = Place(Ranks(), timeout_s=self._timeout_s)
        with visit(place):
            return body(place)


@final
class ExternalLauncher(Launcher):
    """torchrun, SLURM, MPI, ... run the script on every rank; this process is one of them.

    A failing rank raises its own exception. Before, it writes one line with its rank and place to
    standard error, since whoever started the ranks prints many tracebacks, in any order.
    """

    def __init__(
        self,
        environment: ClusterEnvironment,
        variables: Mapping[str, str] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._environment = environment
        self._variables = probe.variables() if variables is None else variables
        self._timeout_s = timeout_s

    @property
    def facts(self) -> LauncherFacts:
        """Return the facts of launcher ``external``."""
        return _FACTS["external"]

    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:
        """Call ``body`` as the rank that the environment says that this process is.

        Raises:
            LaunchError [launch.world-mismatch]: the ranks that were started are not those of the plan.
        """
        place = self.place(plan)
        with visit(place):
            try:
                return body(place)
            except BaseException as error:
                report = reports.Report.of(error, place.ranks.rank)
                why = ", as a consequence of another rank's failure" if report.is_consequence else ""
                print(f"drivetrain: {report.headline}{why}", file=sys.stderr, flush=True)  # noqa: T201 - for the log
                raise

    def place(self, plan: Plan) -> Place:
        """Return this process's place, without running anything.

        Raises:
            LaunchError [launch.world-mismatch]: the ranks that were started are not those of the plan.
        """
        environment, variables = self._environment, self._variables
        ranks = environment.ranks(variables)
        if ranks.world_size != plan.world_size:
            raise LaunchError(
                "launch.world-mismatch",
                f"{environment.facts.name} started {ranks.world_size} ranks, the plan has {plan.world_size}",
                values={"started": ranks, "num_devices": plan.num_devices, "num_nodes": plan.num_nodes},
                because="every rank of the plan runs in a process of its own",
                hint="make devices x num_nodes equal to the number of processes that were started",
            )
        place = Place(ranks, timeout_s=self._timeout_s)
        if ranks.world_size > 1:
            place.address, place.port = environment.main_address(variables), environment.main_port(variables)
        # torchrun serves the store itself and keeps it over restarts, with what earlier attempts wrote.
        place.serves = ranks.is_zero and variables.get("TORCHELASTIC_USE_AGENT_STORE") != "True"
        place.session = (
            f"attempt {variables.get('TORCHELASTIC_RESTART_COUNT', '0')}, launch {next(_LAUNCHES)}"
        )
        return place
