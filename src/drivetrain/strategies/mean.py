"""The mean of gradients over ranks, apart from any backward."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from drivetrain.collectives.collectives import Collectives


def average_gradients(
    parameters: Sequence[torch.nn.Parameter], collectives: Collectives, device: torch.device
) -> None:
    """Make gradients their mean over ranks, in place.

    A rank that has no gradient for a parameter counts as zero, as long as another one has.

    Collectives:
        one all_reduce of a byte a parameter, and one of the gradients for each type of them; every rank must
        call, with the same parameters.
    """
    if not parameters:
        return
    has = torch.tensor([one.grad is not None for one in parameters], dtype=torch.uint8, device=device)
    anywhere = collectives.all_reduce(has, "max").tolist()
    used = [one for one, is_used in zip(parameters, anywhere, strict=True) if is_used]
    for dtype in dict.fromkeys(one.dtype for one in used):
        grads = []
        for one in used:
            if one.dtype is dtype:
                one.grad = torch.zeros_like(one) if one.grad is None else one.grad
                grads.append(one.grad)
        joined = torch.cat([grad.reshape(-1) for grad in grads])
        flat = collectives.all_reduce(joined, "mean")
        for grad, part in zip(grads, torch.split(flat, [grad.numel() for grad in grads]), strict=True):
            grad.copy_(part.view_as(grad))


def average_tensors(tensors: Sequence[torch.Tensor], collectives: Collectives) -> None:
    """Make floating tensors their mean over ranks, in place, and others those of the first rank.

    Sums of shorter formats are taken in single precision.

    Shapes:
        tensors: any, the same on each rank.
    Collectives:
        one all_reduce for each type of floating tensors, and a broadcast of each other one; every rank must
        call, with as many tensors.
    """
    floats = [one for one in tensors if one.is_floating_point() or one.is_complex()]
    for dtype in dict.fromkeys(one.dtype for one in floats):
        same = [one for one in floats if one.dtype is dtype]
        wide = torch.float32 if dtype.itemsize < torch.float32.itemsize else dtype
        mean = collectives.all_reduce(torch.cat([one.reshape(-1).to(wide) for one in same]), "mean")
        for one, part in zip(same, torch.split(mean, [one.numel() for one in same]), strict=True):
            one.copy_(part.view_as(one))
    for one in tensors:
        if not (one.is_floating_point() or one.is_complex()):
            one.copy_(collectives.broadcast(one, 0))
