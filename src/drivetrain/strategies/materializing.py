"""Parameters that were made without memory get it, and values, one module after the other."""

from __future__ import annotations

from collections.abc import Callable

import torch

from drivetrain.base.errors import ModuleError


def fill(module: torch.nn.Module, device: torch.device) -> None:
    """Give a module's own parameters and buffers memory on the device, if they have none, and first values.

    The module's ``reset_parameters`` gives them; it has to write each of them.

    Raises:
        ModuleError [strategy.no-values]: nothing gives a parameter or a buffer its values.
    """
    tensors = _own(module)
    if not any(one.is_meta for one in tensors.values()):
        return
    reset: Callable[[], None] | None = getattr(module, "reset_parameters", None)
    if reset is None:
        raise _no_values(module, sorted(tensors))
    module.to_empty(device=device, recurse=False)
    marks = {name: _marked(one) for name, one in _own(module).items()}
    with torch.no_grad():
        reset()
    left = [
        name for name, one in _own(module).items() if one.numel() and bool((_bits(one) == marks[name]).all())
    ]
    if left:
        raise _no_values(module, left)


def _own(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return dict([*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)])


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().reshape(-1).view(torch.uint8)


def _marked(tensor: torch.Tensor) -> int:
    """Fill a tensor with bytes that nothing writes everywhere, and return the byte."""
    mark = 1 if tensor.dtype is torch.bool else 0xA5
    _bits(tensor).fill_(mark)
    return mark


def _no_values(module: torch.nn.Module, names: list[str]) -> ModuleError:
    return ModuleError(
        "strategy.no-values",
        f"nothing gives {', '.join(names)} of a {type(module).__name__} values",
        values={"module": type(module).__qualname__, "tensors": names},
        because="a module that is made where it will be sharded has no memory until it is, "
        "and then reset_parameters() of each module in it writes its parameters and buffers",
        hint="give the class a reset_parameters() that writes them, "
        "or build the module in __init__, where it is made whole",
    )
