"""Batches of an evaluation for ranks that can run the model only together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from drivetrain.data import Share
from drivetrain.strategies.strategy import Strategy

STAND_IN = Share(0, 0, 0.0, 0, 0)
"""The share of a batch that is run for the other ranks' sake, and counts nowhere."""


def together(batches: Iterator[tuple[Any, Share]], strategy: Strategy) -> Iterator[tuple[Any, Share]]:
    """Yield this rank's batches, and stand-ins as long as another rank has some left.

    Where each rank has the whole model there are none. A stand-in is the batch before it; a rank that had
    none is given rank 0's, which always has the first.

    Collectives:
        one all_reduce of 16 bytes a batch, and a broadcast of a batch where a rank has none at all; every
        rank must call and read to the end.
    """
    if strategy.has_whole_model or strategy.ranks.world_size == 1:
        yield from batches
        return
    collectives, device = strategy.collectives, strategy.device
    last: Any = None
    has_had = False
    while True:
        entry = next(batches, None)
        is_poor = entry is None and not has_had
        told = torch.tensor([entry is not None, is_poor], dtype=torch.int64, device=device)
        is_any, is_any_poor = collectives.all_reduce(told, "max").tolist()
        if not is_any:
            return
        if is_any_poor:
            given = collectives.broadcast_object(entry[0] if entry is not None else last)
            last, has_had = (given, True) if is_poor else (last, has_had)
        if entry is None:
            yield last, STAND_IN
            continue
        last, has_had = entry[0], True
        yield entry
