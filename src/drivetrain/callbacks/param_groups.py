"""Parameter groups that come, or get other learning rates, under schedulers that run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch

_RATES = ("base_lrs", "max_lrs")
_OTHERS = ("lr_lambdas", "base_momentums", "max_momentums")
_IN_GROUPS = ("initial_lr", "max_lr", "min_lr")
_OTHERS_IN_GROUPS = ("base_momentum", "max_momentum")


def rates(optimizer: torch.optim.Optimizer) -> list[Any]:
    """Return the learning rate of each group."""
    return [group["lr"] for group in optimizer.param_groups]


def follow(configs: Sequence[Any], optimizer: torch.optim.Optimizer, before: Sequence[Any]) -> None:
    """Let schedulers go on from the rates that the groups have now; ``before`` are those that they had.

    torch's schedulers have an entry for each group that was there when they were made, and fail at their next
    step where groups were added. A group that came follows the first group's schedule, from its own rate.
    """
    groups = optimizer.param_groups
    schedulers = [one for config in configs for one in _all(config.scheduler) if _is_of(one, optimizer)]
    for number, group in enumerate(groups):
        is_new = number >= len(before)
        model, was = (groups[0], before[0]) if is_new else (group, before[number])
        if not is_new and group["lr"] == was:
            continue
        factor = float(group["lr"]) / float(was) if float(was) else 1.0
        for name in (*_IN_GROUPS, *_OTHERS_IN_GROUPS):
            if schedulers and name in model:
                group[name] = model[name] * factor if name in _IN_GROUPS else model[name]
        for scheduler in schedulers:
            for name in (*_RATES, *_OTHERS):
                kept = getattr(scheduler, name, None)
                source = 0 if is_new else number
                if not isinstance(kept, list) or source >= len(kept):
                    continue
                value = kept[source]
                value = value * factor if name in _RATES else value
                kept[number : number + 1] = [value]


def _all(scheduler: Any) -> Iterator[Any]:
    yield scheduler
    for inner in getattr(scheduler, "_schedulers", ()):
        yield from _all(inner)


def _is_of(scheduler: Any, optimizer: torch.optim.Optimizer) -> bool:
    return getattr(scheduler, "optimizer", None) is optimizer
