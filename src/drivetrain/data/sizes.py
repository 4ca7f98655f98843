"""How many samples a batch holds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch


def batch_size(batch: Any) -> int:
    """Return the first dimension of the first tensor in a nested batch; 1 where there is none."""
    found = _first(batch)
    return 1 if found is None else found


def _first(value: Any) -> int | None:
    if isinstance(value, torch.Tensor):
        return value.shape[0] if value.dim() else 1
    if isinstance(value, Mapping):
        inner: Any = value.values()
    elif isinstance(value, (list, tuple)):
        inner = value
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = (getattr(value, spec.name, None) for spec in dataclasses.fields(value))
    else:
        return None
    return next((size for size in map(_first, inner) if size is not None), None)
