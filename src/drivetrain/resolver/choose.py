"""The decisions that ``auto`` asks for. Each returns its reason with the value."""

from __future__ import annotations

from math import prod

from drivetrain.base.origin import Origin, Sourced
from drivetrain.machine.snapshot import Machine
from drivetrain.resolver.catalogue import Catalogue
from drivetrain.resolver.facts import AXES, AcceleratorFacts, EnvironmentFacts, StrategyFacts
from drivetrain.resolver.fits import strategy_fits
from drivetrain.resolver.ranks import Ranks, dialect_of
from drivetrain.resolver.spec import StrategySpec


def seen(machine: Machine, facts: AcceleratorFacts) -> str:
    """Say how many devices of a kind the machine has."""
    count = machine.count(facts.name)
    if facts.counts_processes:
        return "the processor is always there"
    return f"{count} {facts.name} device{'' if count == 1 else 's'}"


def is_there(machine: Machine, facts: AcceleratorFacts) -> bool:
    """Whether the machine has at least one device of a kind."""
    return facts.counts_processes or machine.count(facts.name) > 0


def gpu(machine: Machine, catalogue: Catalogue) -> AcceleratorFacts:
    """Return the GPU backend that is there, the preferred one if there are several or none."""
    gpus = [facts for facts in catalogue.accelerator_order if facts.is_gpu]
    return next((facts for facts in gpus if is_there(machine, facts)), gpus[0])


def accelerator(
    machine: Machine,
    catalogue: Catalogue,
    strategy: Sourced[StrategySpec] | None,
    members: tuple[StrategyFacts, ...],
) -> Sourced[str]:
    """Take the most preferred accelerator that is there and that can run the strategy."""
    there = [facts for facts in catalogue.accelerator_order if is_there(machine, facts)]
    able = [facts for facts in there if all(strategy_fits(member, facts) for member in members)]
    chosen = able[0] if able else there[0]
    reason = seen(machine, chosen)
    passed = [facts.name for facts in there if facts.preference > chosen.preference]
    if able and passed and strategy:
        reason += f"; strategy {strategy.value.name!r} does not run on {', '.join(passed)}"
    elif len(there) == 1:
        reason += ", no other accelerator"
    return Sourced(chosen.name, Origin.MACHINE, reason)


def environment(machine: Machine, catalogue: Catalogue) -> EnvironmentFacts | None:
    """Return the most specific environment whose set of variables is complete, or None."""
    return next(
        (facts for facts in catalogue.environment_order if dialect_of(facts, machine.variables)), None
    )


def no_environment(machine: Machine, catalogue: Catalogue) -> Sourced[str]:
    """Say that nobody started this process, and which variables are there but mean nothing alone."""
    partial = [
        name
        for facts in catalogue.environment_order
        for dialect in facts.dialects
        for name in dialect.values()
        if name in machine.variables
    ]
    if not partial:
        return Sourced("none", Origin.DEFAULT, "no cluster's variables are set")
    found = ", ".join(dict.fromkeys(partial))
    return Sourced("none", Origin.DEFAULT, f"{found} alone say nothing: the set of no cluster is complete")


def devices(
    machine: Machine,
    facts: AcceleratorFacts,
    ranks: Ranks | None,
    environment: str,
    *,
    alone: Sourced[StrategySpec] | None,
) -> Sourced[tuple[int, ...]]:
    """Take what the environment started, one in a notebook or on the CPU, else every device."""
    count = machine.count(facts.name)
    if ranks is not None:
        local = ranks.local_world_size
        return Sourced(tuple(range(local)), Origin.VARIABLE, f"{environment} started {local} a node")
    if alone is not None:
        return Sourced((0,), Origin.DEFAULT, f"strategy {alone.value.name!r} uses one device")
    if facts.counts_processes:
        return Sourced((0,), Origin.DEFAULT, "one process on the CPU unless more are said")
    if machine.notebook and count > 1:
        return Sourced(
            (0,),
            Origin.DEFAULT,
            f"one device in a notebook, of {seen(machine, facts)}; say devices={count} for all",
        )
    usable = max(min(count, facts.most or count), 1)
    every = f"all of {seen(machine, facts)}" if count > 1 else f"the machine has {seen(machine, facts)}"
    return Sourced(tuple(range(usable)), Origin.MACHINE, every)


def strategy(world_size: int, num_devices: int, facts: AcceleratorFacts) -> Sourced[StrategySpec]:
    """One device: single; more: what the accelerator's kind uses."""
    if world_size == 1:
        return Sourced(StrategySpec("single"), Origin.DEFAULT, "one device in all")
    name = facts.default_strategy
    where = f"{num_devices} devices" if num_devices == world_size else f"{world_size} ranks in all"
    return Sourced(StrategySpec(name), Origin.DEFAULT, f"{where} on {facts.name}")


def launcher(machine: Machine, kind: str, world_size: int, environment: str | None) -> Sourced[str]:
    """None for one rank, external where an environment started them, else we start them."""
    if environment is not None:
        return Sourced("external", Origin.VARIABLE, f"{environment} started the ranks")
    if world_size == 1:
        return Sourced("none", Origin.DEFAULT, "one rank: this process")
    if machine.notebook and machine.fork and kind not in machine.touched:
        return Sourced("fork", Origin.MACHINE, "a notebook, and no device is in use yet")
    return Sourced("subprocess", Origin.DEFAULT, "this process is rank 0 and starts the others")


def process_group_backend(
    spec: Sourced[StrategySpec], members: tuple[StrategyFacts, ...], facts: AcceleratorFacts
) -> Sourced[str]:
    """What the strategy says, else what the accelerator uses; none without collectives."""
    for _, options in spec.value.members:
        if (said := options.get("process_group_backend")) is not None:
            return Sourced(str(said), spec.origin, spec.reason)
    if not any(member.axes for member in members):
        return Sourced("none", Origin.DEFAULT, "one rank has nobody to talk to")
    return Sourced(facts.process_group_backend, Origin.DEFAULT, f"carries collectives on {facts.name}")


def layout(
    spec: StrategySpec, members: tuple[StrategyFacts, ...], world_size: int, num_nodes: int
) -> dict[str, int]:
    """Return the size of each mesh axis; a member without a size takes what the others leave.

    The product differs from the world size where the sizes do not fit: rules/layout.py looks.
    """
    sizes: dict[str, int | None] = {}
    for (_, options), member in zip(spec.members, members, strict=True):
        if member.layout is not None:
            sizes |= member.layout(options, num_nodes)
        elif member.axes:
            size = options.get("size")
            sizes[member.axes[0]] = size if isinstance(size, int) else None
    rest = max(world_size // prod(size for size in sizes.values() if size is not None), 1)
    for axis, size in sizes.items():
        if size is None:
            sizes[axis], rest = rest, 1
    return {axis: sizes.get(axis) or 1 for axis in AXES}
