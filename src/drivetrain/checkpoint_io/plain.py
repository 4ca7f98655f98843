"""What a checkpoint may hold: tensors and plain containers, so that reading executes nothing."""

from __future__ import annotations

from typing import Any

import torch

from drivetrain.base.errors import CheckpointError
from drivetrain.base.tree import leaves

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_TORCH = (torch.Tensor, torch.dtype, torch.device)


def check_plain(checkpoint: dict[str, Any], path: object) -> None:
    """Refuse a checkpoint that ``torch.load(weights_only=True)`` could not read back.

    Raises:
        CheckpointError [checkpoint.not-plain]: names the entry and its type.
    """
    for entry, leaf in leaves(checkpoint):
        if type(leaf) not in _PLAIN and not isinstance(leaf, _TORCH):
            raise CheckpointError(
                "checkpoint.not-plain",
                f"the checkpoint's entry {entry} is a {type(leaf).__name__}",
                values={"path": str(path), "entry": entry, "value": leaf},
                because="tensors, numbers, texts, lists, tuples and dicts are what can be read back safely",
                hint="turn it into those in the state_dict or the hook that put it there",
            )
