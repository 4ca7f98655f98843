"""Ranks without processes: what rank 0 broadcasts is kept, and told to the others in order."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import cloudpickle


class Told:
    """The collectives of one rank, as far as a logger uses them."""

    def __init__(self, rank: int = 0, said: list[Any] | None = None) -> None:
        self.rank = rank
        self.said = [] if said is None else said

    def broadcast_object(self, value: Any, source: int = 0) -> Any:
        if self.rank == source:
            self.said.append(value)
            return value
        return self.said.pop(0)


def names(folder: Any) -> list[str]:
    """Return what a folder holds."""
    return sorted(one.name for one in Path(folder).iterdir())


def begun(logger: Any, stage: str = "fit", resumed_step: int | None = None) -> Any:
    """Return the logger in a run, as rank 0."""
    logger.begin(Told(), stage=stage, resumed_step=resumed_step)
    return logger


def on_rank_one(logger: Any, stage: str = "fit") -> Any:
    """Return what another rank has of a logger that begins here as rank 0."""
    arrived = pickle.loads(cloudpickle.dumps(logger))  # noqa: S301 - our own bytes
    zero = Told()
    logger.begin(zero, stage=stage)
    arrived.begin(Told(1, zero.said), stage=stage)
    return arrived
