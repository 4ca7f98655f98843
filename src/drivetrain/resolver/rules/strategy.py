"""The strategy fits the hardware and the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.text import listed
from drivetrain.resolver.choose import is_there
from drivetrain.resolver.fill import Draft
from drivetrain.resolver.fits import strategy_fits
from drivetrain.resolver.spec import StrategySpec


def strategy_runs_on_accelerator(draft: Draft) -> Iterator[Conflict]:
    """plan.strategy-accelerator: the strategy runs on this kind of hardware.

    A strategy that nobody said follows from the number of devices: where those are too many, that is
    the conflict, and this one only its consequence.
    """
    facts = draft.accelerator_facts
    if not draft.strategy.origin.is_said and draft.num_nodes.value == 1 and facts.most == 1:
        return
    for member in draft.strategy_facts:
        if strategy_fits(member, facts):
            continue
        able = [other for other in draft.catalogue.accelerator_order if strategy_fits(member, other)]
        there = [other.name for other in able if is_there(draft.machine, other)]
        fixes: list[dict[str, object]] = [{"accelerator": name} for name in there]
        fixes += [{"accelerator": name, "devices": 1} for name in there]
        fixes += [{"strategy": "auto"}, {"strategy": "auto", "devices": 1}]
        shown = {
            draft.name("strategy"): draft.source("strategy"),
            draft.name("accelerator"): draft.source("accelerator"),
        }
        message = f"strategy {member.name!r} cannot run on accelerator {facts.name!r}"
        because = f"{member.name!r} runs on: {listed(other.name for other in able)}"
        yield Conflict("plan.strategy-accelerator", message, shown, because, tuple(fixes))


_CARRIED_BY = {"nccl": "cuda", "xccl": "xpu", "hccl": "hpu", "xla": "tpu"}
"""Backends that carry collectives on one kind of hardware only."""


def backend_fits(draft: Draft) -> Iterator[Conflict]:
    """plan.process-group-backend: what is to carry collectives can do it on this hardware.

    A name that is not known here may be one that a package registers with torch, so it passes.
    """
    kind = draft.accelerator_facts
    members = draft.strategy.value.members
    for said in (options.get("process_group_backend") for _, options in members):
        if not isinstance(said, str):
            continue
        wanted = _CARRIED_BY.get(said)
        if said.strip() and wanted in (None, kind.name):
            continue
        shown = {draft.name(flag): draft.source(flag) for flag in ("strategy", "accelerator")}
        without = StrategySpec.of(
            tuple(
                (name, {key: one for key, one in options.items() if key != "process_group_backend"})
                for name, options in members
            )
        )
        fixes: list[dict[str, object]] = [{"strategy": str(without)}]
        fixes += [] if wanted is None else [{"accelerator": wanted}]
        message = f"process_group_backend={said!r} on accelerator {kind.name!r}"
        because = (
            f"{said} carries collectives on {wanted} only" if wanted else "a backend has a name, such as gloo"
        )
        yield Conflict("plan.process-group-backend", message, shown, because, tuple(fixes))


def strategy_spans_world(draft: Draft) -> Iterator[Conflict]:
    """plan.strategy-world: a strategy for one device gets one device."""
    members = draft.strategy_facts
    if draft.world_size == 1 or any(member.axes for member in members):
        return
    shown = {draft.name(flag): draft.source(flag) for flag in ("strategy", "devices", "num_nodes")}
    message = f"strategy {draft.strategy.value.name!r} uses one device, {draft.world_size} are asked for"
    because = f"{draft.strategy.value.name!r} has no collectives"
    fixes = (
        {"strategy": "auto"},
        {"devices": 1},
        {"devices": 1, "num_nodes": 1},
        {"environment": "none", "devices": 1},
    )
    yield Conflict("plan.strategy-world", message, shown, because, fixes)


def layers_can_be_synchronised(draft: Draft) -> Iterator[Conflict]:
    """plan.layer-sync: batch norm is synchronised only where the strategy can."""
    if draft.layer_sync.value == "none" or draft.world_size == 1:
        return
    unable = [member.name for member in draft.strategy_facts if not member.has_layer_sync]
    if not unable:
        return
    flag = "sync_batchnorm" if "sync_batchnorm" in draft.said.flags else "layer_sync"
    shown = {draft.name(flag): draft.said.flags[flag], draft.name("strategy"): draft.source("strategy")}
    able = [facts.name for facts in draft.catalogue.strategies.values() if facts.has_layer_sync]
    message = f"strategy {unable[0]!r} cannot synchronise batch norm"
    off = {"sync_batchnorm": False} if flag == "sync_batchnorm" else {"plugins": None}
    yield Conflict(
        "plan.layer-sync", message, shown, f"these can: {listed(able)}", (off, {"strategy": "ddp"})
    )
