"""A module's step as a forward, for wrappers that act around forward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch


@final
class StepForward(torch.nn.Module):
    """Holds the user's module and runs one of its steps as forward.

    The wrapper sees every parameter below ``module``; the user's module sees nothing of it.
    """

    def __init__(self, module: torch.nn.Module, step: Callable[..., Any]) -> None:
        super().__init__()
        self.module = module
        self._step = step

    def forward(self, *arguments: Any) -> Any:
        """Run the step."""
        return self._step(*arguments)
