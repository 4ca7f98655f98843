"""Logged values of all ranks become one: two all_reduces for any number of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from drivetrain.collectives.collectives import Collectives
from drivetrain.loops.slots import Fx, finished


class Entry(NamedTuple):
    """What one rank brings of one name."""

    fx: Fx
    total: Any
    """The value, for a mean times its weight; all values for a function; None where this rank has none."""
    weight: float = 1.0


def reduced(entries: Sequence[Entry], collectives: Collectives, device: torch.device) -> list[torch.Tensor]:
    """Return each name's value over all ranks.

    Shapes:
        returns: one float64 tensor [] an entry, on ``device``.
    Collectives:
        one all_reduce of 16 bytes a name, one more for those with ``min`` or ``max``, and a gather of
        objects where there are functions; every rank must call with the same operations.
    """
    if not entries:
        return []
    if collectives.world_size == 1:
        return [finished(*entry).to(device) for entry in entries]
    found: dict[int, torch.Tensor] = {}
    for fxs, combine in ((("mean", "sum"), _summed), (("min", "max"), _largest)):
        some = {index: entry for index, entry in enumerate(entries) if entry.fx in fxs}
        if some:
            found |= dict(zip(some, combine(list(some.values()), collectives, device), strict=True))
    functions = {index: entry for index, entry in enumerate(entries) if not isinstance(entry.fx, str)}
    if functions:
        found |= dict(zip(functions, _applied(list(functions.values()), collectives, device), strict=True))
    return [found[index] for index in range(len(entries))]


def _summed(entries: list[Entry], collectives: Collectives, device: torch.device) -> list[torch.Tensor]:
    totals = [0.0 if entry.total is None else entry.total for entry in entries]
    weights = [0.0 if entry.total is None else entry.weight for entry in entries]
    both = collectives.all_reduce(_bundle([*totals, *weights], device), "sum").unbind()
    pairs = zip(entries, both[: len(entries)], both[len(entries) :], strict=True)
    # Where nobody has a value there is none, as in a world of one.
    return [
        total / weight if entry.fx == "mean" else torch.where(weight > 0, total, torch.nan)
        for entry, total, weight in pairs
    ]


def _largest(entries: list[Entry], collectives: Collectives, device: torch.device) -> list[torch.Tensor]:
    signs = [1.0 if entry.fx == "max" else -1.0 for entry in entries]  # a minimum travels as a maximum
    mine = _bundle(
        [
            -torch.inf if entry.total is None else sign * entry.total
            for entry, sign in zip(entries, signs, strict=True)
        ],
        device,
    )
    # A backend's maximum may pass over nan. So it travels apart: 0 for no value, 1 for one, 2 for nan.
    has = torch.tensor([float(entry.total is not None) for entry in entries], dtype=mine.dtype, device=device)
    is_nan = mine.isnan()
    told = torch.cat([mine.masked_fill(is_nan, torch.inf), has + is_nan])
    most, known = collectives.all_reduce(told, "max").chunk(2)
    values = torch.where(known == 1, most, torch.nan).unbind()
    return [value * sign for value, sign in zip(values, signs, strict=True)]


def _applied(entries: list[Entry], collectives: Collectives, device: torch.device) -> list[torch.Tensor]:
    mine = [
        None if entry.total is None else torch.as_tensor(entry.total).double().reshape(-1).cpu()
        for entry in entries
    ]
    everybody = collectives.all_gather_object(mine)
    rows = [[row for row in of_name if row is not None] for of_name in zip(*everybody, strict=True)]
    return [
        finished(entry.fx, torch.cat(parts) if parts else None, 1.0).to(device)
        for entry, parts in zip(entries, rows, strict=True)
    ]


def _bundle(values: list[Any], device: torch.device) -> torch.Tensor:
    return torch.stack([torch.as_tensor(value, dtype=torch.float64, device=device) for value in values])
