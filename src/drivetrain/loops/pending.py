"""Open accumulation windows in a checkpoint: the gradients that no step has used yet.

In manual optimization nobody but the module knows which those are, so all that are there are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from drivetrain.loops.context import Context
from drivetrain.loops.optimization import parameters_of


def state(context: Context) -> dict[str, Any]:
    """Return this rank's gradients and weights, on the CPU; nothing between two windows."""
    is_manual = not context.module.automatic_optimization
    if not is_manual and not any(window.is_open for window in context.windows):
        return {}
    weights = [None if window.weight is None else float(window.weight) for window in context.windows]
    grads = [None if one.grad is None else one.grad.detach().cpu() for one in _parameters(context)]
    if is_manual and all(grad is None for grad in grads):
        return {}
    return {"weights": weights, "gradients": grads}


def restore(
    context: Context,
    counters: Sequence[Mapping[str, int]],
    of_ranks: Sequence[Mapping[str, Any]],
    scale: float,
) -> None:
    """Take up the windows; on another world size rank 0 has what all ranks had together.

    ``scale`` is that of the kept gradients; they come to this run's, whose number format may be another.
    """
    for window, kept in zip(context.windows, counters, strict=False):
        window.load_state_dict(kept)
    ranks = context.strategy.ranks
    if not of_ranks or not of_ranks[0]:
        return
    rescaled = context.strategy.precision.scale / scale
    if len(of_ranks) == ranks.world_size:
        _take(context, of_ranks[ranks.rank], rescaled)
        return
    if not context.module.automatic_optimization:
        _take(context, of_ranks[0], rescaled)  # they were averaged after each backward: the same on all ranks
        return
    # Gradients are averaged over ranks: a sum over the old ones, on one of the new.
    for kept in of_ranks if ranks.is_zero else ():
        _take(context, kept, rescaled * ranks.world_size / len(of_ranks))
    if not ranks.is_zero:
        _take(context, of_ranks[0], 0.0)


def _take(context: Context, kept: Mapping[str, Any], factor: float) -> None:
    for window, weight in zip(context.windows, kept["weights"], strict=True):
        if weight is not None:
            window.weight = (window.weight or 0.0) + (weight if factor else 0.0)
    for parameter, grad in zip(_parameters(context), kept["gradients"], strict=True):
        if grad is not None:
            part = grad.to(parameter.device, parameter.dtype) * factor
            parameter.grad = part if parameter.grad is None else parameter.grad + part


def _parameters(context: Context) -> list[torch.nn.Parameter]:
    return [parameter for optimizer in context.optimizers for parameter in parameters_of(optimizer)]
