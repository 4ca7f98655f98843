"""The devices asked for can be had."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.text import show
from drivetrain.resolver.choose import is_there, seen
from drivetrain.resolver.fill import MOST_PROCESSES, Draft


def devices_are_there(draft: Draft) -> Iterator[Conflict]:
    """plan.devices-missing: no more and no other devices than the machine has."""
    facts, asked = draft.accelerator_facts, draft.asked
    if facts.counts_processes or not is_there(draft.machine, facts):
        return
    count = min(draft.machine.count(facts.name), facts.most or draft.machine.count(facts.name))
    wanted = asked.count or len(draft.devices.value)
    beyond = [index for index in draft.devices.value if index >= count]
    if wanted <= count and not beyond:
        return
    what = f"devices {beyond}" if asked.indices else f"{wanted} devices"
    said = draft.source("devices")
    shown = {draft.name("devices"): said, draft.name("accelerator"): draft.source("accelerator")}
    inside = [index for index in asked.indices or () if index < count]
    fixes: list[dict[str, object]] = [{"devices": inside}] if inside else []
    fixes += [{"devices": count}, {"accelerator": "cpu", "devices": wanted}, {"devices": "auto"}]
    because = f"this machine has {seen(draft.machine, facts)}" + (
        f", a run uses at most {facts.most}" if facts.most else ""
    )
    yield Conflict("plan.devices-missing", f"{what} asked for, {count} there", shown, because, tuple(fixes))


def processes_are_counted(draft: Draft) -> Iterator[Conflict]:
    """plan.devices-processes: on the CPU devices is a number of processes, not an index and not all."""
    facts, asked = draft.accelerator_facts, draft.asked
    if not facts.counts_processes:
        return
    said = draft.source("devices")
    if asked.indices is not None or asked.is_all:
        count = len(asked.indices) if asked.indices else draft.machine.num_cpus
        message = f"devices={show(said.value)} picks devices, but {facts.name!r} has only processes"
        because = f"on {facts.name!r} devices is the number of processes, 1 or more"
        fixes: tuple[dict[str, object], ...] = ({"devices": count}, {"devices": 1})
    elif asked.count and asked.count > MOST_PROCESSES:
        message = f"{asked.count} processes asked for on one machine"
        because = f"more than {MOST_PROCESSES} processes of one machine's CPU are a slip"
        fixes = ({"devices": draft.machine.num_cpus},)
    else:
        return
    shown = {draft.name("devices"): said, draft.name("accelerator"): draft.source("accelerator")}
    yield Conflict("plan.devices-processes", message, shown, because, fixes)


def devices_are_one_or_all(draft: Draft) -> Iterator[Conflict]:
    """plan.devices-whole: a TPU node is used with one core or with all."""
    facts, count = draft.accelerator_facts, draft.machine.count(draft.accelerator.value)
    wanted = len(draft.devices.value)
    if not facts.whole_or_one or wanted in (1, count) or wanted > count:
        return
    shown = {
        draft.name("devices"): draft.source("devices"),
        draft.name("accelerator"): draft.source("accelerator"),
    }
    message = f"{wanted} of {count} {facts.name} devices asked for"
    because = f"a {facts.name} node is used with one device or with all {count}"
    yield Conflict("plan.devices-whole", message, shown, because, ({"devices": count}, {"devices": 1}))
