"""Pruned parameters: torch keeps ``weight_orig`` and ``weight_mask``, and makes ``weight`` of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.nn.utils import prune


class Place(NamedTuple):
    """Where a parameter stands."""

    module: torch.nn.Module
    name: str

    @property
    def is_pruned(self) -> bool:
        """Whether it has a mask."""
        return f"{self.name}_orig" in self.module._parameters  # noqa: SLF001 - torch's own place

    @property
    def parameter(self) -> torch.Tensor:
        """The parameter that the optimizer changes."""
        found: torch.Tensor = getattr(self.module, f"{self.name}_orig" if self.is_pruned else self.name)
        return found

    @property
    def mask(self) -> torch.Tensor:
        """1 where an entry stays, 0 where it is pruned."""
        found: torch.Tensor = getattr(self.module, f"{self.name}_mask")
        return found

    def refresh(self) -> None:
        """Make the module's tensor of what is there now: torch does so before each forward only."""
        if self.is_pruned:
            setattr(self.module, self.name, self.parameter.detach() * self.mask)

    @property
    def density(self) -> tuple[int, int]:
        """How many entries are pruned, and how many there are."""
        total = self.parameter.numel()
        return (total - int(self.mask.count_nonzero()) if self.is_pruned else 0), total


def pruned_places(module: torch.nn.Module) -> list[Place]:
    """Return the parameters of a module that have masks."""
    return [
        Place(part, hook._tensor_name)  # noqa: SLF001 - torch has no other way to ask
        for part in module.modules()
        for hook in part._forward_pre_hooks.values()  # noqa: SLF001 - as above
        if isinstance(hook, prune.BasePruningMethod)
    ]


@contextmanager
def in_order(places: Iterable[Place]) -> Iterator[None]:
    """Let each module's parameters stand where they stood, whether masks are put on or taken off inside.

    torch puts what it renames at the end. Optimizers number parameters by their order, so without this a
    checkpoint of before would not fit the module any more.
    """
    before = [
        (part, [name.removesuffix("_orig") for name in part._parameters])  # noqa: SLF001 - torch's own place
        for part in {id(place.module): place.module for place in places}.values()
    ]
    yield
    for part, names in before:
        own = part._parameters  # noqa: SLF001 - others hold this dict, so it stays the same object
        now = {name.removesuffix("_orig"): name for name in own}
        for name in names:
            if name in now:
                own[now[name]] = own.pop(now[name])


def settle(places: list[Place]) -> None:
    """Put zeros into pruned parameters and take the masks off."""
    with in_order(places):
        for place in places:
            if place.is_pruned:
                prune.remove(place.module, place.name)  # type: ignore[no-untyped-call]  # torch's own


def plain_names(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    """Return a module's parameters, pruned ones under the names that they have without masks."""
    pruned = {id(place.parameter) for place in pruned_places(module)}
    return {
        name.removesuffix("_orig") if id(one) in pruned else name: one
        for name, one in module.named_parameters()
    }


def plain_state(state: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Return a state_dict with pruned parameters under their own names, with zeros for masks."""
    known, found = set(names), {}
    for key, value in state.items():
        name = key.removesuffix("_orig")
        if name != key and name in known and f"{name}_mask" in state:
            found[name] = value * state[f"{name}_mask"].to(value.device)
        elif not (key.endswith("_mask") and key.removesuffix("_mask") in known):
            found[key] = value
    return found
