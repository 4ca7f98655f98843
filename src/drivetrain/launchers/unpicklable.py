"""Finds what in a piece of work does not pickle, and how a user would write the way to it."""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import types
from collections.abc import Iterator
from typing import Any

_DEEPEST = 30


def find_unpicklable(work: object) -> tuple[str, object, str]:
    """Return path, value and reason: ``("trainer.callbacks[0].lock", <lock>, "cannot pickle ...")``.

    Follows the first part that fails, from part to part, until no part of it fails by itself.
    """
    path, value, reason = "", work, ""
    seen: set[int] = set()
    for _ in range(_DEEPEST):
        seen.add(id(value))
        for step, part in _parts(value):
            if id(part) in seen:
                continue
            failure = _failure(part)
            if failure:
                path, value, reason = _join(path, step), part, failure
                break
        else:
            break
    return path, value, reason or _failure(work)


def _failure(value: object) -> str:
    """Return why the value does not pickle, or nothing; tensors always do and are skipped."""
    import cloudpickle
    import torch

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle has no types
        def persistent_id(self, obj: Any) -> str | None:  # noqa: ANN401 - pickle's own signature
            return "tensor" if isinstance(obj, torch.Tensor) else None

    try:
        Pickler(io.BytesIO()).dump(value)
    except Exception as error:  # noqa: BLE001 - __reduce__ may raise anything
        return str(error) or type(error).__name__
    return ""


def _join(path: str, step: str) -> str:
    return f"{path}{step}" if path else step.lstrip(".")


def _parts(value: Any) -> Iterator[tuple[str, object]]:  # noqa: ANN401 - any object whatever
    """Yield the parts that pickle would send, each with the text that leads to it."""
    if isinstance(value, dict):
        yield from ((f"[{key!r}]", part) for key, part in value.items())
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from ((f"[{index}]", part) for index, part in enumerate(value))
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
        yield from _parts(value.__func__)
    elif isinstance(value, types.FunctionType):
        yield from _of_function(value)
    elif isinstance(value, functools.partial):
        yield from _of_partial(value)
    elif isinstance(value, type):
        yield from ((f".{name}", part) for name, part in vars(value).items() if not name.startswith("__"))
    else:
        yield from ((f".{name}", part) for name, part in _state(value).items())
        if isinstance(value, (list, dict)):
            yield "", list(value)


def _of_function(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a variable of the enclosing function that is not set yet
            yield f".{name}", cell.cell_contents
    for name, default in inspect.signature(function).parameters.items():
        if default.default is not inspect.Parameter.empty:
            yield f".{name}", default.default
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield f".{name}", function.__globals__[name]


def _of_partial(partial: functools.partial[Any]) -> Iterator[tuple[str, object]]:
    try:
        names = list(inspect.signature(partial.func).parameters)
    except (TypeError, ValueError):
        names = []
    for index, part in enumerate(partial.args):
        yield f".{names[index] if index < len(names) else f'args[{index}]'}", part
    yield from ((f".{name}", part) for name, part in partial.keywords.items())
    yield "", partial.func


def _state(value: Any) -> dict[str, object]:  # noqa: ANN401 - any object whatever
    """Return what an object says that it consists of, by attribute."""
    try:
        state = value.__getstate__() if hasattr(value, "__getstate__") else vars(value)
    except Exception:  # noqa: BLE001 - __getstate__ may raise anything
        return {}
    parts = [part for part in (state if isinstance(state, tuple) else (state,)) if isinstance(part, dict)]
    flat = {str(name): part for found in parts for name, part in found.items()}
    # torch modules keep their children in dictionaries of private names; users write the child's name.
    for private in ("_modules", "_parameters", "_buffers"):
        flat.update(flat.pop(private, {}) if isinstance(flat.get(private), dict) else {})
    return flat
