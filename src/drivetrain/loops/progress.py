"""Where a fit stands: everything that a resumed run has to count on from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any


@dataclass
class Progress:
    """Counters of a fit. ``batches`` counts over all ranks, so that another world size can go on."""

    epoch: int = 0
    """The epoch that is going on, from 0."""
    global_step: int = 0
    """Optimizer steps taken."""
    optimizer_steps: int = 0
    """Steps of every optimizer, in manual optimization; several of them may step in a batch."""
    batches: int = 0
    """Batches of this epoch that are used up, over all ranks."""
    steps: int = 0
    """Steps of this epoch, those that were left out included: the next step's ``batch_idx``."""
    samples: int = 0
    """Samples that the steps of all epochs saw, over all ranks."""
    tokens: int = 0
    """Tokens that those steps saw, over all ranks, where the module counts them."""
    accumulate: int = 1
    """Batches that an optimizer step takes in this epoch."""
    seen: int = 0
    """Steps of all epochs, those that were left out included."""
    passed: dict[str, tuple[str, int]] = field(default_factory=dict)
    """By interval that is said in a unit: what was said, and how many of them are over."""
    evaluated: dict[str, int] = field(default_factory=dict)
    """By loader that is evaluated: batches of all its evaluations, as loggers count them."""
    validated_at: int = -1
    """What ``seen`` was when the last validation was run."""
    closed_at: int = -1
    """What ``seen`` was when an epoch that was cut short had its end; -1 where none was."""
    is_validating: bool = False
    """Whether a validation within the epoch was due, and is not over."""
    is_stopping: bool = False
    """Whether somebody had asked to stop, and ``min_epochs`` or ``min_steps`` held it back."""
    is_started: bool = False
    """Whether on_train_epoch_start was called in this epoch."""
    is_trained: bool = False
    """Whether the epoch's last step was taken."""
    is_done: bool = False
    """Whether all of the epoch's hooks but the last were called, and its schedulers stepped."""

    def next_epoch(self) -> None:
        """Begin the next epoch."""
        self.epoch += 1
        self.batches = self.steps = 0
        self.is_started = self.is_trained = self.is_done = False

    def state_dict(self) -> dict[str, Any]:
        """Return the counters as plain data."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take up what `state_dict` returned; an epoch that is done is left behind."""
        for spec in fields(self):
            if spec.name in state:
                setattr(self, spec.name, state[spec.name])
        if "closed_at" not in state:
            self.closed_at = self.seen  # of a file from before this was told apart
        if self.is_done:
            self.next_epoch()
