"""The front door: from a call's arguments to a Plan, with warnings for old spellings."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import cast

from drivetrain._version import __version__
from drivetrain.base.caller import caller as caller_place
from drivetrain.base.errors import Conflict, DrivetrainDeprecationWarning, DrivetrainWarning, PlanError
from drivetrain.base.origin import AUTO, OFF, ONE, Origin, Sourced
from drivetrain.base.text import kind_name, show
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver.catalogue import counted, in_force
from drivetrain.resolver.collect import said_arguments
from drivetrain.resolver.plan import Plan
from drivetrain.resolver.resolve import Question, Resolution, resolve
from drivetrain.resolver.spec import StrategySpec


def plan(
    *,
    accelerator: object = AUTO,
    devices: object = AUTO,
    num_nodes: int | str = ONE,
    strategy: str | StrategySpec = AUTO,
    launcher: str = AUTO,
    environment: object = AUTO,
    precision: object = None,
    plugins: object = None,
    sync_batchnorm: bool | str = OFF,  # type: ignore[assignment]  # OFF equals False and says that nobody said it
    machine: Machine | None = None,
    **legacy: object,
) -> Plan:
    """Decide everything about a run without running it.

    A pure function of its arguments and the machine; equal questions give equal plans.
    Old spellings (``gpus=2``) are translated with a warning that prints the new call.

    Raises:
        PlanError: the flags describe no run; ``.conflicts`` has all problems as data.
    """
    flags = {
        "accelerator": accelerator,
        "devices": devices,
        "num_nodes": num_nodes,
        "strategy": strategy,
        "launcher": launcher,
        "environment": environment,
        "precision": precision,
        "plugins": plugins,
        "sync_batchnorm": sync_batchnorm,
    }
    return plan_for({**flags, **legacy}, caller="plan", machine=machine).plan


def _objects(values: Iterable[object]) -> Iterator[object]:
    """Yield what the user passed, and what lists and strategies among it hold."""
    for value in values:
        yield value
        if issubclass(type(value), (list, tuple)):
            yield from _objects(cast("list[object]", value))
        elif issubclass(type(value), StrategySpec):
            yield from cast("StrategySpec", value).parts.values()


def plan_for(
    flags: Mapping[str, object],
    *,
    caller: str,
    machine: Machine | None = None,
    typed: str = "",
    others: Mapping[str, object] | None = None,
) -> Resolution:
    """Resolve a call's arguments; warn of old spellings at the caller's line.

    ``flags`` holds today's flags and any others that were passed, old or unknown; arguments that
    were not said (None, or a parameter's default) are left out. ``caller`` is written into the
    new call: ``Trainer``, with the call's ``others``, which are no flags. ``typed`` is how an argument is
    typed, if not in a call: ``--{}``.
    """
    place, level = caller_place()
    arguments = said_arguments(flags, typed or f"{caller}({{}})" + (f", {place}" if place else ""))
    catalogue = in_force()
    if machine is None:
        counts = counted(catalogue, _objects(flags.values()))
        machine = Machine.probe().with_devices(counts)
    elif not issubclass(type(machine), Machine):
        source = Sourced[object](machine, Origin.ARGUMENT, f"{caller}(machine=...)")
        because = "machine is a Machine, made by hand or by Machine.probe()"
        message = f"machine={show(machine)} is a {kind_name(machine)}"
        raise PlanError((Conflict("plan.machine-value", message, {"machine": source}, because),))
    resolution = resolve(Question(arguments, machine, catalogue, __version__, caller, others or {}))
    for notice in resolution.plan.notices:
        kind = DrivetrainDeprecationWarning if notice.code == "plan.legacy" else DrivetrainWarning
        warnings.warn(str(notice), kind, stacklevel=level)
    return resolution
