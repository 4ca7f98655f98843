"""Whether an optimizer evaluates the loss itself."""

from __future__ import annotations

import inspect

import torch


def wants_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer's step needs a closure, which it may call several times: LBFGS."""
    closure = inspect.signature(optimizer.step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
