"""Gather what was said about each flag, from every door, and refuse what was said twice.

Doors, most explicit first: the argument itself; a part held by the strategy object or given in
``plugins``; an old spelling; an environment variable ``DRIVETRAIN_<FLAG>``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from drivetrain.base.errors import Conflict, Fix, Notice
from drivetrain.base.loading import Later
from drivetrain.base.origin import UNSET, Origin, Sourced, is_said
from drivetrain.base.text import listed, nearest, show
from drivetrain.flags.problem import Problem
from drivetrain.resolver.aliases import ALIASES, REFUSED
from drivetrain.resolver.catalogue import Catalogue, facts_of, group_of
from drivetrain.resolver.facts import Facts
from drivetrain.resolver.spec import StrategySpec
from drivetrain.resolver.swallowed import is_auto, spell
from drivetrain.resolver.today import ORDER, flat, spelt_today

if TYPE_CHECKING:
    from drivetrain.resolver import legacy
    from drivetrain.resolver import written as writing
else:
    writing = Later("drivetrain.resolver.written")
    legacy = Later("drivetrain.resolver.legacy")

FLAGS = ORDER
"""The arguments that decide a plan, in the order in which they are explained."""

_PLUGIN_FLAGS = {
    "precisions": "precision",
    "environments": "environment",
    "checkpoint_ios": "checkpoint_io",
    "layer_syncs": "layer_sync",
}
_VARIABLE = "DRIVETRAIN_"
_OTHER_VARIABLES = ("DRIVETRAIN_NODE_RANK",)
_GPUS = ("gpu", "cuda", "xpu", "mps")
_DEVICES = {"gpus", "tpu_cores", "ipus"}
_TRAINER = "Trainer"


@dataclass
class Said:
    """What was said: one Sourced value a flag, the objects behind names, and what went wrong."""

    flags: dict[str, Sourced[Any]] = field(default_factory=dict)
    typed: dict[str, str] = field(default_factory=dict)
    """By flag: the name of the argument that the user typed: ``gpus`` for devices."""
    implied: list[tuple[str, Sourced[Any]]] = field(default_factory=list)
    facts: list[Facts] = field(default_factory=list)
    objects: dict[str, object] = field(default_factory=dict)
    trainer: dict[str, object] = field(default_factory=dict)
    twice: set[str] = field(default_factory=set)
    """Flags that were said twice: what else they break is not worth a word."""
    conflicts: list[Conflict] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)

    def add(self, flag: str, source: Sourced[Any], typed: str) -> None:
        """Note a value of a flag; a second one is a conflict that names both."""
        if flag not in self.flags or _is_auto(self.flags[flag].value):
            self.flags[flag], self.typed[flag] = source, typed
            return
        if _is_auto(source.value):
            return
        self.twice.add(flag)
        kept = self.flags[flag]
        shown = {self.typed[flag]: kept, typed if typed != self.typed[flag] else f"{typed} again": source}
        fixes: list[Fix] = [
            {name: UNSET} for name in (typed, self.typed[flag]) if name not in ("strategy", flag)
        ]
        fixes += [{name: UNSET} for name in (typed, self.typed[flag]) if name == flag]
        message = (
            f"{flag} is said twice: {self.typed[flag]}={show(kept.value)} and {typed}={show(source.value)}"
        )
        self.conflicts.append(
            Conflict(
                "plan.said-twice",
                message,
                shown,
                f"each decision has one flag; this one is {flag}",
                tuple(fixes),
            )
        )


def collect(
    arguments: Mapping[str, Sourced[Any]],
    old: Mapping[str, Sourced[Any]],
    variables: Mapping[str, str],
    catalogue: Catalogue,
    caller: str,
    version: str,
    others: Mapping[str, object] | None = None,
) -> Said:
    """Gather today's arguments, old spellings and variables into one value a flag.

    ``others`` are the call's arguments that are no flags; they only stand in the new call.
    """
    said = Said()
    reader = _Reader(said, catalogue, version)
    for flag, source in arguments.items():
        reader.argument(flag, source)
    for name, source in old.items():
        reader.old(name, source, old)
    for flag, source in said.implied:
        _imply(said, flag, source)
    reader.warn(caller, arguments, others or {})
    _read_variables(said, variables, catalogue)
    # "auto" has kept a variable from deciding; from here on it is the same as not said.
    said.flags = {flag: source for flag, source in said.flags.items() if not _is_auto(source.value)}
    return said


class _Reader:
    """Reads each door into a `Said`."""

    def __init__(self, said: Said, catalogue: Catalogue, version: str) -> None:
        self.said, self.catalogue, self.version = said, catalogue, version
        self.translated: list[tuple[legacy.Legacy, Sourced[Any]]] = []
        self.today: dict[str, object] = {}
        self.elsewhere: list[str] = []
        self.plugins: list[object] = []

    def argument(self, flag: str, source: Sourced[Any]) -> None:
        if flag == "plugins":
            self._plugins(source)
        elif flag == "accelerator" and self._is_strategy(source.value):
            self._translate(legacy.DOORS["accelerator"], source)
        elif flag == "strategy":
            self._strategy(source, "strategy")
        else:
            self._flag(flag, source, flag)

    def old(self, name: str, source: Sourced[Any], all_old: Mapping[str, Sourced[Any]]) -> None:
        row = legacy.LEGACY.get(name)
        if (
            name == "num_processes"
            and type(source.value) is int
            and source.value == 1
            and _DEVICES & {*all_old}
        ):
            # Its default, which said nothing beside devices.
            self.translated.append((legacy.LEGACY[name], source))
            return
        if row is not None:
            self._translate(row, source)
            return
        close = nearest(name, [*FLAGS, *legacy.LEGACY])
        fixes: tuple[Fix, ...] = (
            {name: UNSET, **({close: source.value} if close in FLAGS else {})},
            {name: UNSET},
        )
        because = f"the flags are: {listed(FLAGS)}"
        message = f"there is no flag {show(name)}" + (f"; the nearest is {close!r}" if close else "")
        self.said.conflicts.append(Conflict("plan.unknown-flag", message, {name: source}, because, fixes))

    def warn(self, caller: str, arguments: Mapping[str, Sourced[Any]], others: Mapping[str, object]) -> None:
        """Add a notice for each old spelling, with the whole call as it reads today."""
        if not self.translated:
            return
        doors = {row.name for row, _ in self.translated}
        kept = {flag: source.value for flag, source in arguments.items() if flag not in doors}
        if "plugins" in doors and self.plugins:
            kept["plugins"] = self.plugins
        flags = flat({**kept, **self.today}, self.catalogue)
        moved = {name: value for name, value in self.said.trainer.items() if name not in doors}
        is_whole = caller == _TRAINER
        calls = [
            writing.written_call(caller, {**flags, **others, **moved} if is_whole else {**flags, **others})
        ]
        calls += [writing.written_call(_TRAINER, moved)] if moved and not is_whole else []
        call = " and ".join([*calls, *self.elsewhere])
        for row, source in self.translated:
            message = (
                f"{row.name}={writing.brief(source.value)} is an old spelling since {row.since} "
                f"and ends with {row.removed}; write {call}"
            )
            self.said.notices.append(Notice("plan.legacy", message))
            if legacy.is_removed(row.removed, self.version):
                fix = {row.name: UNSET, **{name: value for name, value in flags.items() if name in FLAGS}}
                shown, because = {row.name: source}, f"this is release {self.version}"
                self.said.conflicts.append(Conflict("plan.legacy-removed", message, shown, because, (fix,)))

    def _translate(self, row: legacy.Legacy, source: Sourced[Any]) -> None:
        try:
            meaning = row.read(source.value)
        except Problem as problem:
            fixes = tuple(_renamed_fix(row.name, fix) for fix in problem.fixes)
            self.said.conflicts.append(
                Conflict("plan.legacy-value", problem.message, {row.name: source}, problem.because, fixes)
            )
            return
        if meaning.refused:
            message = f"{row.name}={writing.brief(source.value)} is gone since {row.since}: {meaning.refused}"
            self.said.conflicts.append(
                Conflict(
                    "plan.legacy-refused",
                    message,
                    {row.name: source},
                    "an old spelling without a like today is not guessed",
                    ({row.name: UNSET},),
                )
            )
            return
        self.translated.append((row, source))
        self._apply(row, source, meaning)

    def _apply(self, row: legacy.Legacy, source: Sourced[Any], meaning: legacy.Translation) -> None:
        reason = f"{row.name}={show(source.value)}" + (f", {source.reason}" if source.reason else "")
        for flag, value in meaning.flags.items():
            if flag == "strategy":
                self.today |= spelt_today(value, self.catalogue)
                self._strategy(Sourced(value, Origin.LEGACY, reason), row.name)
            else:
                self.today[flag] = value
                self._flag(flag, Sourced(value, Origin.LEGACY, reason), row.name)
        for flag, value in meaning.implies.items():
            self.said.implied.append((flag, Sourced(value, Origin.LEGACY, reason)))
            if flag not in self.said.flags or _is_auto(self.said.flags[flag].value):
                self.today.setdefault(flag, value)
        self.said.trainer.update(meaning.trainer)
        self.elsewhere += [meaning.elsewhere] if meaning.elsewhere else []

    def _is_strategy(self, value: object) -> bool:
        """Whether a value given as ``accelerator`` or in ``plugins`` names a strategy."""
        if isinstance(value, StrategySpec):
            return True
        if not isinstance(value, str) or value in self.catalogue.accelerators:
            return False
        name = value.lower().partition("(")[0].partition("+")[0].strip()
        return name in ALIASES or name in REFUSED or name in self.catalogue.strategies

    def _strategy(self, source: Sourced[Any], typed: str) -> None:
        """Note a strategy, and what its alias or object says about other flags."""
        value, said = source.value, self.said
        if self._refines(typed):
            said.flags.pop("strategy")
        said.add(
            "strategy", Sourced("auto", source.origin, source.reason) if is_auto(value) else source, typed
        )
        _read_alias(said, self.catalogue, source, typed)
        if isinstance(value, StrategySpec):
            for flag, held in value.parts.items():
                if not (self.said.typed.get(flag) == typed and _same(said.flags.get(flag), held)):
                    self._flag(flag, Sourced(held, Origin.OBJECT, f"held by {typed}={value}"), typed)

    def _refines(self, typed: str) -> bool:
        """``accelerator="ddp", plugins="ddp_sharded"`` was the documented way to say sharded ddp."""
        kept = self.said.flags.get("strategy")
        was_door = kept is not None and self.said.typed["strategy"] == "accelerator"
        return typed == "plugins" and was_door and (_same(kept, "ddp") or _same(kept, "ddp_spawn"))

    def _flag(self, flag: str, source: Sourced[Any], typed: str) -> None:
        """Note a flag's value; an object is replaced by its name and kept beside."""
        facts = None if isinstance(source.value, StrategySpec) else facts_of(source.value)
        if facts is None:
            self.said.add(flag, source, typed)
            return
        wanted = {
            "accelerator": "accelerators",
            "precision": "precisions",
            "environment": "environments",
            "checkpoint_io": "checkpoint_ios",
        }.get(flag)
        if group_of(facts) != wanted:
            message = f"{flag}={show(source.value)} is no {flag}"
            self.said.conflicts.append(
                Conflict(
                    "plan.wrong-object",
                    message,
                    {flag: source},
                    f"{flag} takes a name or an object with facts of this kind",
                    ({flag: UNSET},),
                )
            )
            return
        self._object(flag, facts, source, typed)

    def _object(self, flag: str, facts: Facts, source: Sourced[Any], typed: str) -> None:
        if getattr(self.catalogue, group_of(facts)).get(facts.name) is not source.value:
            self.said.facts.append(facts)
            self.said.objects[flag] = source.value
        self.said.add(flag, Sourced(facts.name, source.origin, source.reason), typed)

    def _plugins(self, source: Sourced[Any]) -> None:
        value = source.value
        items: Iterable[object] = value if isinstance(value, (list, tuple)) else (value,)
        for item in items:
            if self._is_strategy(item):
                self._translate(legacy.DOORS["plugins"], Sourced(item, source.origin, source.reason))
                continue
            self.plugins.append(item)
            facts = facts_of(item)
            flag = _PLUGIN_FLAGS.get(group_of(facts)) if facts is not None else None
            if facts is None or flag is None:
                self._not_a_plugin(item, source)
            else:
                self._object(flag, facts, Sourced(item, Origin.OBJECT, f"plugins=[{show(item)}]"), "plugins")

    def _not_a_plugin(self, item: object, source: Sourced[Any]) -> None:
        fixes: list[Fix] = [{"plugins": UNSET}]
        if isinstance(item, str) and item in self.catalogue.precisions:
            fixes.insert(0, {"plugins": UNSET, "precision": item})
        message = f"plugins holds {show(item)}, which is no plug-in"
        because = "plugins takes Precision, CheckpointIO, ClusterEnvironment, LayerSync objects, one of each"
        self.said.conflicts.append(
            Conflict("plan.plugin-kind", message, {"plugins": source}, because, tuple(fixes))
        )


def _imply(said: Said, flag: str, source: Sourced[Any]) -> None:
    """Apply a flag that an old spelling implies, unless a fitting value is said."""
    kept = said.flags.get(flag)
    fits = _same(kept, source.value) or (source.value == "gpu" and any(_same(kept, gpu) for gpu in _GPUS))
    if fits:
        return
    typed = source.reason.partition("=")[0]
    pair = {typed, said.typed.get(flag, typed)}
    if any(conflict.code == "plan.said-twice" and {*conflict.flags} == pair for conflict in said.conflicts):
        said.twice.add(flag)  # gpus=2 with tpu_cores=8 is one mistake, not one a flag
    else:
        said.add(flag, source, typed)


def _read_variables(said: Said, variables: Mapping[str, str], catalogue: Catalogue) -> None:
    known = {_VARIABLE + flag.upper(): flag for flag in FLAGS if flag != "plugins"}
    for name, text in variables.items():
        if not name.startswith(_VARIABLE) or not text.strip():
            continue
        flag = known.get(name)
        if flag is None and name not in _OTHER_VARIABLES:
            close = nearest(name, known)
            said.notices.append(
                Notice(
                    "plan.unknown-variable",
                    f"{name}={show(text)} is read by nobody; " + (f"write {close}" if close else "unset it"),
                )
            )
        elif flag is not None and flag in said.flags:
            kept = said.flags[flag]
            reason = "; ".join(filter(None, (kept.reason, f"stands above {name}={show(text)}")))
            said.flags[flag] = Sourced(kept.value, kept.origin, reason)
        elif flag is not None:
            said.flags[flag] = Sourced(text, Origin.VARIABLE, f"{name}={show(text)}")
            said.typed[flag] = name
    if said.typed.get("strategy") == _VARIABLE + "STRATEGY":
        _read_alias(said, catalogue, said.flags["strategy"], said.typed["strategy"])


def _read_alias(said: Said, catalogue: Catalogue, source: Sourced[Any], typed: str) -> None:
    """Note what old names in a strategy say of other flags; what stands above a variable is kept."""
    spelt = spell(source.value, catalogue.strategies)
    for _, flag, held in spelt.held:
        kept = said.flags.get(flag)
        if flag == "accelerator" and _same(kept, held):
            continue
        if source.origin is not Origin.VARIABLE or kept is None or kept.origin is Origin.VARIABLE:
            reason = source.reason or f"{typed}={show(source.value)}"
            said.add(flag, Sourced(held, source.origin, reason), typed)
    for name, option, old, given in spelt.twice:
        said.twice.add("strategy")
        fixes: list[Fix] = [{"strategy": spelt.text(given=given), **spelt.flags} for given in (True, False)]
        message = (
            f"{option} is said twice: {name!r} says {option}={show(old)}, and {option}={show(given)} is given"
        )
        because = f"{name!r} is another spelling of {spelt.text(given=False)!r}"
        said.conflicts.append(Conflict("plan.said-twice", message, {typed: source}, because, tuple(fixes)))


def _same(kept: Sourced[Any] | None, value: object) -> bool:
    return kept is not None and isinstance(kept.value, str) and isinstance(value, str) and kept.value == value


def _is_auto(value: object) -> bool:
    return isinstance(value, str) and value.strip().lower() == "auto"


def _renamed_fix(name: str, fix: Fix) -> Fix:
    """Turn a fix of today's flag into one that drops the old spelling."""
    return dict(fix) if name in fix else {name: UNSET, **fix}


def said_arguments(values: Mapping[str, Any], where: str) -> dict[str, Sourced[Any]]:
    """Return the arguments that the user gave, each with its origin and place."""
    return {
        name: Sourced(value, Origin.ARGUMENT, where.replace("{}", f"{name}={show(value)}"))
        for name, value in values.items()
        if is_said(value)
    }
