"""Old class names: calling one gives today's strategy, with a warning that prints the new call."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from drivetrain._version import __version__
from drivetrain.base.caller import caller
from drivetrain.base.errors import Conflict, DrivetrainDeprecationWarning, Fix, Notice, PlanError
from drivetrain.base.origin import UNSET, Origin, Sourced
from drivetrain.base.text import listed, show
from drivetrain.flags.problem import Problem
from drivetrain.resolver.aliases import ALIASES, Alias
from drivetrain.resolver.catalogue import Catalogue, facts_of, in_force
from drivetrain.resolver.facts import Facts
from drivetrain.resolver.legacy import is_removed
from drivetrain.resolver.old_classes import OLD_NAMES, OldName
from drivetrain.resolver.spec import PARTS, StrategySpec, check_options, holding
from drivetrain.resolver.today import flat
from drivetrain.resolver.written import written_arguments


def old_class(name: str, version: str = __version__) -> Callable[..., StrategySpec | Facts] | None:
    """Return what an old class name stands for, or None for a name that never was one."""
    row = OLD_NAMES.get(name)
    if row is None:
        return None

    def make(*given: Any, **named: Any) -> StrategySpec | Facts:  # noqa: ANN401 - arguments are checked one by one
        return _Translator(row, version, given, named).made()

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Old name of ``{row.strategy or name}``; warns and prints the new call."
    return make


def as_before(row: OldName, given: tuple[object, ...], named: dict[str, object]) -> StrategySpec:
    """Read a strategy's arguments as its class took them, without a warning.

    Raises:
        PlanError [plan.legacy-refused]: there is nothing like it.
        PlanError [plan.legacy-value]: an argument has a value that cannot be kept.
        PlanError [plan.strategy-option]: an argument is no option of the strategy.
    """
    made = _Translator(row, __version__, given, named).read()
    assert isinstance(made, StrategySpec), "the row is a strategy's"  # noqa: S101 - our own bug
    return made


_ENDINGS = {"Mixed": "-mixed", "Half": "16-true"}
"""By a word in an old precision's class name: how the precisions that it had end."""


class _Translator:
    """Reads one call of an old class."""

    def __init__(
        self, row: OldName, version: str, given: tuple[object, ...], named: dict[str, object]
    ) -> None:
        self.row, self.version, self.given, self.named = row, version, given, named
        self.options: dict[str, Any] = {}
        self.flags: dict[str, object] = {}
        self.catalogue: Catalogue = in_force()
        call = [show(value) for value in given] + [f"{name}={show(value)}" for name, value in named.items()]
        self.source = Sourced[object](row.name, Origin.LEGACY, f"{row.name}({', '.join(call)})")

    def read(self) -> StrategySpec | Facts:
        row = self.row
        if row.refused:
            why, instead = row.refused
            message = f"{row.name} is gone since {row.since}: {why}; write {instead}"
            flag, _, value = instead.partition("=")
            fixes: tuple[Fix, ...] = ({flag: value.strip('"')},)
            raise PlanError((Conflict("plan.legacy-refused", message, {flag: self.source}, why, fixes),))
        arguments = self._bound()
        return self._plugin(arguments) if row.plugin else self._strategy(arguments)

    def made(self) -> StrategySpec | Facts:
        row, made = self.row, self.read()
        key = "strategy" if isinstance(made, StrategySpec) else "plugins"
        today = flat({key: made}, self.catalogue)
        text = (
            f"{row.name} is an old name since {row.since} and ends with {row.removed}; "
            f"write {written_arguments(today)}"
        )
        if is_removed(row.removed, self.version):
            raise self._error("plan.legacy-removed", text, f"this is release {self.version}")
        warnings.warn(str(Notice("plan.legacy", text)), DrivetrainDeprecationWarning, stacklevel=caller()[1])
        return made

    def _bound(self) -> dict[str, object]:
        """Return the arguments by name, those that are None left out."""
        places = self.row.positional
        named = dict(zip(places, self.given, strict=False))
        again = named.keys() & self.named.keys()
        if len(self.given) > len(places) or again:
            name = (
                f"{min(again)} is given twice"
                if again
                else "arguments without names changed between releases"
            )
            message = f"{self.source.reason} cannot be read: {name}"
            because = f"{self.row.name} takes without names: {listed(places)}"
            raise self._error("plan.legacy-value", message, because)
        return {name: value for name, value in {**named, **self.named}.items() if value is not None}

    def _strategy(self, arguments: Mapping[str, object]) -> StrategySpec:
        row = self.row
        alias = ALIASES.get(row.strategy, Alias(row.strategy))
        for name, value in arguments.items():
            self._read(name, value, arguments)
        for flag in ("launcher", "accelerator"):
            if (held := getattr(alias, flag)) is not None:
                self._add(self.flags, flag, held)
        for option, value in alias.options.items():
            self._add(self.options, option, value)
        facts = self.catalogue.strategies[alias.name]
        found = check_options(facts, self.options, Origin.LEGACY, self.source.reason)
        if found:
            raise PlanError(tuple(found))
        member, beside = (alias.name, self.options), (row.beside, dict[str, Any]())
        return holding(StrategySpec.of((beside, member) if row.beside else (member,)), self.flags)

    def _read(self, name: str, value: object, arguments: Mapping[str, object]) -> None:
        reader = self.row.keywords.get(name)
        if reader is None:
            self._add(self.flags if name in PARTS else self.options, name, value)
            return
        try:
            read = reader(value, arguments)
        except Problem as problem:
            message = f"{self.row.name}({name}={show(value)}): {name} {problem.message}"
            raise self._error("plan.legacy-value", message, problem.because) from None
        for option, said in read.options.items():
            self._add(self.options, option, said)
        for flag, said in read.flags.items():
            self._add(self.flags, flag, said)

    def _add(self, table: dict[str, Any], name: str, value: object) -> None:
        """Note what an argument or the name itself says; another value for the same is a conflict."""
        if name not in table:
            table[name] = value
            return
        kept = table[name]
        if name == "accelerator":
            both = {self._kind(kept), self._kind(value)}
            gpus = {facts.name for facts in self.catalogue.accelerators.values() if facts.is_gpu}
            if len(both) == 1 or ("gpu" in both and both & gpus):
                table[name] = kept if isinstance(value, str) and kept != "gpu" else value
                return
        elif type(kept) is type(value) and isinstance(value, (str, bool, int, float)) and kept == value:
            return
        message = f"{self.source.reason} says {name} twice: {show(kept)} and {show(value)}"
        raise self._error("plan.said-twice", message, f"each decision has one flag; this one is {name}")

    @staticmethod
    def _kind(accelerator: object) -> object:
        facts = facts_of(accelerator)
        return facts.name if facts is not None else accelerator if isinstance(accelerator, str) else None

    def _plugin(self, arguments: Mapping[str, object]) -> Facts:
        group, name = self.row.plugin or ("", "")
        table: Mapping[str, Facts] = getattr(self.catalogue, group)
        rest = dict(arguments)
        if not name:
            name = self._precision(rest.pop("precision", None))
            rest.pop("device", None)  # arithmetic is done where the accelerator is
        if rest:
            lost = ", ".join(f"{key}={show(value)}" for key, value in rest.items())
            message = f"{self.row.name} cannot keep {lost}"
            fix: Fix = dict.fromkeys(rest, UNSET)
            raise self._error("plan.legacy-value", message, "what cannot be kept is refused", fix)
        return table[name]

    def _precision(self, precision: object) -> str:
        text = str(precision) if isinstance(precision, (str, int)) and not isinstance(precision, bool) else ""
        name = self.catalogue.precision_aliases.get(text, text)
        ending = next((ending for word, ending in _ENDINGS.items() if word in self.row.name), "")
        took = [known for known in self.catalogue.precisions if known.endswith(ending)]
        if name not in took:
            message = f"{self.row.name}(precision={show(precision)}) is no precision that it had"
            raise self._error(
                "plan.legacy-value", message, f"precisions: {listed(took)}", {"precision": took[0]}
            )
        return name

    def _error(self, code: str, message: str, because: str, *fixes: Fix) -> PlanError:
        flag = {"precisions": "precision", "environments": "environment"}.get(
            (self.row.plugin or ("",))[0], ""
        )
        return PlanError((Conflict(code, message, {flag or "strategy": self.source}, because, fixes),))
