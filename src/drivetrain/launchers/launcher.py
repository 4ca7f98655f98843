"""Launcher: runs a function on every rank of a plan."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from drivetrain.collectives.place import Place
    from drivetrain.resolver.facts import LauncherFacts
    from drivetrain.resolver.plan import Plan

T = TypeVar("T")

LOADED_BY_OPTIMIZERS = ("torch._dynamo",)
"""What torch loads when a process makes its first optimizer: two seconds, and 70 MiB."""


class Launcher(ABC):
    """Runs a function on every rank of a plan, for the time of one call."""

    ahead: tuple[str, ...] = ()
    """Modules that every rank will load: ranks that are copies of a process find them in it."""

    @property
    @abstractmethod
    def facts(self) -> LauncherFacts:
        """What this launcher declares about itself."""

    @abstractmethod
    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:
        """Run ``body`` once on each rank and return this process's result.

        This process is a rank itself and ``body`` works on its objects, not on copies: rank 0 where
        we start the ranks. When the call returns or raises, no process that it started is left.

        Raises:
            LaunchError [launch.unpicklable]: ``body`` holds what cannot travel to another process.
            LaunchError [launch.no-node-rank]: several nodes, and nothing says which one this is.
            LaunchError [launch.start-failed]: the operating system starts no process.
            RankFailure [rank.failed]: another rank raised, and did so first.
            RankFailure [rank.died]: another rank's process ended without a word.
            RankFailure [rank.left]: some ranks ended their work while others still communicated.
            RankFailure [rank.stuck]: another rank did not end after this one had.
        """
