"""What torch.compile made of a module, and what of it must stay outside of graphs."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import torch

from drivetrain.loops.slots import is_metric

Compiler: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Compiles a function with the backend and options that the user gave ``torch.compile(module, ...)``."""

_OUTSIDE = ("forward", "update", "compute")
_REASON = "torchmetrics count updates in Python: a graph of them would be compiled anew each step"


def uncompiled(model: Any) -> tuple[Any, Compiler | None]:
    """Return the module in what ``torch.compile(module)`` returns, and how to compile its steps.

    The module's own names are what a checkpoint has: no ``_orig_mod.`` is put before them.
    """
    # Whoever has compiled something has imported this; nobody else pays for it.
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None or not isinstance(model, dynamo.OptimizedModule):
        return model, None
    return model._orig_mod, model.dynamo_ctx  # noqa: SLF001 - torch has no other way to ask for it


@contextmanager
def metrics_outside(module: torch.nn.Module) -> Iterator[None]:
    """Keep the module's torchmetrics objects out of compiled graphs for a block."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    before = [
        (one, name, vars(one).get(name)) for one in module.modules() if is_metric(one) for name in _OUTSIDE
    ]
    for metric, name, own in before:
        vars(metric)[name] = _outside(metric, name, own)
    try:
        yield
    finally:
        for metric, name, own in before:
            vars(metric).pop(name, None)
            if own is not None:
                vars(metric)[name] = own


def _outside(metric: torch.nn.Module, name: str, own: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a method that no graph takes in; a copy of the metric has it for itself."""
    disable: Any = torch.compiler.disable
    if "reason" in inspect.signature(disable).parameters:  # earlier releases of torch say none
        disable = functools.partial(disable, reason=_REASON)
    if own is not None:  # torchmetrics' own wrapper, which it makes anew for a copy
        return disable(own)  # type: ignore[no-any-return]  # torch's decorators are not typed
    return functools.partial(disable(getattr(type(metric), name)), metric)
