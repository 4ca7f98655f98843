"""A strategy as a value: its name, its options, and parts that the user put into it.

``"fsdp(cpu_offload=true)"`` and ``FSDPStrategy(cpu_offload=True)`` are the same value. A spec is
frozen: one object serves any number of Trainers, and nothing is ever written into it.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar

from drivetrain.base.errors import Conflict, PlanError
from drivetrain.base.origin import UNSET, Origin, Sourced
from drivetrain.base.text import listed, nearest, show
from drivetrain.flags.calls import Value, write_call
from drivetrain.resolver.facts import Option, StrategyFacts

PARTS = ("accelerator", "devices", "precision", "environment", "checkpoint_io")
"""What a strategy object may hold beside its options; each is a flag with origin OBJECT."""
_OWN_FLAGS = (*PARTS, "launcher", "num_nodes", "sync_batchnorm")
"""What is no option of any strategy, since it has a flag of its own."""


class StrategySpec:
    """A strategy's name and options: ``StrategySpec("ddp", static_graph=True)``.

    It may also hold parts: accelerator, devices, precision, environment, checkpoint_io.
    ``str()`` writes it so that ``strategy=`` reads the same back; ``a + b`` composes. ``options``
    holds what was said, not the defaults; of a composition, the options by member.
    """

    __slots__ = ("_members", "_parts")
    _members: tuple[tuple[str, Mapping[str, Value]], ...]
    _parts: Mapping[str, object]

    def __init__(self, name: str, /, **arguments: Any) -> None:  # noqa: ANN401 - checked when resolved
        parts = {part: arguments.pop(part) for part in PARTS if part in arguments}
        # What is no text is refused where names are read, with everything else that is wrong.
        said = {part: held for part, held in parts.items() if held is not None}
        _store(self, ((str(name), arguments),), said)

    @classmethod
    def of(cls, members: tuple[tuple[str, Mapping[str, Value]], ...]) -> StrategySpec:
        """Make a spec from names with their options, in order."""
        spec = object.__new__(StrategySpec)
        _store(spec, members, {})
        return spec

    @property
    def name(self) -> str:
        """The flag's value without options: ``ddp``, ``fsdp+tp``."""
        return "+".join(name for name, _ in self._members)

    @property
    def options(self) -> Mapping[str, Any]:
        """The options that were said; of a composition, a mapping by member's name."""
        if len(self._members) == 1:
            return self._members[0][1]
        return MappingProxyType({name: options for name, options in self._members if options})

    @property
    def members(self) -> tuple[tuple[str, Mapping[str, Value]], ...]:
        """Each member's name and options; one for a strategy that is no composition."""
        return self._members

    @property
    def parts(self) -> Mapping[str, object]:
        """What the object holds beside options: accelerator, precision, checkpoint_io, ..."""
        return self._parts

    def __add__(self, other: StrategySpec) -> StrategySpec:
        """Compose: ``FSDPStrategy() + TPStrategy(size=2)``.

        Raises:
            PlanError [plan.said-twice]: both hold the same part.
        """
        if not isinstance(other, StrategySpec):
            return NotImplemented
        if twice := [*_held_by_both(self, other)]:
            raise PlanError(tuple(twice))
        spec = object.__new__(StrategySpec)
        _store(spec, self._members + other._members, {**self._parts, **other._parts})
        return spec

    def __eq__(self, other: object) -> bool:
        """Equal names and options; a string's spec equals an object's."""
        if not isinstance(other, StrategySpec):
            return NotImplemented
        return str(self) == str(other)

    def __hash__(self) -> int:
        """Hash by what `str` writes."""
        return hash(str(self))

    def __str__(self) -> str:
        """Write the spec so that it parses back."""
        return "+".join(write_call(name, options) for name, options in self._members)

    def __repr__(self) -> str:
        """Show the text that stands for it."""
        return repr(str(self))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse: a spec is used by many Trainers."""
        message = f"a strategy object is frozen; make a new one with {name}={show(value)}"
        raise AttributeError(message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as plain data."""
        return _load, (tuple((name, dict(options)) for name, options in self._members), dict(self._parts))


class NamedSpec(StrategySpec):
    """Base of the strategies' own classes: ``DDPStrategy(static_graph=True, precision="bf16-mixed")``.

    A subclass names its facts; its keyword arguments are the options that the facts declare, and
    the parts: accelerator, devices, precision, environment, checkpoint_io.

    Raises:
        PlanError [plan.strategy-option]: an option is not known, or its value is of the wrong kind.
    """

    __slots__ = ()
    facts: ClassVar[StrategyFacts]

    def __init_subclass__(cls) -> None:
        """Give the class the signature that its facts declare, for help and editors."""
        keyword = inspect.Parameter.KEYWORD_ONLY
        defaults = {name: option.default for name, option in cls.facts.options.items()} | dict.fromkeys(PARTS)
        cls.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read by inspect.signature
            [inspect.Parameter(name, keyword, default=default) for name, default in defaults.items()]
        )

    def __init__(self, *unnamed: Any, **arguments: Any) -> None:  # noqa: ANN401 - options are checked one by one
        if unnamed:
            raise PlanError((_unnamed(self, unnamed),))
        parts = {name: arguments.pop(name) for name in PARTS if name in arguments}
        reason = f"{type(self).__name__}(...)"
        found = [*check_options(self.facts, arguments, Origin.ARGUMENT, reason)]
        if found:
            raise PlanError(tuple(found))
        said = {name: value for name, value in arguments.items() if value is not UNSET}
        _store(self, ((self.facts.name, said),), {k: v for k, v in parts.items() if v is not None})


def _unnamed(spec: NamedSpec, values: tuple[object, ...]) -> Conflict:
    facts, shown = spec.facts, ", ".join(map(show, values))
    call = f"{type(spec).__name__}({shown})"
    return Conflict(
        "plan.strategy-option",
        f"strategy {facts.name!r} takes its options by name, not {shown} by place",
        {"strategy": Sourced[object](call, Origin.ARGUMENT, f"{type(spec).__name__}(...)")},
        f"{facts.name!r} has the options: {listed(facts.options)}; hardware has flags: accelerator, devices",
        ({"strategy": facts.name},),
    )


def _held_by_both(one: StrategySpec, other: StrategySpec) -> Iterator[Conflict]:
    for part in sorted(one.parts.keys() & other.parts.keys()):
        names = [str(one), str(other) if str(other) != str(one) else f"{other} again"]
        first, second = one.parts[part], other.parts[part]
        said = [
            f"{name} holds {part}={show(value)}" for name, value in zip(names, (first, second), strict=True)
        ]
        message = f"{part} is said twice: {', '.join(said)}"
        shown = {
            name: Sourced[object](value, Origin.OBJECT, f"{part} of a strategy object")
            for name, value in zip(names, (first, second), strict=True)
        }
        yield Conflict("plan.said-twice", message, shown, "the members of a composition share one run")


def check_options(
    facts: StrategyFacts, options: Mapping[str, object], origin: Origin, reason: str
) -> list[Conflict]:
    """Return a conflict for each option that is not known or whose value is of the wrong kind."""
    found = []
    for name, value in options.items():
        problem = _problem(facts, name, value)
        if problem is None:
            continue
        fixed = {key: kept for key, kept in options.items() if _problem(facts, key, kept) is None}
        close = nearest(name, facts.options)
        beside: dict[str, object] = {}
        if name in _OWN_FLAGS and name not in facts.options:
            problem, beside = f"{name} is a flag of its own", {name: value}
        elif name not in facts.options and close and _problem(facts, close, value) is None:
            fixed[close] = value
        else:
            problem += f"; the hint is without {name}"
        fixes = ({"strategy": write_call(facts.name, fixed), **beside},)  # type: ignore[arg-type]  # checked just above
        message = f"strategy {facts.name!r} cannot take {name}={show(value)}"
        source = Sourced[object](f"{facts.name}({name}={show(value)})", origin, reason)
        found.append(Conflict("plan.strategy-option", message, {"strategy": source}, problem, fixes))
    return found


def _problem(facts: StrategyFacts, name: str, value: object) -> str | None:
    option = facts.options.get(name)
    if option is None:
        return f"{facts.name!r} has the options: {listed(facts.options)}"
    if not _fits(option, value):
        kinds = (
            " or ".join(kind.__name__ for kind in option.kinds)
            if not option.choices
            else "one of " + listed(map(repr, option.choices))
        )
        limit = "" if option.least is None else f", at least {option.least:g}"
        return f"{name!r} ({option.doc}) is {kinds}{limit}"
    return None


def _fits(option: Option, value: object) -> bool:
    if value is option.default or (value is None and option.default is None):
        return True
    if option.choices:
        return any(type(value) is type(choice) and value == choice for choice in option.choices)
    kinds = (*option.kinds, int) if float in option.kinds else option.kinds
    if type(value) not in kinds:
        return False
    if isinstance(value, (list, dict)):
        return _is_plain(value)
    if isinstance(value, float) and not abs(value) < float("inf"):
        return False
    return option.least is None or (
        isinstance(value, (int, float)) and (isinstance(value, bool) or value >= option.least)
    )


_DEEPEST = 50


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, dict):
        return depth < _DEEPEST and all(
            type(key) is str and _is_plain(kept, depth + 1) for key, kept in value.items()
        )
    if isinstance(value, list):
        return depth < _DEEPEST and all(_is_plain(kept, depth + 1) for kept in value)
    if isinstance(value, float):
        return abs(value) < float("inf")
    return value is None or type(value) in (bool, int, str)


def _store(
    spec: StrategySpec,
    members: tuple[tuple[str, Mapping[str, Value]], ...],
    parts: Mapping[str, object],
) -> None:
    frozen = tuple((name, MappingProxyType(dict(sorted(options.items())))) for name, options in members)
    object.__setattr__(spec, "_members", frozen)
    object.__setattr__(spec, "_parts", MappingProxyType(dict(parts)))


def spec_with(name: str, options: Mapping[str, Value], parts: Mapping[str, object]) -> StrategySpec:
    """Make a spec with parts beyond those that a user may give, such as an old name's launcher."""
    return _load(((name, options),), parts)


def holding(spec: StrategySpec, parts: Mapping[str, object]) -> StrategySpec:
    """Return the same strategy with these parts in place of its own."""
    return _load(spec.members, parts)


def _load(members: tuple[tuple[str, Mapping[str, Value]], ...], parts: Mapping[str, object]) -> StrategySpec:
    spec = object.__new__(StrategySpec)
    _store(spec, members, parts)
    return spec
