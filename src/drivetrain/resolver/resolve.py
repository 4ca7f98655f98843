"""Flags and a machine in, a Plan out, or a PlanError with every conflict and hints that work.

Pure: no torch, no environment, no clock. The machine, the catalogue of facts and the release are
arguments like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import Conflict, Fix, PlanError
from drivetrain.base.loading import Later
from drivetrain.base.origin import UNSET, Origin, Sourced
from drivetrain.base.text import Code
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver.catalogue import Catalogue, group_of
from drivetrain.resolver.collect import FLAGS, collect
from drivetrain.resolver.facts import Facts
from drivetrain.resolver.fill import Draft, fill
from drivetrain.resolver.plan import Plan
from drivetrain.resolver.rules import conflicts

if TYPE_CHECKING:
    from drivetrain.resolver import legacy
else:
    legacy = Later("drivetrain.resolver.legacy")

_MOST_TRIES = 24
_MOST_HINTS = 3


@dataclass(frozen=True)
class Question:
    """What is to be resolved: every input of the pure function."""

    arguments: Mapping[str, Sourced[Any]]
    machine: Machine
    catalogue: Catalogue
    version: str
    caller: str = "Trainer"
    others: Mapping[str, object] = field(default_factory=dict)
    """Arguments of the call that are no flags: written into the new call of an old spelling."""


@dataclass(frozen=True)
class Resolution:
    """A plan, and what it needs that is no data: the user's objects, old arguments of the Trainer."""

    plan: Plan
    objects: Mapping[str, object] = field(default_factory=dict)
    """By kind (accelerator, precision, environment, checkpoint_io, layer_sync): the user's object."""
    trainer_arguments: Mapping[str, object] = field(default_factory=dict)
    """Old arguments of the Trainer in today's names: ``{"enable_checkpointing": False}``."""
    catalogue: Catalogue = field(default_factory=Catalogue, repr=False)
    """The facts in force, those of the user's objects included."""


def resolve(question: Question) -> Resolution:
    """Decide everything, or say everything that is wrong.

    Raises:
        PlanError: the flags describe no run; ``conflicts`` holds all of them, each with the changes
            of flags that were tried on this machine and found to resolve.
    """
    try:
        draft, found = _draft(question)
    except PlanError:
        raise
    except Exception as error:
        raise PlanError((_unreadable(question, error),)) from error
    if found:
        raise PlanError(tuple(_proven(question, draft, found)))
    return Resolution(_frozen(draft), dict(draft.said.objects), dict(draft.said.trainer), draft.catalogue)


def _draft(question: Question) -> tuple[Draft, list[Conflict]]:
    today = {name: source for name, source in question.arguments.items() if name in FLAGS}
    old = {name: source for name, source in question.arguments.items() if name not in FLAGS}
    catalogue = question.catalogue
    variables, caller = question.machine.variables, question.caller
    said = collect(today, old, variables, catalogue, caller, question.version, question.others)
    if said.facts:
        catalogue = _with_objects(catalogue, said.facts)
    draft = fill(said, question.machine, catalogue)
    return draft, conflicts(draft)


def _with_objects(catalogue: Catalogue, facts: list[Facts]) -> Catalogue:
    """Let the facts of the user's own objects count, also where they bear a known name."""
    tables: dict[str, Any] = {}
    for fact in facts:
        group = group_of(fact)
        tables[group] = {**tables.get(group, getattr(catalogue, group)), fact.name: fact}
    return replace(catalogue, **tables)


def _frozen(draft: Draft) -> Plan:
    decided = {
        name: getattr(draft, name)
        for name in (
            "accelerator",
            "num_nodes",
            "strategy",
            "launcher",
            "environment",
            "process_group_backend",
            "precision",
            "checkpoint_io",
            "layer_sync",
        )
    }
    return Plan(
        **{name: source.value for name, source in decided.items()},
        device_ids=draft.devices.value,
        layout=draft.layout,
        sources={"accelerator": draft.accelerator, "devices": draft.devices, **decided},
        notices=tuple(draft.said.notices),
    )


def _proven(question: Question, draft: Draft, found: list[Conflict]) -> Iterator[Conflict]:
    """Keep the fixes that resolve; where only several together do, show them as one."""
    proven = []
    for conflict in found:
        works: list[Fix] = []
        for fix in conflict.fixes:
            if len(works) < _MOST_HINTS and (tried := _working(question, draft, fix)):
                works = _distinct([*works, tried])
        proven.append(replace(conflict, fixes=tuple(works)))
    if len(found) > 1 and not any(conflict.fixes for conflict in proven):
        choices = product(*(conflict.fixes or ({},) for conflict in found))
        merged = (
            _complete({k: v for fix in choice for k, v in fix.items()}, draft)
            for choice in islice(choices, _MOST_TRIES)
        )
        together = next((fix for fix in merged if _resolves(question, fix)), None)
        if together:
            proven[0] = replace(proven[0], fixes=(together,))
    yield from proven


def _working(question: Question, draft: Draft, fix: Fix) -> Fix | None:
    """Return the fix with what has to go along, or as it is; None if neither resolves."""
    return next((one for one in (_complete(fix, draft), fix) if _resolves(question, one)), None)


def _distinct(fixes: list[Fix]) -> list[Fix]:
    """Leave out a fix that only adds to one before it."""
    kept: list[Fix] = []
    for fix in fixes:
        said = {(name, repr(value)) for name, value in fix.items()}
        if not any({(name, repr(value)) for name, value in other.items()} <= said for other in kept):
            kept.append(fix)
    return kept


def _resolves(question: Question, fix: Fix) -> bool:
    if not fix:
        return False
    changed = {name: source for name, source in question.arguments.items() if name not in fix}
    changed |= {
        name: Sourced(value, Origin.ARGUMENT)
        for name, value in fix.items()
        if value is not UNSET and value is not None
    }
    try:
        _, found = _draft(replace(question, arguments=changed))
    except Exception:  # noqa: BLE001 - a hint that cannot even be tried is no hint
        return False
    return not found


def _complete(fix: Fix, draft: Draft) -> Fix:
    """Make a fix of today's flags replace the old spelling, object or alias that said them."""
    said, whole = draft.said, dict(fix)
    for flag in fix:
        typed = said.typed.get(flag, flag)
        if typed in (flag, "plugins") or typed in whole or typed.isupper():
            continue
        whole[typed] = _value(draft, "strategy") if typed == "strategy" else UNSET
    if any(said.typed.get(flag) == "plugins" for flag in fix) and "plugins" not in whole:
        kept = [
            thing for flag, thing in said.objects.items() if said.typed[flag] == "plugins" and flag not in fix
        ]
        whole["plugins"] = kept or UNSET
    for flag, typed in said.typed.items():
        if typed in whole and typed not in (flag, "plugins") and flag not in whole and flag in FLAGS:
            whole[flag] = _value(draft, flag)
    return {
        name: value
        for name, value in whole.items()
        if name in FLAGS or name in legacy.LEGACY or value is UNSET
    }


def _value(draft: Draft, flag: str) -> object:
    if flag == "strategy" and flag not in draft.broken:
        return str(draft.strategy.value)
    return draft.said.objects.get(flag, draft.said.flags[flag].value if flag in draft.said.flags else UNSET)


def _unreadable(question: Question, error: Exception) -> Conflict:
    message = f"an argument raised {type(error).__name__} while it was read: {Code(error)}"
    because = "flags are plain values or objects of the library"
    return Conflict("plan.unreadable", message, dict(question.arguments), because)
