"""This rank's part of a tensor that may be spread over ranks, without loading torch's package for such."""

from __future__ import annotations

from typing import Any

import torch


def is_in_parts(value: Any) -> bool:
    """Whether it is a tensor of which each rank has a part: a DTensor."""
    return isinstance(value, torch.Tensor) and hasattr(value, "device_mesh")


def local(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's part, which shares the tensor's memory; of a whole tensor itself."""
    return tensor.to_local() if is_in_parts(tensor) else tensor  # type: ignore[attr-defined]  # a DTensor's
