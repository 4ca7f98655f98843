"""Which parts of a module are sharded each by itself: gathered before its forward, and let go after it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from drivetrain.base.errors import ModuleError
from drivetrain.base.text import listed


def units_of(
    module: torch.nn.Module, wrap: Sequence[str] | None, min_num_params: int | None
) -> list[torch.nn.Module]:
    """Return the units, inner ones before those around them; what is in none of them is one unit together.

    They are the modules of the classes that ``wrap`` names, or that the module, or one in it, names in
    ``_no_split_modules``; those with modules in them and at least ``min_num_params`` parameters that no unit
    in them has; without any of these, the elements of each ``ModuleList``, and of each ``Sequential`` whose
    elements have modules in them. A module whose parameters are used outside of it too is none.

    Raises:
        ModuleError [strategy.no-such-class]: no module is of a class that ``wrap`` names.
    """
    names = set(wrap) if wrap else _declared(module)
    if names:
        found = [part for part in module.modules() if _kinds(part) & names]
        missing = names - {name for part in found for name in _kinds(part)} if wrap else set()
        if missing:
            raise _unknown(module, sorted(missing))
    elif min_num_params is not None:
        return _large(module, min_num_params)
    else:
        found = [*_elements(module)]
    wanted = {id(part) for part in found}
    inner_first = [part for part in [*module.modules()][::-1] if id(part) in wanted]
    return [part for part in inner_first if part is not module and _is_closed(module, part)]


def _kinds(part: torch.nn.Module) -> set[str]:
    return {kind.__name__ for kind in type(part).__mro__}


def _declared(module: torch.nn.Module) -> set[str]:
    """Return the classes that the module says not to split, by the name that Hugging Face's models use."""
    found: set[str] = set()
    for part in module.modules():
        said: Any = getattr(part, "_no_split_modules", None)
        found |= {one if isinstance(one, str) else one.__name__ for one in said or ()}
    return found & {name for part in module.modules() for name in _kinds(part)}


def _elements(module: torch.nn.Module) -> Iterator[torch.nn.Module]:
    for part in module.modules():
        if isinstance(part, torch.nn.ModuleList):
            yield from (one for one in part if _has_parameters(one))
        elif isinstance(part, torch.nn.Sequential):
            yield from (one for one in part if _has_parameters(one) and any(True for _ in one.children()))


def _large(module: torch.nn.Module, least: int) -> list[torch.nn.Module]:
    taken: set[int] = set()
    found = []
    for part in [*module.modules()][::-1]:
        own = [one for one in part.parameters() if id(one) not in taken and not is_lazy(one)]
        is_container = isinstance(
            part, (torch.nn.ModuleList, torch.nn.ModuleDict)
        )  # nobody calls its forward
        is_leaf = not any(True for _ in part.children())  # whose output may be a view, of which torch warns
        if part is module or is_container or is_leaf or math.fsum(one.numel() for one in own) < least:
            continue
        if _is_closed(module, part):
            found.append(part)
            taken |= {id(one) for one in own}
    return found


def _has_parameters(part: torch.nn.Module) -> bool:
    return next(part.parameters(), None) is not None


def _is_closed(module: torch.nn.Module, part: torch.nn.Module) -> bool:
    """Whether no module outside of the part has one of its parameters, which would be gathered too late."""
    inside = {id(one) for one in part.modules()}
    own = {id(one) for one in part.parameters()}
    outside: Iterable[torch.nn.Module] = (one for one in module.modules() if id(one) not in inside)
    return not any(id(one) in own for other in outside for one in other.parameters(recurse=False))


def _unknown(module: torch.nn.Module, missing: list[str]) -> ModuleError:
    there = sorted({type(part).__name__ for part in module.modules() if _has_parameters(part)})
    return ModuleError(
        "strategy.no-such-class",
        f"no module in {type(module).__name__} is a {missing[0]}",
        values={"wrap": missing},
        because=f"wrap names classes of modules that are sharded each by itself; there are: {listed(there)}",
        hint=f"pass wrap=[{there[0]!r}], or leave wrap out" if there else "leave wrap out",
    )
