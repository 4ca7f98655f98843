"""Gradient clipping where every rank holds whole gradients."""

from __future__ import annotations

import torch


def clip_whole(optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
    """Clip in place: by the joint norm of all of an optimizer's gradients, or each entry by value."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    if algorithm == "norm":
        torch.nn.utils.clip_grad_norm_(parameters, clip_val)
    else:
        torch.nn.utils.clip_grad_value_(parameters, clip_val)
