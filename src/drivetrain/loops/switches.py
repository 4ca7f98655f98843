"""What is on and off in a module: which parameters have gradients, which parts are in eval mode."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

NAMES = ("frozen", "in_eval")


def switches_of(
    module: torch.nn.Module, modes: list[tuple[torch.nn.Module, bool]] | None = None
) -> dict[str, list[str]]:
    """Return the parameters without gradient, and the parts in eval mode; ``modes`` say those of before."""
    training = {id(part): mode for part, mode in modes or ()}
    return {
        "frozen": [name for name, one in module.named_parameters() if not one.requires_grad],
        "in_eval": [
            name for name, part in module.named_modules() if not training.get(id(part), part.training)
        ],
    }


def restore_switches(
    module: torch.nn.Module, kept: Mapping[str, Mapping[str, Any]], begun_with: Mapping[str, list[str]]
) -> None:
    """Set what hooks had changed in the fit; nothing, where the module was made with others by now.

    Hooks that freeze and unfreeze at an epoch's start are not called again for an epoch that goes on.
    """
    if sorted(kept["begun"]["frozen"]) == sorted(begun_with["frozen"]):
        frozen = {*kept["now"]["frozen"]}
        for name, parameter in module.named_parameters():
            if parameter.requires_grad is (name in frozen):
                parameter.requires_grad_(name not in frozen)
    if sorted(kept["begun"]["in_eval"]) == sorted(begun_with["in_eval"]):
        in_eval = {*kept["now"]["in_eval"]}
        for name, part in module.named_modules():
            part.training = name not in in_eval
