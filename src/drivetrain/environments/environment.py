"""ClusterEnvironment: reads this process's place from what a cluster manager set."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING

from drivetrain.base.errors import LaunchError
from drivetrain.resolver.ranks import Ranks, read_ranks

if TYPE_CHECKING:
    from drivetrain.resolver.facts import EnvironmentFacts

Variables = Mapping[str, str]

_MOST_PORT = 65_535


class ClusterEnvironment(ABC):
    """Who started the ranks. Decides nothing and keeps nothing: variables in, a place out."""

    @property
    @abstractmethod
    def facts(self) -> EnvironmentFacts:
        """What this environment declares about itself."""

    @abstractmethod
    def ranks(self, variables: Variables) -> Ranks:
        """Return where this process stands.

        Raises:
            LaunchError [environment.bad-variables]: variables are missing or contradict each other.
        """

    @abstractmethod
    def main_address(self, variables: Variables) -> str:
        """Return the host of rank 0.

        Raises:
            LaunchError [environment.no-address]: nothing says it.
        """

    @abstractmethod
    def main_port(self, variables: Variables) -> int:
        """Return the port on rank 0's host that the ranks meet at; the same on every rank.

        Raises:
            LaunchError [environment.no-address]: nothing says it.
            LaunchError [environment.bad-variables]: it is no port.
        """


def ranks_of(facts: EnvironmentFacts, variables: Variables) -> Ranks:
    """Read the place from the variables that the facts name.

    Raises:
        LaunchError [environment.bad-variables]: variables are missing or contradict each other.
    """
    try:
        return read_ranks(facts, variables)
    except ValueError as error:
        roles = {name for dialect in facts.dialects for name in dialect.values()}
        raise LaunchError(
            "environment.bad-variables",
            str(error),
            values={name: variables[name] for name in sorted({*roles, *facts.also}) if name in variables},
            because=f"{facts.title or facts.name} tells each process its rank by a complete set of variables",
            hint="start the script with the cluster's launcher, or pass environment='none'",
        ) from error


def given_address(variables: Variables) -> str | None:
    """Return MASTER_ADDR, or None when it is not set or empty."""
    return variables.get("MASTER_ADDR", "").strip() or None


def given_port(variables: Variables) -> int | None:
    """Return MASTER_PORT, or None when it is not set or empty.

    Raises:
        LaunchError [environment.bad-variables]: it is no port.
    """
    text = variables.get("MASTER_PORT", "").strip()
    if not text:
        return None
    if not (text.isdecimal() and 0 < int(text) <= _MOST_PORT):
        raise LaunchError(
            "environment.bad-variables",
            f"MASTER_PORT={text!r} is not a port",
            values={"MASTER_PORT": text},
            because=f"a port is a number from 1 to {_MOST_PORT}",
            hint="set MASTER_PORT to a free port, the same on every rank",
        )
    return int(text)


def no_address(facts: EnvironmentFacts, name: str, because: str, hint: str) -> LaunchError:
    """Return the error for a rank 0 that nothing tells us the host or port of."""
    return LaunchError(
        "environment.no-address",
        f"{facts.title or facts.name} does not say where rank 0 is: {name} is not set",
        values={name: None},
        because=because,
        hint=hint,
    )


def derived_port(job: str, step: str = "") -> int:
    """Return a port that every rank of a job step derives alike, below the ports that systems hand out.

    Units:
        returns: 15000 to 29999.
    """
    number = int("".join(filter(str.isdecimal, job)) or 0)
    offset = int("".join(filter(str.isdecimal, step)) or 0)
    return 15_000 + (number + 101 * offset) % 15_000
