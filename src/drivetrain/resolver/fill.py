"""Fill each flag: read what was said, or decide, and keep the reason.

A flag that cannot be read is noted as a conflict and then treated as not said, so that the rules
can look at everything else and all problems are reported together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, TypeVar

from drivetrain.base.errors import Conflict
from drivetrain.base.origin import UNSET, Origin, Sourced
from drivetrain.base.text import show
from drivetrain.flags.devices import Devices, parse_devices
from drivetrain.flags.problem import Problem
from drivetrain.flags.scalars import parse_count, parse_name, parse_switch
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver import choose
from drivetrain.resolver.catalogue import Catalogue
from drivetrain.resolver.collect import Said
from drivetrain.resolver.facts import AcceleratorFacts, EnvironmentFacts, StrategyFacts
from drivetrain.resolver.fits import strategy_fits
from drivetrain.resolver.ranks import Ranks, dialect_of, missing, read_ranks
from drivetrain.resolver.spec import StrategySpec
from drivetrain.resolver.strategy import parse_strategy

T = TypeVar("T")
MOST_NODES = 65_536
MOST_PROCESSES = 4_096
"""More processes on one machine's CPU than this are a slip, not a plan."""
_CODES = {
    "accelerator": "plan.accelerator-value",
    "devices": "plan.devices-value",
    "num_nodes": "plan.num-nodes-value",
    "strategy": "plan.strategy-value",
    "launcher": "plan.launcher-value",
    "environment": "plan.environment-value",
    "precision": "plan.precision-value",
    "checkpoint_io": "plan.checkpoint-io-value",
    "layer_sync": "plan.layer-sync-value",
    "sync_batchnorm": "plan.sync-batchnorm-value",
}
"""By flag: the code of a value that cannot be read. Written out, so that each can be found by search."""


@dataclass
class Draft:
    """The decisions so far; the rules read it, `resolve` freezes it."""

    machine: Machine
    catalogue: Catalogue
    said: Said
    accelerator: Sourced[str] = Sourced("cpu", Origin.DEFAULT)
    asked: Devices = Devices()
    devices: Sourced[tuple[int, ...]] = Sourced((0,), Origin.DEFAULT)
    num_nodes: Sourced[int] = Sourced(1, Origin.DEFAULT)
    strategy: Sourced[StrategySpec] = Sourced(StrategySpec("single"), Origin.DEFAULT)
    launcher: Sourced[str] = Sourced("none", Origin.DEFAULT)
    environment: Sourced[str] = Sourced("none", Origin.DEFAULT)
    ranks: Ranks | None = None
    """This process's place, read from the environment's variables; None without an environment."""
    process_group_backend: Sourced[str] = Sourced("none", Origin.DEFAULT)
    precision: Sourced[str] = Sourced("32-true", Origin.DEFAULT)
    checkpoint_io: Sourced[str] = Sourced("local", Origin.DEFAULT)
    layer_sync: Sourced[str] = Sourced("none", Origin.DEFAULT)
    layout: dict[str, int] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Flags that could not be read or are contradictory; rules about them are skipped."""

    @property
    def accelerator_facts(self) -> AcceleratorFacts:
        """The facts of the accelerator decided on."""
        return self.catalogue.accelerators[self.accelerator.value]

    @property
    def strategy_facts(self) -> tuple[StrategyFacts, ...]:
        """The facts of each member of the strategy decided on."""
        return tuple(self.catalogue.strategies[name] for name, _ in self.strategy.value.members)

    @property
    def is_strategy_at_home(self) -> bool:
        """Whether the strategy runs on the accelerator; if not, what it brought along is no news."""
        return all(strategy_fits(member, self.accelerator_facts) for member in self.strategy_facts)

    @property
    def world_size(self) -> int:
        """Ranks in all."""
        return len(self.devices.value) * self.num_nodes.value

    def source(self, flag: str) -> Sourced[Any]:
        """What was said of a flag, or what was decided."""
        return self.said.flags.get(flag) or getattr(self, flag)

    def name(self, flag: str) -> str:
        """The name under which the user said a flag: ``gpus`` for devices."""
        kept = self.said.flags.get(flag)
        is_implied = any(flag == one and kept is source for one, source in self.said.implied)
        return flag if is_implied else self.said.typed.get(flag, flag)


def fill(said: Said, machine: Machine, catalogue: Catalogue) -> Draft:
    """Read or decide every flag, in the order in which they depend on each other."""
    draft = Draft(machine, catalogue, said, broken=set(said.twice))
    strategy = _read(draft, "strategy", lambda source: parse_strategy(source, catalogue))
    _environment(draft)
    _precision(draft)
    _accelerator(draft, strategy)
    _num_nodes(draft)
    _devices(draft, strategy)
    draft.strategy = strategy or choose.strategy(
        draft.world_size, len(draft.devices.value), draft.accelerator_facts
    )
    _environment_of_tpu(draft)
    _launcher(draft)
    _storage(draft)
    _layer_sync(draft)
    backend, layout = choose.process_group_backend, choose.layout
    draft.process_group_backend = backend(draft.strategy, draft.strategy_facts, draft.accelerator_facts)
    draft.layout = layout(draft.strategy.value, draft.strategy_facts, draft.world_size, draft.num_nodes.value)
    return draft


def _read(draft: Draft, flag: str, parse: Callable[[Sourced[Any]], T | None]) -> Sourced[T] | None:
    """Parse what was said of a flag; None for not said, for ``auto`` and for what cannot be read."""
    source = draft.said.flags.get(flag)
    if source is None:
        return None
    try:
        value = parse(source)
    except Problem as problem:
        typed = draft.name(flag)
        fixes = (*problem.fixes, {typed: UNSET})
        draft.said.conflicts.append(
            Conflict(_CODES[flag], problem.message, {typed: source}, problem.because, fixes)
        )
        draft.broken.add(flag)
        return None
    return None if value is None else Sourced(value, source.origin, source.reason)


def _named(flag: str, names: Collection[str]) -> Callable[[Sourced[Any]], str | None]:
    def parse(source: Sourced[Any]) -> str | None:
        if isinstance(source.value, str) and source.value.strip() == "auto":
            return None
        return parse_name(flag, source.value, names, {})

    return parse


def _environment(draft: Draft) -> None:
    table = draft.catalogue.environments
    chosen = _read(draft, "environment", _named("environment", table))
    facts: EnvironmentFacts | None = None
    if chosen is not None:
        facts = table[chosen.value] if table[chosen.value].dialects else None
        draft.environment = chosen
    elif "environment" not in draft.broken:
        facts = choose.environment(draft.machine, draft.catalogue)
        if facts is not None:
            names = ", ".join((dialect_of(facts, draft.machine.variables) or {}).values())
            draft.environment = Sourced(facts.name, Origin.VARIABLE, f"{names} are set")
        else:
            draft.environment = choose.no_environment(draft.machine, draft.catalogue)
    if facts is not None:
        _ranks(draft, facts)


def _ranks(draft: Draft, facts: EnvironmentFacts) -> None:
    variables = draft.machine.variables
    if dialect_of(facts, variables) is None:
        lacking = ", ".join(missing(facts, variables)) or "an interactive shell is no launch"
        message = f"environment {facts.name!r} is not there: {lacking}"
        because = "a cluster environment is read from its complete set of variables, which its launcher sets"
        conflict = Conflict(
            "plan.environment-variables",
            message,
            {"environment": draft.environment},
            because,
            ({"environment": "auto"}, {"environment": "none"}),
        )
        draft.said.conflicts.append(conflict)
        draft.broken.add("environment")
        return
    try:
        draft.ranks = read_ranks(facts, variables)
    except ValueError as error:
        because = "a launcher sets these variables together; a part was overwritten"
        fixes = ({"environment": "none"},)
        draft.said.conflicts.append(
            Conflict(
                "plan.environment-variables", str(error), {"environment": draft.environment}, because, fixes
            )
        )
        draft.broken.add("environment")


def _precision(draft: Draft) -> None:
    table, aliases = draft.catalogue.precisions, draft.catalogue.precision_aliases

    def parse(source: Sourced[Any]) -> str | None:
        value = source.value
        if type(value) is int and value in (16, 32, 64):
            value = str(value)
        try:
            return parse_name("precision", value, table, aliases)
        except Problem as problem:
            fixes = [fix for fix in problem.fixes if "auto" not in fix.values()]  # no decision to ask for
            raise Problem(problem.message, problem.because, *fixes, {"precision": "32-true"}) from None

    default = Sourced("32-true", Origin.DEFAULT, "full precision unless something else is said")
    draft.precision = _read(draft, "precision", parse) or default


def _accelerator(draft: Draft, strategy: Sourced[StrategySpec] | None) -> None:
    table = draft.catalogue.accelerators

    def parse(source: Sourced[Any]) -> str | None:
        return _named("accelerator", [*table, "gpu"])(source)

    chosen = _read(draft, "accelerator", parse)
    facts = tuple(draft.catalogue.strategies[name] for name, _ in strategy.value.members) if strategy else ()
    if chosen is not None and chosen.value == "gpu":
        gpu = choose.gpu(draft.machine, draft.catalogue)
        draft.accelerator = Sourced(
            gpu.name,
            chosen.origin,
            f"{chosen.reason or 'accelerator=gpu'}: {choose.seen(draft.machine, gpu)}",
        )
    elif chosen is not None:
        draft.accelerator = chosen
    else:
        draft.accelerator = choose.accelerator(draft.machine, draft.catalogue, strategy, facts)


def _num_nodes(draft: Draft) -> None:
    said = _read(draft, "num_nodes", lambda source: parse_count("num_nodes", source.value, MOST_NODES))
    if said is not None:
        draft.num_nodes = said
    elif draft.ranks is not None and draft.ranks.num_nodes > 1:
        draft.num_nodes = Sourced(
            draft.ranks.num_nodes,
            Origin.VARIABLE,
            f"{draft.environment.value} started ranks on {draft.ranks.num_nodes} nodes",
        )
    else:
        draft.num_nodes = Sourced(1, Origin.DEFAULT, "one node unless more are said")


def _devices(draft: Draft, strategy: Sourced[StrategySpec] | None) -> None:
    asked = _read(draft, "devices", lambda source: parse_devices(source.value))
    draft.asked = asked.value if asked else Devices()
    facts, count = draft.accelerator_facts, draft.machine.count(draft.accelerator.value)
    if draft.asked.is_auto:
        is_alone = strategy is not None and not any(member.axes for member in _members(draft, strategy))
        draft.devices = choose.devices(
            draft.machine, facts, draft.ranks, draft.environment.value, alone=strategy if is_alone else None
        )
        return
    assert asked is not None  # noqa: S101 - ours: not auto means that something was said
    if draft.asked.indices is not None:
        ids = draft.asked.indices
    elif draft.asked.is_all:
        ids = tuple(range(max(count, 1)))
    else:
        limit = MOST_PROCESSES if facts.counts_processes else max(count, 1)
        ids = tuple(range(min(draft.asked.count or 1, limit)))
    draft.devices = Sourced(ids, asked.origin, asked.reason)


def _members(draft: Draft, strategy: Sourced[StrategySpec]) -> tuple[StrategyFacts, ...]:
    return tuple(draft.catalogue.strategies[name] for name, _ in strategy.value.members)


def _environment_of_tpu(draft: Draft) -> None:
    """Some strategies know only one environment (torch_xla's): theirs, unless one was said or started us."""
    needed = [facts.environments for facts in draft.strategy_facts if facts.environments is not None]
    is_open = "environment" not in draft.said.flags and draft.ranks is None
    if needed and is_open and draft.environment.value not in needed[0]:
        name = min(needed[0])
        draft.environment = Sourced(
            name, Origin.DEFAULT, f"strategy {draft.strategy.value.name!r} runs in it"
        )


def _launcher(draft: Draft) -> None:
    chosen = _read(draft, "launcher", _named("launcher", draft.catalogue.launchers))
    needed = [facts.launchers for facts in draft.strategy_facts if facts.launchers is not None]
    external = draft.ranks is not None and draft.environment.value != "none"
    if chosen is not None:
        draft.launcher = chosen
    elif needed and "xla" in needed[0] and draft.world_size > 1 and not external:
        draft.launcher = Sourced(
            "xla", Origin.DEFAULT, f"strategy {draft.strategy.value.name!r} is started by torch_xla"
        )
    else:
        environment = draft.environment.value if external else None
        draft.launcher = choose.launcher(
            draft.machine, draft.accelerator.value, draft.world_size, environment
        )


def _storage(draft: Draft) -> None:
    chosen = _read(draft, "checkpoint_io", _named("checkpoint_io", draft.catalogue.checkpoint_ios))
    if chosen is not None:
        draft.checkpoint_io = chosen
        return
    sharded = any(facts.checkpoint_io == "sharded" for facts in draft.strategy_facts)
    reason = "each rank writes its shards" if sharded else "one file holds the whole model"
    draft.checkpoint_io = Sourced("sharded" if sharded else "local", Origin.DEFAULT, reason)


def _layer_sync(draft: Draft) -> None:
    switch = _read(draft, "sync_batchnorm", lambda source: parse_switch("sync_batchnorm", source.value))
    held = _read(draft, "layer_sync", _named("layer_sync", draft.catalogue.layer_syncs))
    if switch is not None and switch.value and held is not None:
        shown = {"sync_batchnorm": draft.source("sync_batchnorm"), "plugins": draft.source("layer_sync")}
        message = f"layer_sync is said twice: sync_batchnorm=True and plugins={show(held.value)}"
        because = "sync_batchnorm=True is the short form of a LayerSync plug-in"
        draft.said.conflicts.append(
            Conflict("plan.said-twice", message, shown, because, ({"sync_batchnorm": False},))
        )
    elif held is not None:
        draft.layer_sync = held
    elif switch is not None and switch.value:
        draft.layer_sync = Sourced("batchnorm", switch.origin, switch.reason)
    else:
        reason = "batch norm sees its own rank's batch" if switch is None else switch.reason
        draft.layer_sync = Sourced("none", switch.origin if switch else Origin.DEFAULT, reason)
