"""Whether all ranks leave the epoch at a batch, where a hook says so."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, final

import torch

from drivetrain.base.errors import CollectiveError
from drivetrain.collectives.collectives import Collectives

_OURS = "drivetrain.callbacks."


def may_skip(calls: Sequence[Callable[..., Any]]) -> bool:
    """Whether somebody's hook could say so; the library's own callbacks never do."""
    hooks = [call.func if isinstance(call, functools.partial) else call for call in calls]
    return any(not str(getattr(hook, "__module__", "")).startswith(_OURS) for hook in hooks)


@final
class Skipping:
    """Compares, at each batch, whether ranks want to leave. A rank that does not want to never waits."""

    def __init__(self, collectives: Collectives, device: torch.device) -> None:
        self._collectives, self._device = collectives, device
        self._pending: Callable[[], torch.Tensor] | None = None

    def agreed(self, *, mine: bool) -> bool:
        """Return whether all ranks want to leave.

        Collectives:
            one all_reduce of 8 bytes, waited for only by a rank that wants to; every rank must call.
        Raises:
            CollectiveError [loop.batch-start]: this rank wants to, and another does not.
        """
        if self._collectives.world_size == 1:
            return mine
        self.settle()
        told = torch.tensor([int(mine)], device=self._device)
        self._pending = self._collectives.start_all_reduce(told, "min")
        if not mine or self.settle():
            return mine
        raise CollectiveError(
            "loop.batch-start",
            f"on_train_batch_start returned -1 on rank {self._collectives.rank}, and not on every rank",
            values={"rank": self._collectives.rank, "world_size": self._collectives.world_size},
            because="ranks take their steps together; if one left the epoch alone, the others would wait",
            hint="decide by something that is equal on all ranks: batch_idx, or a value that was all-reduced",
        )

    def settle(self) -> bool:
        """Wait for what was told last; return whether all wanted to leave."""
        pending, self._pending = self._pending, None
        return pending is not None and bool(pending().item())
