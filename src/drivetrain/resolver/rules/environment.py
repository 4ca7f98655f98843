"""What the cluster started fits what was asked for."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.origin import Origin, Sourced
from drivetrain.base.text import listed
from drivetrain.resolver.fill import Draft
from drivetrain.resolver.ranks import dialect_of


def ranks_fit_world(draft: Draft) -> Iterator[Conflict]:
    """plan.environment-world: devices x num_nodes is the number of ranks that were started."""
    ranks = draft.ranks
    if ranks is None:
        return
    facts = draft.catalogue.environments[draft.environment.value]
    names = dialect_of(facts, draft.machine.variables) or {}
    nodes_differ = "num_nodes" in names and ranks.num_nodes != draft.num_nodes.value
    if ranks.world_size == draft.world_size and not nodes_differ:
        return
    variable = (
        names["num_nodes"] if nodes_differ and ranks.world_size == draft.world_size else names["world_size"]
    )
    started = Sourced(draft.machine.variables[variable], Origin.VARIABLE, f"set by {facts.title}")
    shown = {draft.name(flag): draft.source(flag) for flag in ("devices", "num_nodes")} | {variable: started}
    product = f"{len(draft.devices.value)} x {draft.num_nodes.value} = {draft.world_size} ranks"
    where = f"{ranks.num_nodes} node{'' if ranks.num_nodes == 1 else 's'}"
    message = f"devices x num_nodes is {product}, but {facts.title} started {ranks.world_size} on {where}"
    because = "each process that the cluster started is one rank"
    fit: dict[str, object] = {"devices": ranks.local_world_size, "num_nodes": ranks.num_nodes}
    fixes = ({"devices": ranks.local_world_size}, fit, {**fit, "strategy": "auto"}, {"environment": "none"})
    yield Conflict("plan.environment-world", message, shown, because, fixes)


def strategy_knows_environment(draft: Draft) -> Iterator[Conflict]:
    """plan.environment-strategy: some strategies run in one environment only."""
    for member in draft.strategy_facts:
        if member.environments is None or draft.environment.value in member.environments or draft.ranks:
            continue
        shown = {
            draft.name("environment"): draft.source("environment"),
            draft.name("strategy"): draft.source("strategy"),
        }
        message = f"strategy {member.name!r} cannot run in environment {draft.environment.value!r}"
        because = f"{member.name!r} runs in: {listed(sorted(member.environments))}"
        yield Conflict("plan.environment-strategy", message, shown, because, ({"environment": "auto"},))


def environment_fits_accelerator(draft: Draft) -> Iterator[Conflict]:
    """plan.environment-accelerator: torch_xla's environment needs its hardware."""
    facts = draft.catalogue.environments[draft.environment.value]
    if facts.accelerators is None or draft.accelerator.value in facts.accelerators:
        return
    if not draft.environment.origin.is_said and not draft.is_strategy_at_home:
        return
    shown = {
        draft.name("environment"): draft.source("environment"),
        draft.name("accelerator"): draft.source("accelerator"),
    }
    message = f"environment {facts.name!r} cannot be used on accelerator {draft.accelerator.value!r}"
    because = f"{facts.name!r} belongs to: {listed(sorted(facts.accelerators))}"
    yield Conflict(
        "plan.environment-accelerator",
        message,
        shown,
        because,
        ({"environment": "auto"}, {"environment": "none"}),
    )
