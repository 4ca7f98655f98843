"""A linear layer as torchao's float8 one, and back: the same object, whose class changes."""

from __future__ import annotations

import dataclasses
from typing import final

import torch
from torchao.float8 import Float8LinearConfig
from torchao.float8.float8_linear import Float8Linear


@final
class Float8Layer(Float8Linear):  # type: ignore[misc]  # torchao has no types
    """torchao's layer, which follows autocast on any device; its own follows CUDA's."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Multiply in float8.

        Shapes:
            inputs: [..., in_features].
            returns: [..., out_features].
        """
        kind = inputs.device.type
        if torch.is_autocast_enabled(kind):
            inputs = inputs.to(torch.get_autocast_dtype(kind))
        # Autocast would look into what is float8 already, where no gradient is wanted.
        with torch.autocast(kind, enabled=False):
            found: torch.Tensor = super().forward(inputs)
        return found


def put_on(layer: torch.nn.Linear, recipe: str, *, emulate: bool) -> None:
    """Let a plain layer compute in float8; its parameters, hooks and name stay."""
    config = dataclasses.replace(Float8LinearConfig.from_recipe_name(recipe), emulate=emulate)
    made, own = Float8Layer.from_float(layer, config).__dict__, layer.__dict__
    extras = {name: value for name, value in made.items() if name not in own}
    own.update(extras, _float8_extras=tuple(extras))
    layer.__class__ = Float8Layer


def take_off(layer: torch.nn.Module) -> None:
    """Make the layer plain again, if it is not."""
    if isinstance(layer, Float8Layer):
        own = layer.__dict__
        for name in own.pop("_float8_extras"):
            own.pop(name, None)
        layer.__class__ = torch.nn.Linear  # type: ignore[assignment]  # its class as it was made
