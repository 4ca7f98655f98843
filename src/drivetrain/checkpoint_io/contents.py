"""What a checkpoint holds, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from drivetrain.base.text import kind_name, show

_SHORT = 8
"""A list of more plain values than this is one row."""


@dataclass(frozen=True)
class Row:
    """One entry: a tensor, a value, or a list of values."""

    entry: str
    kind: str
    shape: tuple[int, ...] | None = None
    dtype: str = ""
    num_bytes: int = 0
    value: str = ""


def rows(value: Any, entry: str = "") -> Iterator[Row]:  # noqa: ANN401 - any nesting
    """Yield the entries of a checkpoint.

    Units:
        num_bytes: of the values themselves, without what a file adds.
    """
    if isinstance(value, torch.Tensor):
        dtype = str(value.dtype).removeprefix("torch.")
        yield Row(entry, "tensor", tuple(value.shape), dtype, value.numel() * value.element_size())
    elif isinstance(value, Mapping) and value:
        for key, kept in value.items():
            yield from rows(kept, f"{entry}.{_printable(key)}" if entry else _printable(key))
    elif isinstance(value, (list, tuple)) and value and not _is_values(value):
        for index, kept in enumerate(value):
            yield from rows(kept, f"{entry}[{index}]")
    elif isinstance(value, (list, tuple, Mapping)):
        yield Row(entry, kind_name(value), (len(value),), value=show(value) if len(value) <= _SHORT else "")
    else:
        yield Row(entry, kind_name(value), value=show(value))


def _is_values(value: list[Any] | tuple[Any, ...]) -> bool:
    return all(kept is None or isinstance(kept, (bool, int, float, complex, str, bytes)) for kept in value)


def _printable(key: object) -> str:
    text = str(key)
    return text if text.isprintable() else show(text)


def nonfinite(value: Any) -> str:  # noqa: ANN401 - any nesting
    """Return the name of the first tensor that has an infinite value or none (nan); empty for no such."""
    return next(_nonfinite(value, ""), "")


def _nonfinite(value: Any, entry: str) -> Iterator[str]:  # noqa: ANN401 - any nesting
    if isinstance(value, Mapping):
        for key, kept in value.items():
            yield from _nonfinite(kept, f"{entry}.{_printable(key)}" if entry else _printable(key))
    elif isinstance(value, (list, tuple)):
        for index, kept in enumerate(value):
            yield from _nonfinite(kept, f"{entry}[{index}]")
    elif isinstance(value, torch.Tensor) and not _is_finite(value):
        yield entry


def _is_finite(value: torch.Tensor) -> bool:
    if value.layout is not torch.strided:
        value = value.values() if value.layout is not torch.sparse_coo else value.coalesce().values()
    if not (value.is_floating_point() or value.is_complex()):
        return True
    # Some short formats can be widened, and nothing else.
    return bool(torch.isfinite(value if value.is_complex() else value.float()).all())
