"""What a module or callback may ask of the run that it is in. The Trainer is the one that answers."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from drivetrain.base.quantity import Quantity
from drivetrain.collectives.collectives import Collectives
from drivetrain.resolver.plan import Plan


class Run(Protocol):
    """The trainer, as hooks see it."""

    should_stop: bool
    """Set it to end the fit after this step; with several ranks, at the next step that all agree on."""
    accumulate_grad_batches: int
    """Batches that an optimizer step takes; set in on_train_epoch_start it holds for the epoch."""
    callbacks: list[Any]
    """The callbacks, those that the Trainer added included."""
    profiler: Any
    """What measures the run: ``with trainer.profiler.profile("load"):`` adds an action of your own."""
    loggers: list[Logs]
    """Where logged values are written."""

    @property
    def plan(self) -> Plan:
        """What was decided, and why."""

    @property
    def ckpt_path(self) -> str | None:
        """The checkpoint that this run was begun from; None without one."""

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
    def max_steps(self) -> int:
        """Optimizer steps that fit takes at most; -1 for no bound."""

    @property
    def min_epochs(self) -> int:
        """Epochs that fit runs at least, whoever asks to stop."""

    @property
    def min_steps(self) -> int:
        """Optimizer steps that fit takes at least, whoever asks to stop."""

    @property
    def training(self) -> bool:
        """Whether steps are taken now."""

    @property
    def validating(self) -> bool:
        """Whether the validation loop runs now, in a fit or by itself."""

    @property
    def testing(self) -> bool:
        """Whether the test loop runs now."""

    @property
    def predicting(self) -> bool:
        """Whether the prediction loop runs now."""

    @property
    def evaluating(self) -> bool:
        """Whether the validation or the test loop runs now."""

    @property
    def sanity_checking(self) -> bool:
        """Whether the few validation batches before a fit run now."""

    @property
    def strategy(self) -> Any:
        """The run-time `Strategy`, with its accelerator, precision and device."""

    @property
    def collectives(self) -> Collectives:
        """Communication over all ranks; works with one rank too."""

    @property
    def lr_scheduler_configs(self) -> Sequence[Any]:
        """The schedulers of the fit, each with when it steps: ``scheduler``, ``interval``, ``frequency``."""

    @property
    def logger(self) -> Any:
        """The first logger, or None."""

    @property
    def log_dir(self) -> str:
        """Where the first logger that has a folder writes; else `default_root_dir`."""

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

    def note_metrics(self, values: Mapping[str, float]) -> None:
        """Put values into `callback_metrics`, without giving them to loggers; the same ones on every rank."""

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
    def num_val_batches(self) -> list[int | None]:
        """Batches of each validation loader, over all ranks; None where a loader has no length."""

    @property
    def num_sanity_val_batches(self) -> list[int | None]:
        """Batches of each validation loader that each rank runs before a fit."""

    @property
    def num_test_batches(self) -> list[int | None]:
        """Batches of each test loader, over all ranks."""

    @property
    def num_predict_batches(self) -> list[int | None]:
        """Batches of each prediction loader, over all ranks."""

    @property
    def fast_dev_run(self) -> int | bool:
        """Whether the run only tries whether everything works, and leaves no file."""

    @property
    def log_every_n_steps(self) -> int | Quantity:
        """Optimizer steps between those whose values are logged; a quantity where it has another unit."""

    @property
    def logging_step(self) -> int:
        """The number under which loggers get the values of the step that was taken last."""

    @property
    def coming_logging_step(self) -> int:
        """The number under which loggers get what is known before the coming step."""

    @property
    def is_logging_step(self) -> bool:
        """Whether the step that was taken is one of ``log_every_n_steps``; for ``on_train_batch_end``."""

    @property
    def samples_seen(self) -> int:
        """Samples that the optimizer steps of all epochs took, over all ranks."""

    @property
    def tokens_seen(self) -> int:
        """Tokens that they took, over all ranks, as the module's `count_tokens` says; 0 without it."""

    @property
    def val_check_interval(self) -> Any:
        """When a fit validates: batches between validations, the part of an epoch, or a Quantity."""

    @property
    def check_val_every_n_epoch(self) -> int | None:
        """In which epochs a fit validates; None counts batches over epochs' ends."""

    @property
    def is_epoch_whole(self) -> bool:
        """Whether the epoch's last step was taken; not where a bound or a wish to stop cut it short."""

    @property
    def is_leaving(self) -> bool:
        """Whether a signal ends the fit: there is little time, and what takes long is left out."""

    @property
    def batch_indices(self) -> Any:
        """The dataset's indices of the samples in the batch that predict is at; None where nobody knows."""

    def training_batches(self) -> Iterator[Any]:
        """Read the fit's training data once more, on the device: for statistics over all of it."""

    @property
    def default_root_dir(self) -> str:
        """Where files go when nobody says otherwise."""

    def print(self, *values: Any, **options: Any) -> None:
        """Print on rank 0 only, with the options of Python's own; above the progress bar."""

    def save_checkpoint(
        self, filepath: str | os.PathLike[str], weights_only: bool = False, *, alone: bool = False
    ) -> None:
        """Write a checkpoint; every rank must call. ``alone`` asks no other rank, and writes on rank 0."""


class Logs(Protocol):
    """A logger, as the run sees it: written to on rank 0, unless it says otherwise itself."""

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write values; ``step`` counts optimizer steps taken."""

    def log_hyperparams(self, params: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """Write the arguments that a module or data module was made with."""

    def save(self) -> None:
        """Bring what was written to the disk or the server."""

    def finalize(self, status: str) -> None:
        """End: ``success``, ``failed`` or ``interrupted``; a later write opens it again."""


class Recorder(Protocol):
    """Takes what modules log."""

    @property
    def noted(self) -> list[tuple[str, Any, LogOptions]]:
        """What a compiled graph logged, in order; the recorder takes it before it is asked anything."""

    def log(self, name: str, value: Any, options: LogOptions) -> None:
        """Note a value."""


class Stepper(Protocol):
    """What a fit does for a module that optimizes by hand."""

    def manual_backward(self, loss: torch.Tensor) -> None:
        """Compute gradients, combined over ranks."""

    def clip(self, optimizer: torch.optim.Optimizer, clip_val: float | None, algorithm: str | None) -> None:
        """Clip an optimizer's gradients."""


class LogOptions(NamedTuple):
    """How one value is to be kept: what ``self.log`` was told."""

    prog_bar: bool = False
    logger: bool = True
    on_step: bool | None = None
    on_epoch: bool | None = None
    add_dataloader_idx: bool = True
    reduce_fx: Any = "mean"
    rank_fx: Any = None
    sync_dist: bool = True
    rank_zero_only: bool = False
    enable_graph: bool = False
    batch_size: int | None = None
    metric_attribute: str | None = None
