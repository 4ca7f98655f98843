"""What save and load do with each kind of object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from drivetrain.base.errors import CheckpointError
from drivetrain.base.tree import map_leaves
from drivetrain.engine.module import EngineModule
from drivetrain.strategies.strategy import Strategy


def packed(value: Any, strategy: Strategy) -> Any:
    """Return an object as plain data: the state of what has one, anything else as it is.

    Collectives:
        those of the strategy's states; every rank must call.
    """
    if isinstance(value, EngineModule):
        return strategy.model_state(value.module)
    if isinstance(value, torch.optim.Optimizer):
        return strategy.optimizer_state(value)
    if hasattr(value, "state_dict"):
        return value.state_dict()
    if isinstance(value, Mapping):
        return {key: packed(kept, strategy) for key, kept in value.items()}
    return map_leaves(value, lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf)


def unpacked(value: Any, kept: Any, strategy: Strategy, strict: bool) -> Any:
    """Load into an object that has a state; return what is to stand in its place otherwise."""
    if isinstance(value, EngineModule):
        if strict:
            strategy.load_model_state(value.module, kept)
        else:
            value.module.load_state_dict(kept, strict=False)
        return value
    if isinstance(value, torch.optim.Optimizer):
        strategy.load_optimizer_state(value, kept)
        return value
    if hasattr(value, "load_state_dict"):
        value.load_state_dict(kept)
        return value
    if isinstance(value, Mapping) and isinstance(kept, Mapping):
        return {
            key: unpacked(one, kept[key], strategy, strict) if key in kept else one
            for key, one in value.items()
        }
    return kept


def check_names(state: Mapping[str, Any], found: Mapping[str, Any], path: object) -> None:
    """Refuse a checkpoint that lacks what is to be loaded.

    Raises:
        CheckpointError [checkpoint.mismatch]: it does.
    """
    missing = [name for name in state if name not in found]
    if missing:
        raise CheckpointError(
            "checkpoint.mismatch",
            f"{path} has no {', '.join(map(repr, missing))}",
            values={"path": str(path), "holds": sorted(map(str, found))},
            because="every entry of the state is loaded from the entry of its name",
            hint="leave the entry out of the state, or pass strict=False",
        )
