"""The state of torchmetrics objects that a module holds, whoever updates and resets them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from drivetrain.loops.slots import COUNTERS, beside, is_metric, load_metric, metric_state


def meters_of(module: torch.nn.Module) -> dict[str, Any]:
    """Return the state of each that has one that a new object would not have, as it is now."""
    found = {path: metric for path, metric in _meters(module) if _is_updated(metric) or beside(metric)}
    return {path: metric_state(metric) for path, metric in found.items()}


@contextmanager
def metrics_unchanged(module: torch.nn.Module) -> Iterator[None]:
    """Let a block leave no trace in the module's torchmetrics objects."""
    before = [(metric, metric_state(metric)) for _, metric in _meters(module)]
    try:
        yield
    finally:
        for metric, kept in before:
            load_metric(metric, kept, metric.device)


def _is_updated(metric: Any) -> bool:
    # A running window's updates are not counted by torchmetrics itself.
    return metric.update_count > 0 or any(vars(metric).get(name) for name in COUNTERS)


def restore_meters(
    module: torch.nn.Module, of_ranks: Sequence[Mapping[str, Any]], rank: int, world_size: int
) -> list[str]:
    """Give this rank's back; on another world size rank 0 has what all ranks had together.

    Returns those that could not be put together: torchmetrics does not know how they would be.
    """
    device, left = next(iter(module.parameters()), torch.zeros(())).device, []
    for path, metric in _meters(module):
        states = [one[path] for one in of_ranks if path in one]
        if len(of_ranks) == world_size:
            states = [of_ranks[rank][path]] if path in of_ranks[rank] else []
        elif rank:
            states = []
        if states:
            joined, is_whole = _joined(metric, states)
            load_metric(metric, joined, device)
            left += [] if is_whole else [path]
    return left


def _joined(metric: Any, states: list[Mapping[str, Any]]) -> tuple[Mapping[str, Any], bool]:
    """Return several ranks' states as one, by the reductions that torchmetrics has for ranks."""
    if len(states) == 1:
        return states[0], True
    found, is_whole = dict(states[0]["state"]), True
    for name, value in found.items():
        values = [one["state"][name] for one in states]
        reduction = metric._reductions.get(name)  # noqa: SLF001 - torchmetrics has no public way to ask
        if isinstance(value, list):
            found[name] = [one for some in values for one in some]
        elif callable(reduction):
            found[name] = reduction(torch.stack(values))
        else:
            is_whole = False
    updates = sum(one["updates"] for one in states)
    return {"state": found, "updates": updates, "beside": states[0].get("beside", {})}, is_whole


def _meters(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    for path, part in module.named_modules():
        if not is_metric(part):
            continue
        if hasattr(part, "compute_groups"):
            list(part.values(copy_state=False))  # a collection shares states, and hands them out when asked
        elif hasattr(part, "metric_state") and hasattr(part, "update_count"):
            yield path, part
