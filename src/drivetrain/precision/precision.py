"""Precision: which number format parameters, inputs and arithmetic have."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from typing import Any, final

import torch

from drivetrain.base.tree import map_leaves
from drivetrain.resolver.facts import PrecisionFacts


class Precision(ABC):
    """A number format; ``name`` is the flag's value.

    The scaling hooks change nothing unless the format needs it: float16 arithmetic multiplies the
    loss in `scale_loss` and undoes it in `unscale`, after which gradients have their true size.
    """

    name: str
    scales_loss: bool = False
    """Whether gradients are larger than they truly are until `unscale`, and a step may be left out."""
    num_left_out: int = 0
    """Optimizer steps of the run that were left out, as gradients overflowed."""

    @property
    @abstractmethod
    def facts(self) -> PrecisionFacts:
        """What this precision declares about itself; the resolver reads it from the object."""

    @property
    def made_in(self) -> torch.dtype | None:
        """What new parameters are made in; None leaves torch's default, which is then converted."""
        return None

    @property
    def computes_in(self) -> torch.dtype | None:
        """The shorter format of most arithmetic, where parameters have another; None where they have it."""
        return None

    @property
    def scale(self) -> float:
        """By how much gradients are larger than they truly are before `unscale`; reads the device."""
        return 1.0

    def setup(self, device: torch.device) -> None:  # noqa: B027 - most formats keep nothing of a run
        """Begin a run on a device; nothing of an earlier one stays."""

    @abstractmethod
    def convert_module(self, module: torch.nn.Module) -> None:
        """Convert parameters in place; a buffer keeps its type unless the format cannot work so."""

    def restore_module(self, module: torch.nn.Module) -> None:  # noqa: B027 - most formats change tensors only
        """Take off what `convert_module` put on layers, after a run; tensors keep the run's format."""

    @property
    def converted(self) -> tuple[str, ...]:
        """Names of layers that `convert_module` lets compute in a format that none of their tensors has."""
        return ()

    @abstractmethod
    def convert_input(self, batch: Any) -> Any:
        """Convert the floating tensors of a nested batch; integers and booleans stay what they are."""

    def convert_output(self, output: Any) -> Any:
        """Convert what a module returned to a loop that is not ours; by default it stays what it is."""
        return output

    @abstractmethod
    def forward_context(self, device_type: str) -> AbstractContextManager[Any]:
        """Return the context in which a step's forward runs."""

    @abstractmethod
    def scale_loss(self, loss: torch.Tensor) -> torch.Tensor:
        """Return the loss as backward needs it."""

    @abstractmethod
    def unscale(self, optimizer: torch.optim.Optimizer) -> bool:
        """Give gradients their true size; False when the step must be left out (they overflowed).

        Asked again before `rescale`, it returns the same and changes nothing.
        """

    def rescale(self) -> None:  # noqa: B027 - most formats have no scale
        """Choose the scale of the next loss, after every optimizer of a step has stepped or was left out."""

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint needs, tensors and plain containers only; `scale` as ``scale``, if any."""

    @abstractmethod
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up what `state_dict` returned."""

    @final
    def cast_floating(self, batch: Any, dtype: torch.dtype) -> Any:
        """Return the batch with its floating tensors in ``dtype``; itself when they are already."""

        def one(leaf: Any) -> Any:
            wrong = isinstance(leaf, torch.Tensor) and leaf.dtype is not dtype and leaf.is_floating_point()
            return leaf.to(dtype) if wrong else leaf

        return map_leaves(batch, one)
