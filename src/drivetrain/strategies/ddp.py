"""Data parallel: every rank holds the whole model, gradients are averaged in buckets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import torch

from drivetrain.strategies.averaging import Averaging
from drivetrain.strategies.clipping import clip_whole
from drivetrain.strategies.strategy import Parts, Strategy


@final
class DDPRuntime(Strategy):
    """The whole model and optimizer on each rank, which all take the same step."""

    is_whole_everywhere = True
    has_whole_model = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._averaging = Averaging(self, "ddp")

    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Convert and move the module, and wrap its step; rank 0's parameters and buffers are broadcast."""
        self._averaging.setup(module, step, one_backward=one_backward)

    def teardown(self, module: torch.nn.Module) -> None:
        """Drop the wrapper, which takes its gradient hooks with it, and bring the module back to the CPU."""
        self._averaging.teardown(module)

    def share_buffers(self, module: torch.nn.Module) -> None:
        """Give every rank rank 0's buffers, unless the user keeps them apart with ``broadcast_buffers``."""
        self._averaging.share_buffers(module)

    def training_step(self, *arguments: Any) -> Any:
        """Run the step through torch's wrapper, which is made anew where other parameters are trained now."""
        if self._averaging.follow():
            self._has_seen_gradients = False
        return self._averaging.step(*arguments)

    def no_sync(self) -> AbstractContextManager[Any]:
        """Return torch's own context, in which gradients are added up without being averaged."""
        return self._averaging.no_sync()

    def combine_gradients(self, *, late: bool) -> None:
        """Average what a backward left, where torch's wrapper does not."""
        self._averaging.combine_gradients(late=late)

    def bytes_beside(self, module: torch.nn.Module) -> int:
        """Return the size of the buckets, each gradient once more, unless gradients are views of them."""
        return self._averaging.bytes_beside(module)

    def reduces_in(self, module: torch.nn.Module) -> tuple[torch.dtype, ...]:
        """Return the types in which gradients are averaged: their own, unless a hook shortens them."""
        return self._averaging.reduces_in(module)

    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
        """Clip by torch's own functions: gradients are averaged before, so each rank clips the same."""
        clip_whole(optimizer, clip_val, algorithm)

    def check_gradients(self) -> None:
        """Refuse parameters without gradient: torch would never average their bucket."""
        self._averaging.check_gradients()

    def model_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """Return the module's own state_dict: every rank has the whole."""
        return module.state_dict()

    def load_model_state(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """Load the module's own state_dict on each rank."""
        module.load_state_dict(state, strict=getattr(module, "strict_loading", True))

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the optimizer's own state_dict: every rank has the whole."""
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load the optimizer's own state_dict on each rank."""
        optimizer.load_state_dict(dict(state))

    def rank_state(self, module: torch.nn.Module) -> dict[str, Any]:  # noqa: ARG002 - the hook's, if there is one
        """Return what a hook remembers on this rank."""
        return self._averaging.rank_state()

    def load_rank_state(
        self,
        module: torch.nn.Module,  # noqa: ARG002 - as above
        of_ranks: Sequence[Mapping[str, Any]],
        optimizer_steps: int,  # noqa: ARG002 - a hook counts itself
    ) -> None:
        """Give the hook what hooks remembered."""
        self._averaging.load_rank_state(of_ranks)
