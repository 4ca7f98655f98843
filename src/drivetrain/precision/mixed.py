"""Parameters in float32, arithmetic in a shorter format: bf16-mixed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any, final

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.precision.precision import Precision
from drivetrain.resolver.facts import PrecisionFacts
from drivetrain.resolver.known.precisions import mixed as known

_FACTS = {facts.name: facts for facts in known.FACTS}
_TYPES = {"bf16-mixed": torch.bfloat16}


@final
class MixedPrecision(Precision):
    """Autocast: ``MixedPrecision("bf16-mixed")``.

    Parameters, gradients, buffers and the optimizer stay float32; autocast picks the operations that
    run in bfloat16. bfloat16 has float32's range, so the loss is not scaled.
    """

    def __init__(self, name: str = "bf16-mixed") -> None:
        self.name = name
        self._dtype = _TYPES[name]

    @property
    def facts(self) -> PrecisionFacts:
        """Return the facts of the format."""
        return _FACTS[self.name]

    def convert_module(self, module: torch.nn.Module) -> None:
        """Leave the module as it is: float32."""

    def convert_input(self, batch: Any) -> Any:
        """Bring float64 and half inputs to float32; autocast shortens what may be short."""
        return self.cast_floating(batch, torch.float32)

    def convert_output(self, output: Any) -> Any:
        """Bring what autocast shortened to float32."""
        return map_leaves(
            output,
            lambda one: one.float() if isinstance(one, torch.Tensor) and one.dtype is self._dtype else one,
        )

    def forward_context(self, device_type: str) -> AbstractContextManager[Any]:
        """Return torch's autocast for the device."""
        return torch.autocast(device_type, dtype=self._dtype)

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss itself: bfloat16 does not underflow as float16 does."""
        return loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:  # noqa: ARG002 - nothing was scaled
        """Return True: nothing was scaled."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: there is no state."""
