"""Data parallel with the optimizers' state shared out: each rank steps on its part and sends it to all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, final

import torch

from drivetrain.strategies.averaging import Averaging
from drivetrain.strategies.clipping import clip_whole
from drivetrain.strategies.shards import Shards
from drivetrain.strategies.strategy import Parts, Strategy


@final
class ZeRO1Runtime(Strategy):
    """The whole model on each rank, and of the optimizers' state a part (ZeRO, stage 1).

    The optimizers stay the user's own objects, with all of their parameters, but within their ``step``.
    """

    has_whole_model = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._averaging = Averaging(self, "zero1")
        self._shards = Shards(self)

    def setup(
        self, module: torch.nn.Module, step: Callable[..., Any] | None, *, one_backward: bool = True
    ) -> None:
        """Convert and move the module, and wrap its step; rank 0's parameters and buffers are broadcast."""
        self._averaging.setup(module, step, one_backward=one_backward)

    def teardown(self, module: torch.nn.Module) -> None:
        """Take off what is around the step and the optimizers, and bring the module back to the CPU."""
        self._shards.teardown()
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

    def setup_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Share the optimizers' parameters out, and let each rank step on its own.

        Raises:
            ModuleError [strategy.joint-optimizer]: the step of one of them cannot be shared out.
        """
        if self.ranks.world_size > 1:
            for one in optimizers:
                self._shards.take(one)

    def own_part(self, optimizer: torch.optim.Optimizer) -> AbstractContextManager[None]:
        """Return a context in which the optimizer's groups have this rank's parameters only."""
        return self._shards.own_part(optimizer)

    def gather_optimizers(self, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Bring the whole state to rank 0's optimizers, which are the user's as they were."""
        for one in optimizers:
            self._shards.release(one)

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the whole state on rank 0, as the optimizer's own state_dict would be; elsewhere the part.

        Raises:
            CheckpointError [checkpoint.in-parts]: the run failed, and the other ranks are gone.
            ModuleError [strategy.joint-optimizer]: the ranks' parts of it have drifted apart.
        """
        return self._shards.state(optimizer)

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load this rank's part of the whole state."""
        self._shards.load(optimizer, state)

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
