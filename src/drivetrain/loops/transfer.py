"""How a batch comes to the device: the strategy's way, or the module's or data module's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drivetrain.events import is_unused
from drivetrain.loops.context import Context

_HOOKS = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")


def mover(context: Context, dataloader_idx: int) -> Callable[[Any], Any]:
    """Return the function that moves a batch of a loader; the data module's hooks win over the module's."""
    move = context.strategy.batch_to_device
    before, transfer, after = (_override(context, name) for name in _HOOKS)
    if before is None and transfer is None and after is None:
        return move
    device, convert = context.strategy.device, context.strategy.precision.convert_input

    def moved(batch: Any) -> Any:
        if before is not None:
            batch = before(batch, dataloader_idx)
        batch = move(batch) if transfer is None else transfer(convert(batch), device, dataloader_idx)
        return batch if after is None else after(batch, dataloader_idx)

    return moved


def _override(context: Context, name: str) -> Callable[..., Any] | None:
    for thing in (context.datamodule, context.module):
        if thing is not None and not is_unused(getattr(thing, name)):
            return context.seen(thing, name)
    return None
