"""Values and calls as the code that a user would write, for the new call that a warning prints."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import os
from collections.abc import Iterator, Mapping

from drivetrain.base.text import Code, show
from drivetrain.resolver.spec import PARTS, StrategySpec

_OURS = __name__.partition(".")[0]
_DEEPEST, _WIDEST = 5, 100


def written(value: object) -> str:
    """Write a value as code that makes it again, texts in double quotes.

    An object is written with its constructor's arguments where it keeps them under their names; one that
    does not is shown as ``Name(...)``, which stands for the object that the user has.
    """
    try:
        return _written(value, 0)
    except Exception:  # noqa: BLE001 - a foreign object may raise anything from anything
        return show(value)


def brief(value: object) -> str:
    """Write a value as `written` does, shortened to stand in a message."""
    return show(Code(written(value)))


def written_call(caller: str, values: Mapping[str, object]) -> str:
    """Write a call with keyword arguments: ``plan(accelerator="gpu", devices=2)``."""
    return f"{caller}({written_arguments(values)})"


def written_arguments(values: Mapping[str, object]) -> str:
    """Write keyword arguments: ``accelerator="gpu", devices=2``."""
    return ", ".join(f"{name}={written(value)}" for name, value in values.items())


def _written(value: object, depth: int) -> str:
    if isinstance(value, StrategySpec):
        return _spec(value)
    if isinstance(value, str) and not isinstance(value, Code):
        text = json.dumps(str(value), ensure_ascii=False)
        return text if text.isprintable() else repr(str(value))
    if isinstance(value, (list, tuple, dict)) and depth < _DEEPEST and len(value) <= _WIDEST:
        return _nested(value, depth + 1)
    try:
        return _scalar(value) or _object(value, depth)
    except Exception:  # noqa: BLE001 - as above; what holds the object is still written
        return show(value)


def _scalar(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, type):
        return value.__name__
    return show(value) if isinstance(value, (Code, int, float, complex, bytes, type(None))) else ""


def _nested(value: object, depth: int) -> str:
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_written(key, depth)}: {_written(kept, depth)}" for key, kept in value.items())
            + "}"
        )
    if isinstance(value, tuple):
        return (
            "(" + ", ".join(_written(kept, depth) for kept in value) + ("," if len(value) == 1 else "") + ")"
        )
    assert isinstance(value, list)  # noqa: S101 - ours: nothing else comes here
    return "[" + ", ".join(_written(kept, depth) for kept in value) + "]"


def _spec(spec: StrategySpec) -> str:
    """Write a strategy: as text, or as objects where it holds parts."""
    parts = {name: held for name, held in spec.parts.items() if name in PARTS}
    if not parts:
        return _written(str(spec), 0)
    pieces = []
    for name, options in spec.members:
        pieces.append(f"dt.StrategySpec({', '.join([_written(name, 0), *_keywords({**options, **parts})])})")
        parts = {}
    return " + ".join(pieces)


def _keywords(values: Mapping[str, object]) -> Iterator[str]:
    return (f"{name}={written(value)}" for name, value in values.items())


def _object(value: object, depth: int) -> str:
    if isinstance(value, os.PathLike):
        return _written(os.fspath(value), depth)
    kind = type(value)
    prefix = "dt." if kind.__module__.partition(".")[0] == _OURS else ""
    given: list[str] = []
    held: Mapping[str, object] = getattr(value, "__dict__", {})
    for place, one in enumerate(inspect.signature(kind).parameters.values()):
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD) or one.name not in held:
            return f"{prefix}{kind.__name__}(...)" if type(value).__repr__ is object.__repr__ else show(value)
        mine = held[one.name]
        if place == 0 and one.kind is not one.KEYWORD_ONLY:
            given.append(_written(mine, depth + 1))
        elif not (mine is one.default or (type(mine) is type(one.default) and mine == one.default)):
            given.append(f"{one.name}={_written(mine, depth + 1)}")
    is_shown = prefix or type(value).__repr__ is object.__repr__ or dataclasses.is_dataclass(value)
    return f"{prefix}{kind.__name__}({', '.join(given)})" if is_shown else show(value)
