"""How many tokens the steps of all ranks see, as the module counts them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.collectives.collectives import Collectives
from drivetrain.events import is_unused


def _none() -> int:
    return 0


@final
class TokenCount:
    """A step's tokens over all ranks: told before the step is computed, and read after it."""

    def __init__(self, module: Any, collectives: Collectives, device: torch.device) -> None:
        self._module, self._collectives, self._device = module, collectives, device
        self._counts = not is_unused(module.count_tokens)

    def start(self, batch: Any, size: int) -> Callable[[], int]:
        """Count a batch, of ``size`` samples; return what waits for the sum over ranks.

        Collectives:
            with several ranks an all_reduce of 8 bytes, which travels while the step is computed.
        Raises:
            ModuleError [module.tokens]: the module returned no count.
        """
        if not self._counts:
            return _none
        mine = self._count(batch) if size else 0  # a stand-in's tokens are another rank's
        if self._collectives.world_size == 1:
            return lambda: mine
        pending = self._collectives.start_all_reduce(torch.tensor([mine], device=self._device), "sum")
        return lambda: int(pending().item())

    def _count(self, batch: Any) -> int:
        found = self._module.count_tokens(batch)
        value = found.item() if isinstance(found, torch.Tensor) and found.numel() == 1 else found
        if type(value) is int and value >= 0:
            return value
        name = type(self._module).__name__
        raise ModuleError(
            "module.tokens",
            f"{name}.count_tokens returned {found!r}",
            values={"class": type(self._module).__qualname__, "returned": found},
            because="tokens are counted in whole numbers of 0 or more",
            hint="return an int, such as batch.numel()",
        )
