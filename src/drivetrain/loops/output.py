"""What a training step may return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.base.text import show


def read_loss(output: Any, module: object, world_size: int) -> torch.Tensor | None:
    """Return the loss of a step, or None for a step that is left out.

    Raises:
        ModuleError [module.step-output]: no loss, not a scalar, without a gradient, or None on several ranks.
    """
    loss = output.get("loss") if isinstance(output, Mapping) else output
    if isinstance(loss, torch.Tensor) and loss.requires_grad and loss.numel() == 1 and not loss.is_complex():
        return loss if loss.dim() == 0 else loss.reshape(())
    if output is None and world_size == 1:
        return None
    raise _bad(output, loss, module, world_size)


def read_weight(output: Any) -> Any:
    """Return what a step's loss counts in a mean over several: a number or scalar tensor, or None.

    Raises:
        ModuleError [module.step-weight]: it is something else.
    """
    weight = output.get("weight") if isinstance(output, Mapping) else None
    if weight is None or (isinstance(weight, (int, float)) and weight >= 0):
        return weight
    if isinstance(weight, torch.Tensor) and weight.numel() == 1:
        return weight.reshape(())
    raise ModuleError(
        "module.step-weight",
        f"training_step returned a weight that is {show(weight)}",
        values={"weight": weight},
        because="a weight is a number of 0 or more, or a tensor with one element: tokens, samples",
        hint="return {'loss': loss, 'weight': mask.sum()}",
    )


def _bad(output: Any, loss: Any, module: object, world_size: int) -> ModuleError:
    if output is None:
        received, hint = (
            "None",
            f"return a loss on every rank; one of {world_size} cannot leave a step out alone",
        )
    elif isinstance(output, Mapping) and "loss" not in output:
        received, hint = (
            f"a {type(output).__name__} with {sorted(map(str, output))}",
            "put the loss under 'loss'",
        )
    elif not isinstance(loss, torch.Tensor):
        received, hint = (
            f"{show(loss)}, a {type(loss).__name__}",
            "return the loss tensor itself, not .item() or a number",
        )
    elif loss.is_complex():
        received, hint = f"a complex loss of {loss.dtype}", "return a real one: loss.abs() or loss.real"
    elif loss.numel() != 1:
        received, hint = f"a tensor of shape {tuple(loss.shape)}", "reduce it: loss.mean()"
    else:
        received, hint = (
            "a tensor without a gradient",
            "compute it from the module's parameters, outside of no_grad and detach",
        )
    return ModuleError(
        "module.step-output",
        f"{type(module).__name__}.training_step returned {received}",
        values={"class": type(module).__qualname__, "returned": output},
        because="a training step returns a scalar loss with a gradient, or a dict with one under 'loss'",
        hint=hint,
    )
