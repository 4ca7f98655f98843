"""One device, no collectives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, final

import torch

from drivetrain.strategies.clipping import clip_whole
from drivetrain.strategies.strategy import Parts, Strategy


@final
class SingleRuntime(Strategy):
    """The module as it is, on one device."""

    is_whole_everywhere = True
    has_whole_model = True

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._step: Callable[..., Any] | None = None

    def setup(
        self,
        module: torch.nn.Module,
        step: Callable[..., Any] | None,
        *,
        one_backward: bool = True,  # noqa: ARG002 - the same here
    ) -> None:
        """Convert and move the module."""
        self.precision.convert_module(module)
        # A module that is there already is not walked through once more.
        if any(one.device != self.device for one in (*module.parameters(), *module.buffers())):
            module.to(self.device)
        self._step = step

    def teardown(self, module: torch.nn.Module) -> None:
        """Bring the module back to the CPU."""
        self._step = None
        self.precision.restore_module(module)
        if self.device.type != "cpu":
            module.cpu()

    def share_buffers(self, module: torch.nn.Module) -> None:
        """Do nothing: there is one rank."""

    def training_step(self, *arguments: Any) -> Any:
        """Run the step."""
        assert self._step is not None, "the strategy was not set up to train"  # noqa: S101 - our own bug
        with self.precision.forward_context(self.device.type):
            return self._step(*arguments)

    def no_sync(self) -> AbstractContextManager[Any]:
        """Return a context that does nothing."""
        return nullcontext()

    def combine_gradients(self, *, late: bool) -> None:
        """Do nothing: there is one rank."""

    def clip_gradients(self, optimizer: torch.optim.Optimizer, clip_val: float, algorithm: str) -> None:
        """Clip by torch's own functions."""
        clip_whole(optimizer, clip_val, algorithm)

    def check_gradients(self) -> None:
        """Ask for nothing: a parameter without gradient is left as it is."""

    def model_state(self, module: torch.nn.Module) -> dict[str, Any]:
        """Return the module's own state_dict."""
        return module.state_dict()

    def load_model_state(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        """Load the module's own state_dict."""
        module.load_state_dict(state, strict=getattr(module, "strict_loading", True))

    def optimizer_state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Return the optimizer's own state_dict."""
        return optimizer.state_dict()

    def load_optimizer_state(self, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
        """Load the optimizer's own state_dict."""
        optimizer.load_state_dict(dict(state))
