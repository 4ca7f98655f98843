"""Gradient clipping where every rank holds whole gradients."""

from __future__ import annotations

from collections.abc import Sequence

import torch

_SHORT = (torch.float16, torch.bfloat16)


def clip_whole(optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
    """Clip in place: by the joint norm of all of an optimizer's gradients, or each entry by value."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    if algorithm == "norm":
        torch.nn.utils.clip_grads_with_norm_(parameters, clip_val, total_norm(parameters))
    else:
        torch.nn.utils.clip_grad_value_(parameters, clip_val)


def total_norm(parameters: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the joint norm of all gradients; of short formats in float32.

    In float16 a norm above 65504 would be inf, and every gradient clipped to zero.

    Shapes:
        returns: [].
    """
    grads = [one.grad for one in parameters if one.grad is not None]
    if any(one.dtype in _SHORT for one in grads):
        grads = [_norm(one) for one in grads]
    return torch.nn.utils.get_total_norm(grads)


def _norm(grad: torch.Tensor) -> torch.Tensor:
    norm: torch.Tensor = torch.linalg.vector_norm(grad, dtype=torch.float32 if grad.dtype in _SHORT else None)
    return norm
