"""A module that is run on the side: for a summary, for statistics, to be written in another format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, final

import torch

from drivetrain.modules.run import LogOptions


@final
class Deaf:
    """Stands in for what takes logged values, and forgets them."""

    @property
    def noted(self) -> list[tuple[str, Any, LogOptions]]:
        """A list that nobody keeps."""
        return []

    def log(self, name: str, value: Any, options: LogOptions) -> None:
        """Keep nothing."""


@contextlib.contextmanager
def untouched(module: torch.nn.Module) -> Iterator[None]:
    """Run in eval mode without gradients; leave modes, random numbers and logged values as they are."""
    modes = [(part, part.training) for part in module.modules()]
    own = vars(module).get("_recorder")
    device = next((one.device for one in module.parameters()), torch.device("cpu"))
    with torch.random.fork_rng([device] if device.type == "cuda" else []), torch.no_grad():
        if hasattr(module, "_recorder"):
            vars(module)["_recorder"] = Deaf()
        try:
            module.eval()
            yield
        finally:
            if hasattr(module, "_recorder"):
                vars(module)["_recorder"] = own
            for part, mode in modes:
                part.training = mode
