"""Hyperparameters as plain data: nested for files, flat for what only knows names and values."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import functools
import inspect
import os
import types
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

import torch

from drivetrain.base.errors import LoggerError
from drivetrain.base.text import show

Scalar: TypeAlias = "bool | int | float | str | None"
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"

_LARGEST = 32
"""Elements up to which a tensor or array is written out."""


def plain(params: Any) -> dict[str, Any]:
    """Return a mapping, namespace or dataclass as nested dicts and lists of scalars.

    What is no data is told by its name (functions, classes) or its shortened ``repr`` (other objects).
    """
    found = _plain(params, ())
    return found if isinstance(found, dict) else {"params": found} if params is not None else {}


def flat(params: Any) -> dict[str, Scalar]:
    """Return one level: ``{"optimizer/lr": 0.1}``; a list of scalars is one text.

    Raises:
        LoggerError [logger.name-clash]: two entries would have one name.
    """
    found: dict[str, Scalar] = {}
    for name, value in _flat(plain(params), ""):
        if name in found:
            raise LoggerError(
                "logger.name-clash",
                f"two hyperparameters are called {name!r}",
                values={name: [found[name], value]},
                because="nested ones are written as outer/inner",
                hint="rename one of them",
            )
        found[name] = value
    return found


def as_yaml(params: Mapping[str, Any]) -> str:
    """Return plain parameters as YAML, in their order."""
    import yaml

    return str(yaml.safe_dump(dict(params), sort_keys=False, allow_unicode=True))


def _plain(value: Any, above: tuple[int, ...]) -> Plain:
    if value is None or type(value) in (bool, int, float, str):
        return value  # type: ignore[no-any-return]  # one of these types
    if isinstance(value, enum.Enum):
        return _plain(value.value, above)
    if (members := _members(value)) is not None:
        if id(value) in above:
            return "..."  # it holds itself
        above = (*above, id(value))
        if isinstance(members, dict):
            return {str(_plain(key, above)): _plain(kept, above) for key, kept in members.items()}
        return [_plain(kept, above) for kept in members]
    return _leaf(value)


def _members(value: Any) -> dict[Any, Any] | list[Any] | None:
    if isinstance(value, (argparse.Namespace, types.SimpleNamespace)) or _is_config(value):
        return dict(vars(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return dict(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name, None) for one in dataclasses.fields(value)}
    if isinstance(value, (list, tuple, range)):
        return list(value)
    if isinstance(value, AbstractSet):
        return sorted(value, key=repr)
    return None


def _is_config(value: Any) -> bool:
    """Whether it is a Namespace of jsonargparse, which is none of argparse."""
    return type(value).__name__ == "Namespace" and type(value).__module__.startswith("jsonargparse")


def _leaf(value: Any) -> Plain:
    for kind in (bool, int, float, str):  # a subclass, such as numpy.float64
        if isinstance(value, kind):
            return kind(value)
    if isinstance(value, os.PathLike):
        return os.fsdecode(value)
    if isinstance(value, functools.partial):
        given = [*map(show, value.args), *(f"{name}={show(one)}" for name, one in value.keywords.items())]
        return f"{_named(value.func)}({', '.join(given)})"
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, type) or inspect.isroutine(value):
        return _named(value)
    return _array(value)


def _named(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return (
        f"{value.__module__}.{name}" if name and getattr(value, "__module__", None) else name or show(value)
    )


def _array(value: Any) -> Plain:
    """Return a tensor's or array's numbers, if they are few; anything else as text."""
    shape, tolist = getattr(value, "shape", None), getattr(value, "tolist", None)
    if isinstance(shape, tuple) and callable(tolist):
        size = 1
        for one in shape:
            size *= one
        return _plain(tolist(), ()) if size <= _LARGEST else f"{type(value).__name__} {tuple(shape)}"
    return show(value)


def _flat(value: Plain, name: str) -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, dict) and (value or not name):
        for key, kept in value.items():
            yield from _flat(kept, f"{name}/{key}" if name else key)
    elif isinstance(value, list) and any(isinstance(kept, (dict, list)) for kept in value):
        for index, kept in enumerate(value):
            yield from _flat(kept, f"{name}/{index}")
    elif isinstance(value, (dict, list)):
        yield name, str(value)
    else:
        yield name, value
