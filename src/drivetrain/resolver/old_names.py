"""Old class names: calling one gives today's strategy, with a warning that prints the new call."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from drivetrain._version import __version__
from drivetrain.base.caller import caller
from drivetrain.base.errors import Conflict, DrivetrainDeprecationWarning, Notice, PlanError
from drivetrain.base.origin import Origin, Sourced
from drivetrain.base.text import arguments
from drivetrain.resolver.aliases import ALIASES, REFUSED, Alias
from drivetrain.resolver.catalogue import in_force
from drivetrain.resolver.legacy import OLD_NAMES, OldName, is_removed
from drivetrain.resolver.spec import PARTS, StrategySpec, check_options, spec_with


def old_class(name: str, version: str = __version__) -> Callable[..., StrategySpec] | None:
    """Return what an old class name stands for, or None for a name that never was one."""
    row = OLD_NAMES.get(name)
    if row is None:
        return None

    def make(**given: Any) -> StrategySpec:  # noqa: ANN401 - options are checked one by one
        return _translate(row, given, version)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"Old name of ``{row.strategy or 'Strategy'}``; warns and prints the new call."
    return make


def _translate(row: OldName, given: dict[str, Any], version: str) -> StrategySpec:
    source = Sourced[object](row.name, Origin.LEGACY, f"{row.name}({arguments(given)})")
    if not row.strategy or row.strategy in REFUSED:
        why, instead = REFUSED.get(row.strategy, ("an algorithm of your own implements dt.Strategy", "ddp"))
        message = f'{row.name} is gone since {row.since}: {why}; write strategy="{instead}"'
        raise PlanError(
            (Conflict("plan.legacy-refused", message, {"strategy": source}, why, ({"strategy": instead},)),)
        )
    alias = ALIASES.get(row.strategy, Alias(row.strategy))
    given = {row.renamed.get(name, name): value for name, value in given.items() if value is not None}
    parts: dict[str, object] = {name: given.pop(name) for name in PARTS if name in given}
    if "device" in given:
        kind, _, index = str(given.pop("device")).partition(":")
        parts |= {
            "accelerator": kind,
            **({"devices": [int(index)]} if index.isdecimal() and kind != "cpu" else {}),
        }
    options = {**alias.options, **given}
    found = check_options(in_force().strategies[alias.name], options, Origin.LEGACY, source.reason)
    if found:
        raise PlanError(tuple(found))
    today = [f"strategy={_call(alias.name, options, parts)}"]
    if alias.accelerator is not None:
        parts["accelerator"] = alias.accelerator
    if alias.launcher is not None:
        parts["launcher"] = alias.launcher
        today.append(f'launcher="{alias.launcher}"')
    text = (
        f"{row.name} is an old name since {row.since} and ends with {row.removed}; write {', '.join(today)}"
    )
    if is_removed(row, version):
        raise PlanError(
            (Conflict("plan.legacy-removed", text, {"strategy": source}, f"this is release {version}"),)
        )
    warnings.warn(str(Notice("plan.legacy", text)), DrivetrainDeprecationWarning, stacklevel=caller()[1])
    return spec_with(alias.name, options, parts)


def _call(name: str, options: dict[str, Any], parts: dict[str, object]) -> str:
    spec = str(StrategySpec(name, **options))
    if not parts:
        return f'"{spec}"'
    return f'dt.StrategySpec("{name}", {arguments({**options, **parts})})'
