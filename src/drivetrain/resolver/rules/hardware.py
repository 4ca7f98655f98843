"""What was asked for is there."""

from __future__ import annotations

from collections.abc import Iterator

from drivetrain.base.errors import Conflict
from drivetrain.base.text import listed
from drivetrain.resolver.choose import is_there, seen
from drivetrain.resolver.fill import Draft


def accelerator_is_there(draft: Draft) -> Iterator[Conflict]:
    """plan.accelerator-missing: the accelerator asked for is on this machine."""
    facts = draft.accelerator_facts
    if is_there(draft.machine, facts):
        return
    there = [other.name for other in draft.catalogue.accelerator_order if is_there(draft.machine, other)]
    said = draft.source("accelerator")
    asked = str(said.value)
    message = f"accelerator {asked!r} is not on this machine"
    because = f"this machine has {seen(draft.machine, facts)}; it has: {listed(there)}"
    count = draft.asked.count or len(draft.asked.indices or (0,))
    fixes = (
        {"accelerator": "auto"},
        {"accelerator": "cpu"},
        {"accelerator": "cpu", "devices": count},
        {"accelerator": "cpu", "devices": count, "strategy": "auto"},
    )
    yield Conflict("plan.accelerator-missing", message, {draft.name("accelerator"): said}, because, fixes)
