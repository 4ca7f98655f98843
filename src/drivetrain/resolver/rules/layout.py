"""The mesh axes of a strategy multiply to the number of ranks."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from drivetrain.base.errors import Conflict
from drivetrain.resolver.fill import Draft
from drivetrain.resolver.spec import StrategySpec


def axes_fill_world(draft: Draft) -> Iterator[Conflict]:
    """plan.layout-size: the product of the axes is the world size."""
    product, world = prod(draft.layout.values()), draft.world_size
    if product == world or not any(member.axes for member in draft.strategy_facts):
        return
    sizes = " x ".join(f"{axis}={size}" for axis, size in draft.layout.items() if size > 1) or "1"
    shown = {draft.name(flag): draft.source(flag) for flag in ("strategy", "devices", "num_nodes")}
    message = f"the axes of {draft.strategy.value} ({sizes}) make {product} ranks, there are {world}"
    nodes = draft.num_nodes.value
    fixes: list[dict[str, object]] = [{"devices": product // nodes}] if product % nodes == 0 else []
    fixes += [{"strategy": str(_with_size(draft, size))} for size in _divisors(world)]
    yield Conflict(
        "plan.layout-size", message, shown, "each rank stands at one point of the mesh", tuple(fixes)
    )


def one_axis_is_open(draft: Draft) -> Iterator[Conflict]:
    """plan.layout-open: at most one member of a composition may leave its size open."""
    unsized = [
        member.name
        for (_, options), member in zip(draft.strategy.value.members, draft.strategy_facts, strict=True)
        if member.role == "model" and options.get("size") is None
    ]
    data = [member.name for member in draft.strategy_facts if member.role == "data"]
    if len(draft.strategy_facts) == 1 or len(unsized) + bool(data) <= 1:
        return
    message = (
        f"strategy {str(draft.strategy.value)!r} leaves the size of {' and '.join([*unsized, *data])} open"
    )
    because = "one member takes what the others leave; the others say their size"
    spec = StrategySpec.of(
        tuple(
            (name, {**options, "size": 2} if name in unsized[: None if data else -1] else options)
            for name, options in draft.strategy.value.members
        )
    )
    shown = {draft.name("strategy"): draft.source("strategy")}
    yield Conflict("plan.layout-open", message, shown, because, ({"strategy": str(spec)},))


def _with_size(draft: Draft, size: int) -> StrategySpec:
    """Return the strategy with its last sized member at another size."""
    members = list(draft.strategy.value.members)
    for place in reversed(range(len(members))):
        name, options = members[place]
        option = "replicate" if "replicate" in options else "size"
        if option in options:
            members[place] = (name, {**options, option: size})
            break
    return StrategySpec.of(tuple(members))


def _divisors(world: int) -> list[int]:
    return [size for size in (2, 4, 8, 1) if world % size == 0]
