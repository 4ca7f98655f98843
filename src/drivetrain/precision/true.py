"""One format for parameters, gradients and arithmetic: 32-true, 64-true, bf16-true, 16-true."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from drivetrain.precision.precision import Precision
from drivetrain.resolver.facts import PrecisionFacts
from drivetrain.resolver.known.precisions import true as known

_FACTS = {facts.name: facts for facts in known.FACTS}
_TYPES = {
    "32-true": torch.float32,
    "64-true": torch.float64,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
}


@final
class TruePrecision(Precision):
    """One format throughout: ``TruePrecision("64-true")``.

    ``32-true`` leaves the module as the user built it, and the inputs of one in float64. ``64-true`` widens
    parameters and floating buffers, which loses nothing, since a layer cannot mix the two. ``bf16-true`` and
    ``16-true`` shorten the parameters; a buffer keeps its type, as a shorter one would round what it holds.
    """

    def __init__(self, name: str = "32-true") -> None:
        self.name = name
        self._dtype = _TYPES[name]
        self._converts = True

    @property
    def facts(self) -> PrecisionFacts:
        """Return the facts of the format."""
        return _FACTS[self.name]

    @property
    def made_in(self) -> torch.dtype | None:
        """The format, where it is not the one that layers are made in anyway."""
        return None if self._dtype is torch.float32 else self._dtype

    def convert_module(self, module: torch.nn.Module) -> None:
        """Widen to float64 or shorten where asked; float32 is what modules are built in."""
        if self._dtype is torch.float32:
            # A user who has built it in float64 knows what its inputs are.
            self._converts = all(one.dtype is not torch.float64 for one in module.parameters())
        elif self._dtype is torch.float64:
            module.double()
        else:
            _shorten(module, self._dtype)

    def convert_input(self, batch: Any) -> Any:
        """Bring floating tensors to the format: float64 data from numpy meets float32 layers."""
        return self.cast_floating(batch, self._dtype) if self._converts else batch

    def forward_context(self, device_type: str) -> AbstractContextManager[Any]:  # noqa: ARG002 - same on all
        """Return a context that does nothing."""
        return nullcontext()

    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss itself."""
        return loss

    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:  # noqa: ARG002 - nothing was scaled
        """Return True: nothing was scaled."""
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: there is no state."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: there is no state."""


def _shorten(module: torch.nn.Module, dtype: torch.dtype) -> None:
    """Bring parameters to a format in place, with the buffers that their layer cannot compute without."""
    for one in module.parameters():
        if one.is_floating_point():
            one.data = one.data.to(dtype)
            if one.grad is not None:
                one.grad = one.grad.to(dtype)
    for part in module.modules():
        if isinstance(part, _BatchNorm):
            # torch's kernels take statistics in the type of the weights only.
            for name in ("running_mean", "running_var"):
                if getattr(part, name) is not None:
                    setattr(part, name, getattr(part, name).to(dtype))
