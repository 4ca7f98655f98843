"""What a checkpoint may hold: tensors and plain containers, so that reading executes nothing."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any, final

import torch

from drivetrain.base.errors import CheckpointError
from drivetrain.base.text import kind_name
from drivetrain.base.tree import leaves

_PLAIN = frozenset((bool, float, complex, str, type(None)))
_LOOSE = (str, float, complex, int, bytes)
"""Numbers and texts; a value of a derived type (an enum's, numpy's) is saved as what it is derived from."""
_TORCH = (torch.dtype, torch.device, torch.Size, torch.layout)
_TENSORS = (torch.Tensor, torch.nn.Parameter)
_LONGEST_INT = 255 * 8 - 1
"""Bits; of what a pickle can hold, the restricted unpickler reads these."""
_DEEPEST = 100


def as_plain(
    checkpoint: dict[str, Any],
    path: object,
    take: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor,
    *,
    is_copy: bool = False,
) -> dict[str, Any]:
    """Return the checkpoint as ``torch.load(weights_only=True)`` can read it back; ``take`` gets each tensor.

    A container in which nothing changes is returned itself; with ``is_copy``, none is.

    What has an equal plain form is given it: a defaultdict becomes a dict, a namedtuple a tuple, an enum's
    text or number that text or number (as a key too), numpy's scalars Python's. Nothing is changed in place.

    Raises:
        CheckpointError [checkpoint.not-plain]: names the entry that has none, and its type.
    """
    found: dict[str, Any] = _Reader(path, take, is_copy=is_copy).read(checkpoint, "")
    return found


@final
class _Reader:
    """One walk; knows in which containers it is."""

    def __init__(self, path: object, take: Callable[[torch.Tensor], torch.Tensor], *, is_copy: bool) -> None:
        self._path, self._take, self._is_copy = path, take, is_copy
        self._inside: set[int] = set()

    def read(self, value: Any, entry: str) -> Any:  # noqa: ANN401, PLR0911 - any nesting; one answer a kind
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is int or kind is bytes:
            return self._sized(value, entry)
        if issubclass(kind, torch.Tensor):
            return self._take(self._tensor(value, entry))
        if issubclass(kind, _TORCH):
            return value
        if kind in (dict, list, tuple, OrderedDict, Counter, defaultdict) or _is_named_tuple(kind):
            return self._container(value, entry)
        for base in _LOOSE:
            if issubclass(kind, base):
                return self._sized(_bare(base, value), entry)
        numpy = sys.modules.get("numpy")
        if (
            numpy is not None
            and isinstance(value, numpy.generic)
            and type(value.item()) in {*_PLAIN, *_LOOSE}
        ):
            return value.item()
        raise self._refused(entry, value, "")

    def _sized(self, value: Any, entry: str) -> Any:  # noqa: ANN401 - an int, bytes, or any other plain value
        if type(value) is int and value.bit_length() > _LONGEST_INT:
            raise self._refused(entry, value, f"of {value.bit_length()} bits")
        if type(value) is bytes and not value:
            raise self._refused(entry, value, "without any byte")
        return value

    def _tensor(self, value: torch.Tensor, entry: str) -> torch.Tensor:
        if type(value) not in _TENSORS:
            raise self._refused(entry, value, "")
        if value.device.type == "meta":
            raise self._refused(entry, value, "on the meta device, which holds no data")
        # What else was hung on a tensor (attributes, hooks) is no part of its value.
        is_bare = not vars(value) and not value._backward_hooks  # noqa: SLF001 - torch has no public way to ask
        return value if is_bare else value.detach()

    def _container(self, value: Any, entry: str) -> Any:  # noqa: ANN401 - a dict, list or tuple
        if id(value) in self._inside:
            raise self._refused(entry, value, "that contains itself")
        if len(self._inside) > _DEEPEST:
            raise self._refused(entry, value, f"inside of {_DEEPEST} others")
        self._inside.add(id(value))
        if isinstance(value, dict):
            found = self._dict(value, entry)
        else:
            changed = [self.read(kept, f"{entry}[{index}]") for index, kept in enumerate(value)]
            is_same = not self._is_copy and type(value) in (list, tuple) and all(map(_is, changed, value))
            found = value if is_same else changed if isinstance(value, list) else tuple(changed)
        self._inside.discard(id(value))
        return found

    def _dict(self, value: Any, entry: str) -> Any:  # noqa: ANN401 - as above
        inner = f"{entry}." if entry else ""
        changed = {
            self._key(key, f"{inner}{key}"): self.read(kept, f"{inner}{key}") for key, kept in value.items()
        }
        # A module's state_dict has the versions of its parts as an attribute.
        beside = {
            name: self.read(kept, f"{inner}{name}") for name, kept in getattr(value, "__dict__", {}).items()
        }
        kind = type(value)
        if (
            not self._is_copy
            and kind is not defaultdict
            and all(map(_is, changed, value))
            and all(map(_is, changed.values(), value.values()))
            and all(map(_is, beside.values(), vars(value).values() if beside else ()))
        ):
            return value
        if kind in (dict, defaultdict):
            return changed
        made = kind(changed)
        vars(made).update(beside)
        return made

    def _key(self, key: Any, entry: str) -> Any:  # noqa: ANN401 - anything hashable
        if isinstance(key, torch.Tensor):
            raise self._refused(entry, key, "as a key, which no other tensor is found by")
        return self.read(key, entry)

    def _refused(self, entry: str, value: object, which: str) -> CheckpointError:
        return CheckpointError(
            "checkpoint.not-plain",
            f"the checkpoint's entry {entry} is a {kind_name(value)}{f' {which}' if which else ''}",
            values={"path": str(self._path), "entry": entry, "value": value},
            because="tensors, numbers, texts, lists, tuples and dicts are what can be read back safely",
            hint="turn it into those in the state_dict or the hook that put it there",
        )


def _is_named_tuple(kind: type) -> bool:
    """Whether it is a namedtuple, or what ``torch.max(x, 0)`` returns."""
    return issubclass(kind, tuple) and (hasattr(kind, "_fields") or hasattr(kind, "n_sequence_fields"))


def _is(one: object, other: object) -> bool:
    return one is other


def _bare(base: type, value: Any) -> Any:  # noqa: ANN401 - a number or text of a derived type
    """Return a derived type's value as its base's own methods see it; overridden ones may do anything."""
    if base is str:
        return str.__str__(value)
    if base is bytes:
        return bytes.__add__(value, b"")
    plain: Any = base
    return plain.__pos__(value)


def unwritable(checkpoint: dict[str, Any], path: str) -> CheckpointError | None:
    """Return what to raise where torch cannot write an entry, though it is plain; None if it can each."""
    for entry, leaf in leaves(checkpoint):
        why = _why_not(leaf)
        if why is not None:
            return CheckpointError(
                "checkpoint.not-plain",
                f"torch cannot write the checkpoint's entry {entry}: {why}",
                values={"path": path, "entry": entry, "value": leaf},
                because="not every kind of tensor has a form in a file",
                hint="turn it into an ordinary tensor in the state_dict or the hook that put it there",
            )
    return None


def _why_not(leaf: object) -> Exception | None:
    try:
        with io.FileIO(os.devnull, "wb") as nowhere:
            torch.save(leaf, nowhere)
    except Exception as error:  # noqa: BLE001 - whatever it is, this is the entry
        return error
    return None
