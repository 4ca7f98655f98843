"""What a module or callback may ask of the run that it is in. The Trainer is the one that answers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from drivetrain.resolver.plan import Plan


class Run(Protocol):
    """The trainer, as hooks see it."""

    should_stop: bool
    """Set it to end the fit after this step; with several ranks, at the next step that all agree on."""

    @property
    def plan(self) -> Plan:
        """What was decided, and why."""

    @property
    def current_epoch(self) -> int:
        """Number of the epoch, from 0."""

    @property
    def global_step(self) -> int:
        """Optimizer steps taken."""

    @property
    def max_epochs(self) -> int:
        """Epochs that fit runs at most; -1 for no bound."""

    @property
    def world_size(self) -> int:
        """Number of ranks."""

    @property
    def global_rank(self) -> int:
        """This process's rank."""

    @property
    def local_rank(self) -> int:
        """This process's rank on its node."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this process speaks and writes for all."""

    @property
    def callback_metrics(self) -> Mapping[str, torch.Tensor]:
        """Logged values, the newest of each."""

    @property
    def progress_bar_metrics(self) -> Mapping[str, torch.Tensor]:
        """Values logged with ``prog_bar=True``, of this rank, the newest of each."""

    @property
    def optimizers(self) -> Sequence[torch.optim.Optimizer]:
        """What configure_optimizers returned."""

    @property
    def num_training_batches(self) -> int | None:
        """Steps of an epoch; None where the loader has no length."""

    @property
    def default_root_dir(self) -> str:
        """Where files go when nobody says otherwise."""

    def save_checkpoint(self, filepath: str | os.PathLike[str], weights_only: bool = False) -> None:
        """Write a checkpoint; every rank must call."""


class Recorder(Protocol):
    """Takes what modules log."""

    def log(self, name: str, value: Any, options: LogOptions) -> None:
        """Note a value."""


class LogOptions(NamedTuple):
    """How one value is to be kept: what ``self.log`` was told."""

    prog_bar: bool = False
    on_step: bool | None = None
    on_epoch: bool | None = None
    add_dataloader_idx: bool = True
    batch_size: int | None = None
