"""Which parameters a backward uses, and which of them got nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, final

import torch

_MOST_NAMES = 8
_INDICES = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


@final
class Use:
    """Notes, until it is asked, which trainable parameters of a module are given a gradient on this rank."""

    def __init__(self, module: torch.nn.Module) -> None:
        self._names = {id(one): name for name, one in module.named_parameters() if one.requires_grad}
        self._used: set[int] = set()
        self._handles: list[Any] = [
            one.register_post_accumulate_grad_hook(self._note)  # type: ignore[no-untyped-call]  # torch's
            for one in module.parameters()
            if one.requires_grad
        ]

    def _note(self, parameter: torch.Tensor) -> None:
        self._used.add(id(parameter))

    def unused(self) -> list[str]:
        """Return the names of those that got nothing, and stop noting."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        return [name for key, name in self._names.items() if key not in self._used]


def unused_since(error: RuntimeError, module: torch.nn.Module) -> list[str]:
    """Return the names of the parameters that torch's wrapper speaks of by index; none if it does not."""
    found = _INDICES.search(str(error))
    if found is None:
        return []
    trainable = [name for name, one in module.named_parameters() if one.requires_grad]
    return [trainable[int(index)] for index in found[1].split() if int(index) < len(trainable)]


def told(of_ranks: Sequence[Sequence[str]]) -> str:
    """Say which parameters got no gradient in the first step, on which ranks."""
    everywhere = [name for name in of_ranks[0] if all(name in names for names in of_ranks)]
    parts = [f"{some(everywhere)} on every rank"] if everywhere else []
    for rank, names in enumerate(of_ranks):
        own = [name for name in names if name not in everywhere]
        parts += [f"{some(own)} on rank {rank}"] if own else []
    return f"parameters that got no gradient in the first step: {'; '.join(parts)}"


def some(names: Sequence[str]) -> str:
    """Return the first names."""
    return ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
