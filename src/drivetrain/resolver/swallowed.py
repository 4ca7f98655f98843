"""What a strategy's spelling says beside the strategy: ``ddp_spawn`` is ddp and a launcher.

Each member of a text or an object is looked at, with or without options:
``ddp_spawn(timeout_s=5)+tp(size=2)`` says the launcher as ``ddp_spawn`` does.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass

from drivetrain.flags.calls import Value, parse_calls
from drivetrain.flags.problem import Problem
from drivetrain.resolver.aliases import Alias, alias_of
from drivetrain.resolver.spec import StrategySpec

Members = tuple[tuple[str, Mapping[str, Value]], ...]
SWALLOWED = ("launcher", "accelerator")
"""The flags that an old name of a strategy may say."""


@dataclass(frozen=True)
class Spelt:
    """A strategy spelt with today's names."""

    members: Members = ()
    held: tuple[tuple[str, str, str], ...] = ()
    """What old names have swallowed: the name, the flag, the value."""
    twice: tuple[tuple[str, str, Value, Value], ...] = ()
    """Options that an old name says and that are given again: the name, the option, both values."""

    def text(self, *, given: bool = True) -> str:
        """Write the strategy; of an option that is said twice take the given value, or the name's."""
        kept = {} if given else {option: value for _, option, value, _ in self.twice}
        members = (
            (name, {key: kept.get(key, value) for key, value in options.items()})
            for name, options in self.members
        )
        return str(StrategySpec.of(tuple(members)))

    @property
    def flags(self) -> dict[str, str]:
        """Return the swallowed flags by name."""
        return {flag: value for _, flag, value in self.held}


def spell(value: object, known: Container[str]) -> Spelt:
    """Spell a strategy with today's names; empty for what cannot be read, which `parse_strategy` tells."""
    members = said_members(value)
    if members is None:
        return Spelt()
    found = [(name, options, alias_of(name, known) or Alias(name)) for name, options in members]
    return Spelt(
        tuple((alias.name, {**alias.options, **options}) for _, options, alias in found),
        tuple(dict.fromkeys(held for name, _, alias in found for held in _held(name, alias))),
        tuple(
            (name, option, alias.options[option], options[option])
            for name, options, alias in found
            for option in options
            if option in alias.options
        ),
    )


def said_members(value: object) -> Members | None:
    """Return a strategy's members as they were said; None for what is no strategy or cannot be read."""
    if isinstance(value, StrategySpec):
        members: Members = value.members
    elif isinstance(value, str):
        try:
            members = tuple(parse_calls(value))
        except Problem:
            return None
    else:
        return None
    if not all(isinstance(name, str) for name, _ in members):
        return None
    return tuple(
        (name.strip(), options)
        for names, options in members
        for name in ([names] if options else names.split("+"))  # StrategySpec("fsdp+tp") names two
    )


def is_auto(value: object) -> bool:
    """Whether a strategy, written as text or as an object, leaves the decision to the resolver."""
    members = said_members(value)
    return members is not None and len(members) == 1 and members[0][0].lower() == "auto" and not members[0][1]


def _held(name: str, alias: Alias) -> Iterator[tuple[str, str, str]]:
    for flag in SWALLOWED:
        value = getattr(alias, flag)
        if value is not None:
            yield name, flag, value
