"""EngineLoader: a loader's batches for one rank, by the data law."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, final

from drivetrain.data import Feed
from drivetrain.strategies.strategy import Strategy
from drivetrain.strategies.together import together


@final
class EngineLoader:
    """Iterate it once an epoch: ``for batch in loader``; every time is the next epoch, in another order.

    So it is after an epoch that was left before its end; one that `load_state_dict` brought back goes on.
    In training, all ranks take equally many steps. When the batches do not come out even, the last step has
    ranks without a batch of their own: they get one whose ``weight`` is 0, and `Engine.backward` multiplies
    the loss with the weight, so that the gradient is that of the mean over the step's samples. With
    ``evaluation=True`` every batch is given once, to one rank, and ranks may have different numbers of them;
    where ranks can run the model only together (``fsdp``), those that have no more get batches whose
    ``weight`` is 0, which count nowhere.
    """

    def __init__(
        self, feed: Feed, move: Callable[[Any], Any], world_size: int, evaluates: Strategy | None
    ) -> None:
        self._feed, self._move, self._world_size, self._evaluates = feed, move, world_size, evaluates
        self._epoch, self._consumed, self._resumes = 0, 0, False
        self.weight = 1.0
        """What the loss of the batch that was given last counts; 1 outside of an epoch."""
        self.is_reading = False
        """Whether an epoch of training is going on."""

    def __iter__(self) -> Iterator[Any]:
        if self._consumed and not self._resumes:  # the last iteration was left before its end
            self._epoch, self._consumed = self._epoch + 1, 0
        self._resumes = False
        read = (
            self._feed.training(self._epoch, self._consumed)
            if self._evaluates is None
            else together(iter(self._feed.evaluation()), self._evaluates)
        )
        self.is_reading = self._evaluates is None
        try:
            for batch, share in read:
                self.weight, self._consumed = share.weight, share.consumed
                yield self._move(batch)
            self._epoch, self._consumed = self._epoch + 1, 0
        finally:
            self.is_reading, self.weight = False, 1.0

    def __len__(self) -> int:
        """Return how many batches this rank gets in a training epoch; TypeError where nobody knows."""
        if self._feed.num_batches is None:
            message = "the loader's dataset has no length"
            raise TypeError(message)
        return math.ceil(self._feed.num_batches / self._world_size)

    def set_epoch(self, epoch: int) -> None:
        """Say which epoch comes next; without it they are counted."""
        self._epoch, self._consumed, self._resumes = epoch, 0, False

    def state_dict(self) -> dict[str, Any]:
        """Return where it stands: right after the batch that was given last."""
        data = self._feed.state_dict(is_read=not self._consumed)
        return {"epoch": self._epoch, "consumed": self._consumed, "data": data}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Stand where `state_dict` was taken: the next iteration goes on there, on any number of ranks."""
        self._epoch, self._consumed = int(state["epoch"]), int(state["consumed"])
        self._resumes = True
        self._feed.load_state_dict(state.get("data", {}))

    def close(self) -> None:
        """Let the workers go."""
        self._feed.close()
