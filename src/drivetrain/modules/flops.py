"""How many floating-point operations a piece of code does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


def measure_flops(
    model: torch.nn.Module,
    forward_fn: Callable[[], Any],
    loss_fn: Callable[[Any], torch.Tensor] | None = None,
) -> int:
    """Return the floating-point operations of one forward; with ``loss_fn`` those of its backward too.

    ``forward_fn`` runs the model; ``loss_fn`` makes a scalar of what it returns. What torch computes is
    really computed, unless the model and its input are on the meta device, where nothing is. Gradients
    are left as they were.

    Units:
        returns: operations; a multiplication and an addition are two. Matrix products, convolutions and
            attention count, element by element work does not.
    """
    from torch.utils.flop_counter import FlopCounterMode

    before = [(parameter, parameter.grad) for parameter in model.parameters()]
    counter = FlopCounterMode(display=False)
    try:
        with counter:
            output = forward_fn()
            if loss_fn is not None:
                for parameter, _ in before:
                    parameter.grad = None
                loss_fn(output).backward()  # type: ignore[no-untyped-call]  # torch's own
    finally:
        for parameter, gradient in before:
            parameter.grad = gradient
    return int(counter.get_total_flops())
