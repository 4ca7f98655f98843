"""Catalogue: the facts in force, ours and those of installed packages."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from drivetrain.machine import installed
from drivetrain.resolver import known
from drivetrain.resolver.facts import (
    AcceleratorFacts,
    CheckpointIOFacts,
    EnvironmentFacts,
    Facts,
    LauncherFacts,
    LayerSyncFacts,
    PrecisionFacts,
    StrategyFacts,
)

GROUPS = {
    "accelerators": AcceleratorFacts,
    "strategies": StrategyFacts,
    "precisions": PrecisionFacts,
    "launchers": LauncherFacts,
    "environments": EnvironmentFacts,
    "checkpoint_ios": CheckpointIOFacts,
    "layer_syncs": LayerSyncFacts,
}
"""Kinds of facts by the name of their table here and of their entry-point group ``drivetrain.<name>``."""


@dataclass(frozen=True)
class Catalogue:
    """Facts by kind and name. Frozen: `extended` returns another one."""

    accelerators: Mapping[str, AcceleratorFacts] = field(default_factory=dict)
    strategies: Mapping[str, StrategyFacts] = field(default_factory=dict)
    precisions: Mapping[str, PrecisionFacts] = field(default_factory=dict)
    launchers: Mapping[str, LauncherFacts] = field(default_factory=dict)
    environments: Mapping[str, EnvironmentFacts] = field(default_factory=dict)
    checkpoint_ios: Mapping[str, CheckpointIOFacts] = field(default_factory=dict)
    layer_syncs: Mapping[str, LayerSyncFacts] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)
    """Names that an installed package registers but that cannot be used, with the reason."""

    def extended(self, facts: Iterable[Facts]) -> Catalogue:
        """Return a catalogue with these facts too; a name that is taken stays what it was."""
        tables: dict[str, Any] = {}
        for fact in facts:
            group = group_of(fact)
            table = tables.setdefault(group, dict(getattr(self, group)))
            table.setdefault(fact.name, fact)
        return replace(self, **tables)

    @functools.cached_property
    def accelerator_order(self) -> tuple[AcceleratorFacts, ...]:
        """Accelerators, the most preferred first."""
        return tuple(sorted(self.accelerators.values(), key=lambda facts: -facts.preference))

    @functools.cached_property
    def environment_order(self) -> tuple[EnvironmentFacts, ...]:
        """Environments that can be detected, the most specific first."""
        found = (facts for facts in self.environments.values() if facts.dialects)
        return tuple(sorted(found, key=lambda facts: -facts.preference))

    @functools.cached_property
    def precision_aliases(self) -> Mapping[str, str]:
        """Short spellings of precisions: ``bf16`` -> ``bf16-mixed``."""
        return {alias: facts.name for facts in self.precisions.values() for alias in facts.aliases}


def group_of(facts: Facts) -> str:
    """Return the table that a fact belongs to."""
    return next(group for group, kind in GROUPS.items() if isinstance(facts, kind))


def facts_of(thing: object) -> Facts | None:
    """Return the facts that an object carries (it, its ``facts``), or None if it carries none."""
    kinds = tuple(GROUPS.values())
    if issubclass(type(thing), kinds):
        return cast("Facts", thing)
    try:
        carried = getattr(thing, "facts", None)
    except Exception:  # noqa: BLE001 - a foreign object's property may raise anything
        return None
    return cast("Facts", carried) if isinstance(carried, kinds) else None


@functools.cache
def shipped() -> Catalogue:
    """Return the facts that ship with the library."""
    found: list[Facts] = []
    for folder in pkgutil.iter_modules(known.__path__, f"{known.__name__}."):
        package = importlib.import_module(folder.name)
        for module in pkgutil.iter_modules(package.__path__, f"{folder.name}."):
            found += importlib.import_module(module.name).FACTS
    return Catalogue().extended(found)


@functools.cache
def in_force() -> Catalogue:
    """Return what ships and what installed packages register; a package that fails is set aside."""
    catalogue, broken = shipped(), {}
    for group, kind in GROUPS.items():
        for point in installed.entry_points(f"drivetrain.{group}"):
            try:
                facts = facts_of(point.load())
            except Exception as error:  # noqa: BLE001 - another package's import may raise anything
                broken[point.name] = f"{point.value} fails to load: {type(error).__name__}: {error}"
                continue
            if facts is None or not isinstance(facts, kind):
                broken[point.name] = f"{point.value} carries no {kind.__name__} as itself or as .facts"
            elif facts.name in getattr(catalogue, group):
                broken[point.name] = f"{point.value} takes the name {facts.name!r}, which is taken"
            else:
                catalogue = catalogue.extended([facts])
    return replace(catalogue, broken=broken)


def counted(catalogue: Catalogue, objects: Iterable[object] = ()) -> dict[str, int]:
    """Return how many devices accelerators count that count themselves; one that fails has none here.

    ``objects`` are what the user passed: accelerators among them are counted too.
    """
    found: dict[str, int] = {}
    own = [facts for facts in map(facts_of, objects) if isinstance(facts, AcceleratorFacts)]
    known = {**catalogue.accelerators, **{facts.name: facts for facts in own}}
    for name, facts in known.items():
        if facts.count is None:
            continue
        try:
            count = facts.count()
        except Exception:  # noqa: BLE001 - a package's own code; its absence is what the user sees
            count = 0
        found[name] = count if type(count) is int and count >= 0 else 0
    return found
