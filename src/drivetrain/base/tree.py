"""Walk nested containers: the batches, states and outputs that users hand over."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any


def map_leaves(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any nesting
    """Return the same nesting with ``change`` applied to every leaf.

    Containers are mappings, lists, tuples (named ones too) and dataclass instances; an object with
    a ``.to`` method is a leaf. A container in which nothing changed is returned itself, not copied.
    """
    kind = type(value)
    if kind is list or kind is tuple:
        changed = [map_leaves(kept, change) for kept in value]
        return value if _same(changed, value) else kind(changed)
    if kind is dict:
        mapped = {key: map_leaves(kept, change) for key, kept in value.items()}
        return value if _same(mapped.values(), value.values()) else mapped
    if hasattr(value, "to"):
        return change(value)
    return _map_rare(value, change)


def _map_rare(value: Any, change: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any nesting
    if isinstance(value, tuple):
        changed = [map_leaves(kept, change) for kept in value]
        if _same(changed, value):
            return value
        return type(value)(*changed) if hasattr(value, "_fields") else type(value)(changed)
    if isinstance(value, (list, Mapping)):
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        mapped = {key: map_leaves(kept, change) for key, kept in items}
        if isinstance(value, Mapping) and not hasattr(value, "__setitem__"):
            return value if _same(mapped.values(), value.values()) else mapped
        return _replaced(value, mapped, "__setitem__", value.__getitem__)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [spec.name for spec in dataclasses.fields(value) if hasattr(value, spec.name)]
        kept = {name: map_leaves(getattr(value, name), change) for name in names}
        return _replaced(value, kept, "", lambda name: getattr(value, name))
    return change(value)


def _replaced(value: Any, items: Mapping[Any, Any], setter: str, get: Callable[[Any], Any]) -> Any:  # noqa: ANN401 - any nesting
    if all(get(key) is kept for key, kept in items.items()):
        return value
    twin = copy(value)
    for key, kept in items.items():
        if setter:
            getattr(twin, setter)(key, kept)
        else:
            object.__setattr__(twin, key, kept)
    return twin


def _same(left: Any, right: Any) -> bool:  # noqa: ANN401 - two iterables of one length
    return all(one is other for one, other in zip(left, right, strict=True))


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - any nesting
    """Yield every leaf of nested dicts, lists and tuples with the path that leads to it."""
    if isinstance(value, Mapping):
        for key, kept in value.items():
            yield from leaves(kept, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for index, kept in enumerate(value):
            yield from leaves(kept, f"{path}[{index}]")
    else:
        yield path, value
