"""The ranks can be started in the way that was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.text import listed
from drivetrain.resolver.fill import Draft


def launcher_starts_the_world(draft: Draft) -> Iterator[Conflict]:
    """plan.launcher-world: somebody starts the other ranks."""
    if draft.launcher.value != "none" or draft.world_size == 1:
        return
    shown = {draft.name(flag): draft.source(flag) for flag in ("launcher", "devices", "num_nodes")}
    message = f"launcher 'none' starts nobody, {draft.world_size} ranks are asked for"
    because = "'none' is for one rank; the others must be started by a launcher or by the cluster"
    fixes = ({"launcher": "subprocess"}, {"launcher": "auto"}, {"devices": 1, "num_nodes": 1})
    yield Conflict("plan.launcher-world", message, shown, because, fixes)


def launcher_fits_environment(draft: Draft) -> Iterator[Conflict]:
    """plan.launcher-environment: ranks are started once, by the cluster or by us."""
    facts = draft.catalogue.launchers[draft.launcher.value]
    started = draft.ranks is not None
    shown = {
        draft.name("launcher"): draft.source("launcher"),
        draft.name("environment"): draft.source("environment"),
    }
    if started and facts.starts_processes:
        message = f"launcher {facts.name!r} would start ranks again, {draft.environment.value} started them"
        because = "each process that the cluster started is one rank already"
        fixes: tuple[dict[str, object], ...] = ({"launcher": "external"}, {"environment": "none"})
        yield Conflict("plan.launcher-environment", message, shown, because, fixes)
    elif facts.name == "external" and not started and draft.environment.value == "none":
        message = (
            "launcher 'external' needs ranks that somebody started, and no cluster's variables are complete"
        )
        because = "torchrun, SLURM, MPI, LSF or Kubeflow set variables that tell each process its rank"
        yield Conflict("plan.launcher-environment", message, shown, because, ({"launcher": "auto"},))


def machine_can_fork(draft: Draft) -> Iterator[Conflict]:
    """plan.launcher-fork: a process can be forked, and no device is in use yet."""
    facts = draft.catalogue.launchers[draft.launcher.value]
    if not facts.needs_fork:
        return
    shown = {
        draft.name("launcher"): draft.source("launcher"),
        draft.name("accelerator"): draft.source("accelerator"),
    }
    fixes = ({"launcher": "subprocess"}, {"launcher": "spawn"})
    if not draft.machine.fork:
        because = "this operating system has no fork"
        yield Conflict(
            "plan.launcher-fork", f"launcher {facts.name!r} cannot fork here", shown, because, fixes
        )
    elif facts.name == "fork" and draft.accelerator.value in draft.machine.touched:
        because = f"this process has used {draft.accelerator.value} already, which does not survive a fork"
        yield Conflict(
            "plan.launcher-fork", f"launcher {facts.name!r} cannot fork any more", shown, because, fixes
        )


def launcher_fits_strategy(draft: Draft) -> Iterator[Conflict]:
    """plan.launcher-strategy: torch_xla starts its own ranks, and nobody else's."""
    facts = draft.catalogue.launchers[draft.launcher.value]
    if not draft.launcher.origin.is_said and not draft.is_strategy_at_home:
        return
    shown = {
        draft.name("launcher"): draft.source("launcher"),
        draft.name("strategy"): draft.source("strategy"),
    }
    if facts.accelerators is not None and draft.accelerator.value not in facts.accelerators:
        message = f"launcher {facts.name!r} cannot start ranks on accelerator {draft.accelerator.value!r}"
        shown = {
            draft.name("launcher"): draft.source("launcher"),
            draft.name("accelerator"): draft.source("accelerator"),
        }
        because = f"{facts.name!r} starts ranks on: {listed(sorted(facts.accelerators))}"
        yield Conflict("plan.launcher-strategy", message, shown, because, ({"launcher": "auto"},))
        return
    for member in draft.strategy_facts:
        if member.launchers is not None and facts.name not in member.launchers:
            message = f"strategy {member.name!r} cannot be started by launcher {facts.name!r}"
            because = f"{member.name!r} is started by: {listed(sorted(member.launchers))}"
            yield Conflict("plan.launcher-strategy", message, shown, because, ({"launcher": "auto"},))
