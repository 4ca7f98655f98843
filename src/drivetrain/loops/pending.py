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
    """Return this rank's gradients and weights, on the CPU; nothing between two windows.

    Where gradients are those of all ranks already, rank 0 has them whole, and the others none.

    Collectives:
        those of `Strategy.whole`; every rank must call.
    """
    is_manual = not context.module.automatic_optimization
    if not is_manual and not any(window.is_open for window in context.windows):
        return {}
    strategy = context.strategy
    weights = [None if window.weight is None else float(window.weight) for window in context.windows]
    grads = strategy.whole([None if one.grad is None else one.grad.detach() for one in _parameters(context)])
    if is_manual and all(grad is None for grad in grads):
        return {}
    return {"weights": weights, "gradients": grads, "is_reduced": strategy.reduces_at_once}


def restore(
    context: Context,
    counters: Sequence[Mapping[str, int]],
    of_ranks: Sequence[Mapping[str, Any]],
    scale: float,
) -> None:
    """Take up the windows; on another world size rank 0 has the weights that all ranks had together.

    ``scale`` is that of the kept gradients; they come to this run's, whose number format may be another.
    """
    for window, kept in zip(context.windows, counters, strict=False):
        window.load_state_dict(kept)
    strategy, num_ranks = context.strategy, len(of_ranks)
    if not of_ranks or not of_ranks[0]:
        return
    rank, rescaled = strategy.ranks.rank, strategy.precision.scale / scale
    is_same = num_ranks == strategy.ranks.world_size
    for kept in [of_ranks[rank]] if is_same else of_ranks:
        _take_weights(context, kept, is_mine=is_same or rank == 0)
    is_reduced = of_ranks[0].get("is_reduced", False)
    if is_reduced or (not context.module.automatic_optimization and not is_same):
        _take(context, of_ranks[0], rescaled)  # they are of all ranks, and their mean over these is the same
    elif strategy.reduces_at_once:
        for kept in of_ranks:
            _take(context, kept, rescaled / num_ranks)
    elif is_same:
        _take(context, of_ranks[rank], rescaled)
    else:
        # Gradients are averaged over ranks: a sum over the old ones, on one of the new.
        for kept in of_ranks if rank == 0 else of_ranks[:1]:
            _take(context, kept, rescaled * strategy.ranks.world_size / num_ranks if rank == 0 else 0.0)


def _take_weights(context: Context, kept: Mapping[str, Any], *, is_mine: bool) -> None:
    for window, weight in zip(context.windows, kept.get("weights", ()), strict=True):
        if weight is not None:
            window.weight = (window.weight or 0.0) + (weight if is_mine else 0.0)


def _take(context: Context, kept: Mapping[str, Any], factor: float) -> None:
    part = context.strategy.part
    for parameter, grad in zip(_parameters(context), kept["gradients"], strict=True):
        if grad is not None:
            mine = part(grad.to(dtype=parameter.dtype), parameter) * factor
            parameter.grad = mine if parameter.grad is None else parameter.grad + mine


def _parameters(context: Context) -> list[torch.nn.Parameter]:
    return [parameter for optimizer in context.optimizers for parameter in parameters_of(optimizer)]
