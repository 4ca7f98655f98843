"""Plan -> Strategy, Launcher, environment: the only place where a name becomes an object."""

from __future__ import annotations

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

from drivetrain.accelerators.accelerator import Accelerator
from drivetrain.base.errors import BuildError
from drivetrain.base.text import listed
from drivetrain.checkpoint_io.checkpoint_io import CheckpointIO
from drivetrain.collectives.place import Place
from drivetrain.environments.environment import ClusterEnvironment
from drivetrain.machine import installed, probe
from drivetrain.precision.precision import Precision
from drivetrain.resolver.catalogue import Catalogue
from drivetrain.resolver.plan import Plan
from drivetrain.resolver.ranks import Ranks
from drivetrain.strategies.layer_sync import LayerSync
from drivetrain.strategies.strategy import Parts, Strategy

T = TypeVar("T")


class Launches(Protocol):
    """A launcher, as far as it is used: launchers stand on this floor, so their interface is not imported."""

    ahead: tuple[str, ...]

    def launch(self, plan: Plan, body: Callable[[Place], T]) -> T:
        """Run ``body`` once on each rank and return this process's result."""


_FLAGS = {
    "accelerators": "accelerator",
    "strategies": "strategy",
    "precisions": "precision",
    "launchers": "launcher",
    "environments": "environment",
    "checkpoint_ios": "checkpoint_io",
    "layer_syncs": "sync_batchnorm",
}
"""The flag that chooses from each table of the catalogue."""


def check(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object]) -> None:
    """Refuse a plan that this release or installation cannot run, before anything is started.

    Raises:
        BuildError [build.not-available]: a part that this release does not have yet.
        BuildError [build.package-missing]: a part whose packages are not installed.
    """
    for group, name in _needed(plan).items():
        kind = _FLAGS[group]
        if kind in objects or (kind == "sync_batchnorm" and "layer_sync" in objects):
            continue
        for member in name.split("+"):
            facts = getattr(catalogue, group)[member]
            missing = [
                package for package in getattr(facts, "packages", ()) if installed.version(package) is None
            ]
            if not facts.runtime:
                raise _not_available(plan, catalogue, group, name)
            if missing:
                raise _package_missing(kind, name, missing)
        if "+" in name:
            raise _not_available(plan, catalogue, group, name)
    if "layer_sync" in objects and not isinstance(objects["layer_sync"], LayerSync):
        raise _not_available(plan, catalogue, "layer_syncs", type(objects["layer_sync"]).__name__)


def _needed(plan: Plan) -> dict[str, str]:
    return {
        "accelerators": plan.accelerator,
        "strategies": plan.strategy.name,
        "precisions": plan.precision,
        "launchers": plan.launcher,
        "checkpoint_ios": plan.checkpoint_io,
        **({} if plan.environment == "none" else {"environments": plan.environment}),
        **({} if plan.layer_sync == "none" else {"layer_syncs": plan.layer_sync}),
    }


def build_launcher(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object]) -> Launches:
    """Make what runs a function on every rank of the plan."""
    kind = _load(catalogue.launchers[plan.launcher].runtime)
    timeout = (
        {"timeout_s": float(plan.strategy.options["timeout_s"])}
        if "timeout_s" in plan.strategy.options
        else {}
    )
    needs = inspect.signature(kind).parameters
    given: dict[str, Any] = {}
    if "environment" in needs:
        given["environment"] = build_environment(plan, catalogue, objects)
    if "method" in needs:  # one class serves several of Python's start methods
        given["method"] = plan.launcher
    launcher: Launches = kind(**given, **timeout)
    return launcher


def build_environment(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object]) -> ClusterEnvironment:
    """Make what reads this process's place, or take the user's."""
    found = objects.get("environment") or _load(catalogue.environments[plan.environment].runtime)()
    assert isinstance(found, ClusterEnvironment)  # noqa: S101 - facts name one, and the resolver checks the user's
    return found


def ranks_here(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object]) -> Ranks:
    """Return this process's place outside of a run: rank 0, unless somebody else started the ranks."""
    if plan.launcher == "external":
        return build_environment(plan, catalogue, objects).ranks(probe.variables())
    return Ranks(0, 0, 0, plan.world_size, plan.num_devices, plan.num_nodes)


def build_strategy(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object], place: Place) -> Strategy:
    """Make the run-time strategy of one rank, with all that it owns."""
    accelerator = objects.get("accelerator") or _load(catalogue.accelerators[plan.accelerator].runtime)()
    # A user's object says how; what a run keeps, such as a scale, is the run's own.
    precision = copy.copy(objects.get("precision")) or _load(catalogue.precisions[plan.precision].runtime)(
        plan.precision
    )
    checkpoint_io = (
        objects.get("checkpoint_io") or _load(catalogue.checkpoint_ios[plan.checkpoint_io].runtime)()
    )
    assert isinstance(accelerator, Accelerator)  # noqa: S101 - facts name one, and the resolver checks the user's
    assert isinstance(precision, Precision)  # noqa: S101 - as above
    assert isinstance(checkpoint_io, CheckpointIO)  # noqa: S101 - as above
    layer_sync: Any = None
    if plan.layer_sync != "none" and plan.world_size > 1:
        layer_sync = (
            copy.copy(objects.get("layer_sync")) or _load(catalogue.layer_syncs[plan.layer_sync].runtime)()
        )
    parts = Parts(
        accelerator=accelerator,
        precision=precision,
        checkpoint_io=checkpoint_io,
        place=place,
        device_id=plan.device_ids[place.ranks.local_rank % len(plan.device_ids)],
        layout=plan.layout,
        process_group_backend=plan.process_group_backend if plan.world_size > 1 else "none",
        options=plan.strategy.options,
        layer_sync=layer_sync,
    )
    strategy = _load(catalogue.strategies[plan.strategy.name].runtime)(parts)
    assert isinstance(strategy, Strategy)  # noqa: S101 - facts name one
    return strategy


def strategy_here(plan: Plan, catalogue: Catalogue, objects: Mapping[str, object]) -> Strategy:
    """Make this process's strategy outside of a run, to be asked and not opened.

    Raises:
        BuildError: this release or installation cannot run the plan.
    """
    check(plan, catalogue, objects)
    return build_strategy(plan, catalogue, objects, Place(ranks_here(plan, catalogue, objects)))


def _load(runtime: str) -> Any:  # noqa: ANN401 - a class that the facts name
    module, _, name = runtime.partition(":")
    return getattr(importlib.import_module(module), name)


def _not_available(plan: Plan, catalogue: Catalogue, group: str, name: str) -> BuildError:
    kind = _FLAGS[group]
    table = getattr(catalogue, group)
    available = [known for known, facts in table.items() if facts.runtime]
    hint = (
        f"pass {kind}={_suggested(plan, group, available)!r}"
        if group != "layer_syncs"
        else "pass sync_batchnorm=False"
    )
    return BuildError(
        "build.not-available",
        f"{kind} {name!r} can be planned, but this release cannot run it yet",
        values={kind: plan.sources.get(kind, name)},
        because=f"what runs here: {listed(available)}",
        hint=hint,
    )


def _suggested(plan: Plan, group: str, available: list[str]) -> str:
    if group == "strategies":
        return "ddp" if plan.world_size > 1 else "single"
    preferred = {"precisions": "bf16-mixed" if "16" in plan.precision else "32-true", "accelerators": "cpu"}
    return preferred.get(group) or available[0]


def _package_missing(kind: str, name: str, missing: list[str]) -> BuildError:
    return BuildError(
        "build.package-missing",
        f"{kind} {name!r} needs {listed(missing)}, which is not installed",
        values={kind: name},
        because="this part does its work through another package",
        hint=f"pip install {' '.join(missing)}",
    )
