"""From what was said as ``strategy`` to one spec: text, alias, object; composition in mesh order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drivetrain.base.origin import Sourced
from drivetrain.base.text import listed, nearest, show
from drivetrain.flags.calls import Value, parse_calls
from drivetrain.flags.problem import Problem
from drivetrain.resolver.aliases import ALIASES, REFUSED, alias_of
from drivetrain.resolver.catalogue import Catalogue
from drivetrain.resolver.facts import AXES, StrategyFacts
from drivetrain.resolver.spec import StrategySpec, check_options
from drivetrain.resolver.swallowed import Members, is_auto, said_members


def parse_strategy(source: Sourced[Any], catalogue: Catalogue) -> StrategySpec | None:
    """Read a strategy; None for ``auto``.

    Raises:
        Problem: the text cannot be read, a name is unknown or refused, an option does not fit,
            or members do not compose.
    """
    value = source.value
    if is_auto(value):
        return None
    if isinstance(value, StrategySpec):
        members: Members = said_members(value) or value.members
    elif isinstance(value, str):
        members = tuple(parse_calls(value))
    elif isinstance(value, Mapping):
        members = _members_of(value)
    else:
        message = f"strategy={show(value)} is a {type(value).__name__}"
        because = f"strategy is a name or a strategy object; names: {listed(catalogue.strategies)}"
        raise Problem(message, because, *_like_class(value, catalogue))
    known = tuple(_known(name, options, catalogue) for name, options in members)
    for name, options in known:
        _check(catalogue.strategies[name], options, source)
    return StrategySpec.of(_in_mesh_order(known, catalogue))


def _members_of(said: Mapping[str, Any]) -> Members:
    """Read ``{"name": "fsdp", "cpu_offload": True}``; of ``fsdp+tp``, the options by member.

    Raises:
        Problem: it has no name, or options of a composition that name no member.
    """
    options = {str(key): value for key, value in said.items() if key != "name"}
    if not isinstance(said.get("name"), str):
        because = "a mapping says a strategy by its name, and beside it its options"
        raise Problem(f"strategy={show(dict(said))} has no name", because, {"strategy": "auto"})
    members = tuple(parse_calls(said["name"]))
    if len(members) == 1:
        options = {members[0][0]: options}
    names = [name for name, _ in members]
    wrong = next((key for key in options if key not in names or not isinstance(options[key], Mapping)), None)
    if wrong is not None:
        because = (
            f"of a composition each member has its options: {listed(f'{one}: {{...}}' for one in names)}"
        )
        raise Problem(f"strategy={show(dict(said))}: {wrong!r}", because, {"strategy": said["name"]})
    for name, written in members:
        twice = next((key for key in written if key in options.get(name, {})), None)
        if twice is not None:
            because = f"{twice} stands in the name and beside it"
            raise Problem(f"strategy={show(dict(said))} says {twice} twice", because, {"strategy": name})
    return tuple((name, {**written, **options.get(name, {})}) for name, written in members)


def _known(name: str, options: Mapping[str, Value], catalogue: Catalogue) -> tuple[str, Mapping[str, Value]]:
    if name in catalogue.strategies:
        return name, options
    lower = name.lower()
    if lower in REFUSED:
        why, instead = REFUSED[lower]
        raise Problem(f"strategy {name!r} is gone; use {instead!r}", why, {"strategy": instead})
    alias = alias_of(name, catalogue.strategies)
    if alias is not None:
        return alias.name, {**alias.options, **options}
    if lower in catalogue.strategies:
        return lower, options
    if name in catalogue.broken:
        raise Problem(f"strategy {name!r} cannot be used", catalogue.broken[name], {"strategy": "auto"})
    close = nearest(name, [*catalogue.strategies, *ALIASES])
    fixes = [{"strategy": close}] if close else []
    because = f"strategies are: {listed(catalogue.strategies)}; and the names of all Lightning releases"
    said = f"strategy {name!r} is not known" + (f"; the nearest is {close!r}" if close else "")
    raise Problem(said, because, *fixes, {"strategy": "auto"})


def _check(facts: StrategyFacts, options: Mapping[str, Value], source: Sourced[Any]) -> None:
    found = check_options(facts, options, source.origin, source.reason)
    if found:
        raise Problem(found[0].message, found[0].because, *(fix for one in found for fix in one.fixes))


def _in_mesh_order(members: Members, catalogue: Catalogue) -> Members:
    """Sort by mesh axis, so that ``tp(size=2)+fsdp`` is ``fsdp+tp(size=2)``; refuse what does not compose."""
    if len(members) == 1:
        return members
    facts = [catalogue.strategies[name] for name, _ in members]
    names = "+".join(name for name, _ in members)
    data = [one.name for one in facts if one.role == "data"]
    alone = [one.name for one in facts if one.role == "alone"]
    kept = [
        str(StrategySpec.of((member,)))
        for member, one in zip(members, facts, strict=True)
        if one.role == "model"
    ]
    first = (
        ({"strategy": "+".join(dict.fromkeys([*data[:1], *kept]))},)
        if data or kept
        else ({"strategy": facts[0].name},)
    )
    if alone:
        raise Problem(
            f"strategy {alone[0]!r} does not compose", f"of {names!r} it can only stand alone", *first
        )
    if len(data) > 1:
        raise Problem(
            f"strategies {data[0]!r} and {data[1]!r} both split the data",
            "one member splits the data, others the model",
            *first,
        )
    if len({one.name for one in facts}) < len(facts):
        raise Problem(f"strategy {names!r} names a member twice", "a member stands once", *first)
    order = {name: AXES.index(catalogue.strategies[name].axes[0]) for name, _ in members}
    return tuple(sorted(members, key=lambda member: order[member[0]]))


def _like_class(value: object, catalogue: Catalogue) -> list[Mapping[str, object]]:
    """Guess from a foreign object's class (another library's DDPStrategy) which name is meant."""
    name = type(value).__name__.removesuffix("Strategy").removesuffix("Plugin").lower()
    return [{"strategy": name}] if name in catalogue.strategies else [{"strategy": "auto"}]
