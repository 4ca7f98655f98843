"""all_gather through which gradients flow."""

from __future__ import annotations

from typing import Any

import torch

from drivetrain.collectives.collectives import Collectives


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, collectives: Collectives) -> torch.Tensor:
        ctx.collectives = collectives
        return torch.stack(collectives.all_gather(tensor.detach().contiguous()))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        (gradient,) = gradients
        total = ctx.collectives.all_reduce(gradient.clone(memory_format=torch.contiguous_format), "sum")
        return total[ctx.collectives.rank], None


def gathered(tensor: torch.Tensor, collectives: Collectives) -> torch.Tensor:
    """Return every rank's tensor, stacked; gradients of all ranks come back to each rank's own, summed.

    Shapes:
        tensor: any, the same on each rank.
        returns: [world_size, *shape].
    Collectives:
        one all_gather, and one all_reduce of its size in backward; every rank must call.
    """
    found: torch.Tensor = _Gather.apply(tensor, collectives)  # type: ignore[no-untyped-call]  # torch's own
    return found
