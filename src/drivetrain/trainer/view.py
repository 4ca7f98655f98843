"""View: what a trainer answers about its plan and its run; nothing here acts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import torch

from drivetrain.base.errors import TrainerError
from drivetrain.base.loading import Later
from drivetrain.base.quantity import Quantity
from drivetrain.build import ranks_here
from drivetrain.callbacks.callback import Callback, Checkpoint
from drivetrain.collectives.collectives import Collectives
from drivetrain.loops.compiled import Compiler
from drivetrain.loops.context import Context
from drivetrain.loops.optimization import Scheduled
from drivetrain.loops.settings import Settings
from drivetrain.modules import DataModule, Module
from drivetrain.modules.run import Logs
from drivetrain.profilers.pass_through import PassThroughProfiler
from drivetrain.profilers.profiler import Profiler
from drivetrain.resolver.plan import Plan
from drivetrain.resolver.ranks import Ranks
from drivetrain.resolver.resolve import Resolution
from drivetrain.strategies.strategy import Strategy

if TYPE_CHECKING:
    from drivetrain.callbacks import early_stopping, progress_bar
    from drivetrain.precision import report
else:
    early_stopping = Later("drivetrain.callbacks.early_stopping")
    progress_bar = Later("drivetrain.callbacks.progress_bar")
    report = Later("drivetrain.precision.report")


class View:
    """The state of a Trainer, and questions about it."""

    _give: Callable[[Mapping[str, float], bool], None] | None = None
    _shown: Callable[[Any], Any] | None = None
    _counts_each = False
    """See `Context`: how a subclass writes and counts in another library's way."""
    _left_out: tuple[type[Callback], ...] = ()
    """Callbacks that do not take part, if the module brings them; for a run on the side."""
    _saves = True
    """Whether `save_checkpoint` does anything; not in a run on the side whose weights nobody wants."""

    def __init__(
        self,
        flags: Mapping[str, Any],
        found: Resolution,
        settings: Settings,
        callbacks: list[Callback],
        loggers: list[Logs],
    ) -> None:
        self._flags = flags
        self._resolution = found
        """What the flags came to; during a call with flags of its own, what those came to."""
        self._settings = settings
        self._given_callbacks = callbacks
        self.callbacks = callbacks
        self._gathered: list[Callback] | None = None
        """The callbacks: those given, those that the Trainer added, and in a run the module's own."""
        self.should_stop = False
        """Set it to end the fit after the step; with several ranks, after the next logging step or epoch."""
        self.interrupted = False
        """Whether the last fit was ended by KeyboardInterrupt."""
        self.received_sigterm = False
        """Whether SIGTERM ended the last fit."""
        self.accumulate_grad_batches = settings.accumulation.at(0)
        """Batches that an optimizer step takes; set in on_train_epoch_start it holds for the epoch."""
        self.loggers = loggers
        """Where logged values are written."""
        self.profiler: Profiler = PassThroughProfiler()
        """What measures the run; your own actions go in ``with trainer.profiler.profile("load"):``."""
        self._ckpt_path: str | None = None
        self._context: Context | None = None
        self._fitted: Context | None = None
        self._is_live = False
        self._module: Module | None = None
        self._compiler: Compiler | None = None
        """What the module of the last call was compiled with."""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the last run."""
        return {**self.__dict__, "_context": None, "_fitted": None, "_module": None, "_compiler": None}

    @property
    def plan(self) -> Plan:
        """What was decided, and why: ``print(trainer.plan.explain())``."""
        return self._resolution.plan

    @property
    def _ranks(self) -> Ranks:
        if self._context is not None:
            return self._context.strategy.ranks
        return ranks_here(self._resolution.plan, self._resolution.catalogue, self._resolution.objects)

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return self._resolution.plan.world_size

    @property
    def num_nodes(self) -> int:
        """Number of machines."""
        return self._resolution.plan.num_nodes

    @property
    def num_devices(self) -> int:
        """Devices (on CPU: processes) of each machine."""
        return self._resolution.plan.num_devices

    @property
    def global_rank(self) -> int:
        """This process's rank."""
        return self._ranks.rank

    @property
    def local_rank(self) -> int:
        """This process's rank on its machine."""
        return self._ranks.local_rank

    @property
    def is_global_zero(self) -> bool:
        """Whether this process speaks and writes for all."""
        return self._ranks.is_zero

    @property
    def current_epoch(self) -> int:
        """The epoch that is going on; after a fit, how many it finished."""
        return 0 if self._fitted is None else self._fitted.progress.epoch

    @property
    def global_step(self) -> int:
        """Optimizer steps of the fit, those before a resume included."""
        return 0 if self._fitted is None else self._fitted.progress.global_step

    @property
    def min_epochs(self) -> int:
        """Epochs that a fit runs at least, whoever asks to stop."""
        return self._settings.bounds.min_epochs

    @property
    def min_steps(self) -> int:
        """Optimizer steps that a fit takes at least, whoever asks to stop."""
        return self._settings.bounds.min_steps

    @property
    def max_epochs(self) -> int:
        """Epochs that a fit runs at most; -1 for no bound."""
        return self._settings.bounds.max_epochs

    @property
    def max_steps(self) -> int:
        """Optimizer steps that a fit takes at most; -1 for no bound."""
        return self._settings.bounds.max_steps

    @property
    def callback_metrics(self) -> Mapping[str, torch.Tensor]:
        """The newest value of everything logged in this run, over all ranks as of the last reduction."""
        return {} if self._context is None else self._context.results.metrics()

    def note_metrics(self, values: Mapping[str, float]) -> None:
        """Put values into `callback_metrics`, without giving them to loggers; the same ones on every rank."""
        if self._context is not None:
            self._context.results.note(values)

    @property
    def progress_bar_metrics(self) -> Mapping[str, torch.Tensor]:
        """The newest value of what was logged with ``prog_bar=True``; a step's value is this rank's own."""
        return {} if self._context is None else self._context.results.progress_bar()

    @property
    def model(self) -> Module | None:
        """The module of the last run."""
        return self._module

    lightning_module = model

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """What configure_optimizers returned for the fit."""
        return [] if self._fitted is None else self._fitted.optimizers

    @property
    def num_training_batches(self) -> int | None:
        """Steps of an epoch on each rank; None where the loader has no length."""
        return None if self._fitted is None else self._fitted.num_training_batches

    @property
    def num_val_batches(self) -> list[int | None]:
        """Batches of each validation loader, over all ranks; empty before a run has looked."""
        return self._num_batches("val")

    @property
    def num_sanity_val_batches(self) -> list[int | None]:
        """Batches of each validation loader that each rank runs before a fit."""
        wanted = self._settings.validation.num_sanity_steps
        known = self.num_val_batches
        return [one if wanted < 0 else wanted if one is None else min(wanted, one) for one in known]

    @property
    def num_test_batches(self) -> list[int | None]:
        """Batches of each test loader, over all ranks; empty before a run has looked."""
        return self._num_batches("test")

    @property
    def num_predict_batches(self) -> list[int | None]:
        """Batches of each prediction loader, over all ranks; empty before a run has looked."""
        return self._num_batches("predict")

    def _num_batches(self, kind: str) -> list[int | None]:
        return [] if self._context is None else list(self._context.num_batches.get(kind, ()))

    @property
    def train_dataloader(self) -> Any:
        """The training loader of the run, as the user made it; None before one is read."""
        return self._loaders("train", one=True)

    @property
    def val_dataloaders(self) -> Any:
        """The validation loader of the run, or a list of them."""
        return self._loaders("val")

    @property
    def test_dataloaders(self) -> Any:
        """The test loader of the run, or a list of them."""
        return self._loaders("test")

    @property
    def predict_dataloaders(self) -> Any:
        """The prediction loader of the run, or a list of them."""
        return self._loaders("predict")

    def _loaders(self, kind: str, *, one: bool = False) -> Any:
        found = [] if self._context is None else self._context.loaders.get(kind, [])
        return (found[0] if found else None) if one or len(found) < 2 else found  # noqa: PLR2004 - several

    @property
    def estimated_stepping_batches(self) -> int | float:
        """Optimizer steps that the fit will take: for a scheduler's ``total_steps``; inf for no bound.

        Raises:
            TrainerError [trainer.no-run]: outside of a fit, whose loader tells how long an epoch is.
        """
        if self._fitted is None:
            raise no_run("estimated_stepping_batches")
        bounds, num_batches = self._settings.bounds, self._fitted.num_training_batches
        most = math.inf if bounds.max_steps < 0 else bounds.max_steps
        epochs = Fraction(bounds.max_epochs) if bounds.max_part is None else bounds.max_part
        if epochs < 0 or num_batches is None:
            return most
        batches = [num_batches] * int(epochs) + [math.ceil(num_batches * (epochs % 1))]
        windows = [
            Fraction(count, self._settings.accumulation.at(epoch)) for epoch, count in enumerate(batches)
        ]
        if self._settings.accumulation.spans_epochs:
            return min(most, math.ceil(sum(windows)))
        return min(most, sum(map(math.ceil, windows)))

    @property
    def is_last_batch(self) -> bool:
        """Whether the batch that is being taken, or was taken last, is the last of its epoch.

        False for a loader without a length, whose last batch nobody knows beforehand.
        """
        fitted = self._fitted
        if fitted is None:
            return False
        taken = fitted.progress.steps + fitted.in_step
        return taken == fitted.num_training_batches or (taken == 0 and fitted.progress.epoch > 0)

    @property
    def node_rank(self) -> int:
        """This process's machine's number."""
        return self._ranks.node_rank

    @property
    def device_ids(self) -> list[int]:
        """The devices of each machine, by number."""
        return list(self.plan.device_ids)

    @property
    def precision(self) -> str:
        """The number format: ``32-true``."""
        return self.plan.precision

    @property
    def precision_plugin(self) -> Any:
        """The run-time object of the number format.

        Raises:
            TrainerError [trainer.no-run]: nothing is running.
        """
        return self.strategy.precision

    def precision_report(self) -> report.PrecisionReport:
        """Return which formats the tensors of the last run had on this rank; ``print`` it for a table.

        Raises:
            TrainerError [trainer.no-run]: nothing has run.
        """
        if self._context is None:
            raise no_run("precision_report()")
        strategy, module = self._context.strategy, self._context.module
        return report.report(
            module, self._context.optimizers, strategy.precision, strategy.reduces_in(module)
        )

    @property
    def accelerator(self) -> Any:
        """The run-time object of the hardware.

        Raises:
            TrainerError [trainer.no-run]: nothing is running.
        """
        return self.strategy.accelerator

    @property
    def enable_validation(self) -> bool:
        """Whether the fit validates."""
        return self._settings.limits["val"] != 0 and bool(self.num_val_batches)

    @property
    def checkpoint_callbacks(self) -> list[Any]:
        """The callbacks that save."""
        return [one for one in self.callbacks if isinstance(one, Checkpoint)]

    @property
    def checkpoint_callback(self) -> Any:
        """The first callback that saves, or None."""
        return next(iter(self.checkpoint_callbacks), None)

    @property
    def early_stopping_callbacks(self) -> list[early_stopping.EarlyStopping]:
        """The callbacks that stop a fit which gets no better."""
        return [one for one in self.callbacks if isinstance(one, early_stopping.EarlyStopping)]

    @property
    def early_stopping_callback(self) -> early_stopping.EarlyStopping | None:
        """The first of them, or None."""
        return next(iter(self.early_stopping_callbacks), None)

    @property
    def progress_bar_callback(self) -> progress_bar.ProgressBar | None:
        """The first progress bar, or None."""
        return next((one for one in self.callbacks if isinstance(one, progress_bar.ProgressBar)), None)

    @property
    def ckpt_path(self) -> str | None:
        """The checkpoint that the last run was given."""
        return self._ckpt_path

    def print(self, *values: Any, **options: Any) -> None:
        """Print on rank 0 only, with the options of Python's own; above the progress bar."""
        if not self.is_global_zero:
            return
        bar = self.progress_bar_callback
        if bar is not None and self._is_live:
            bar.print(*values, **options)
        else:
            print(*values, **options)  # noqa: T201 - what it is for

    @property
    def samples_seen(self) -> int:
        """Samples that the optimizer steps of all epochs took, over all ranks."""
        return 0 if self._fitted is None else self._fitted.progress.samples

    @property
    def tokens_seen(self) -> int:
        """Tokens that they took, over all ranks, as the module's `count_tokens` says; 0 without it."""
        return 0 if self._fitted is None else self._fitted.progress.tokens

    @property
    def val_check_interval(self) -> Any:
        """When a fit validates: batches between validations, the part of an epoch, or a Quantity."""
        return self._settings.validation.interval

    @property
    def check_val_every_n_epoch(self) -> int | None:
        """In which epochs a fit validates; None counts batches over epochs' ends."""
        return self._settings.validation.every_n_epochs

    @property
    def fast_dev_run(self) -> int | bool:
        """Whether the run only tries whether everything works, and leaves no file."""
        return self._settings.is_fast

    @property
    def log_every_n_steps(self) -> int | Quantity:
        """Optimizer steps between those that are logged; a quantity where it has another unit."""
        return self._settings.log_every_n_steps

    @property
    def logging_step(self) -> int:
        """The number under which loggers get the values of the step that was taken last."""
        return self.global_step

    @property
    def coming_logging_step(self) -> int:
        """The number under which loggers get what is known before the coming step."""
        return self.global_step

    @property
    def is_logging_step(self) -> bool:
        """Whether the optimizer step that was taken last is one of them; for ``on_train_batch_end``."""
        return self._fitted is not None and self._fitted.is_logging_step

    @property
    def is_epoch_whole(self) -> bool:
        """Whether the epoch's last step was taken; not where a bound or a wish to stop cut it short."""
        return self._fitted is not None and self._fitted.progress.is_trained

    @property
    def is_leaving(self) -> bool:
        """Whether a signal ends the fit: there is little time, and what takes long is left out."""
        return self._fitted is not None and self._fitted.is_leaving

    @property
    def batch_indices(self) -> Any:
        """The dataset's indices of the samples in the batch that predict is at; None where nobody knows."""
        return None if self._context is None else self._context.batch_indices

    def training_batches(self) -> Iterator[Any]:
        """Read the fit's training data once more, on the device: for statistics over all of it.

        Each batch comes once, on one rank, in the order of the first epoch; ranks may have different numbers.

        Raises:
            TrainerError [trainer.no-run]: no fit is going on.
        """
        if not self._is_live or self._fitted is None or self._context is not self._fitted:
            raise no_run("training_batches()")
        return self._fitted.training_batches()

    @property
    def default_root_dir(self) -> str:
        """Where files go when nobody says otherwise."""
        return self._settings.default_root_dir

    @property
    def log_dir(self) -> str:
        """Where the first logger that has a folder writes; else `default_root_dir`."""
        found = [getattr(logger, "log_dir", None) for logger in self.loggers]
        return next((str(one) for one in found if one), self._settings.default_root_dir)

    @property
    def logger(self) -> Any:
        """The first logger, or None."""
        return self.loggers[0] if self.loggers else None

    @property
    def strategy(self) -> Strategy:
        """The parallel algorithm that this run has, with its accelerator, precision and collectives.

        Raises:
            TrainerError [trainer.no-run]: nothing is running.
        """
        if self._context is None:
            raise no_run("strategy")
        return self._context.strategy

    @property
    def collectives(self) -> Collectives:
        """Communication over all ranks of this run; of one rank too.

        Raises:
            TrainerError [trainer.no-run]: nothing is running.
        """
        return self.strategy.collectives

    @property
    def datamodule(self) -> DataModule | None:
        """The data module of this run."""
        return None if self._context is None else self._context.datamodule

    @property
    def lr_scheduler_configs(self) -> list[Scheduled]:
        """The schedulers of the fit, each with when it steps."""
        return [] if self._fitted is None else self._fitted.schedulers

    def _is_in(self, *phases: str) -> bool:
        return self._is_live and self._context is not None and self._context.phase in phases

    @property
    def training(self) -> bool:
        """Whether steps are taken now."""
        return self._is_in("train")

    @property
    def validating(self) -> bool:
        """Whether the validation loop runs now, in a fit or by itself."""
        return self._is_in("validation")

    @property
    def testing(self) -> bool:
        """Whether the test loop runs now."""
        return self._is_in("test")

    @property
    def predicting(self) -> bool:
        """Whether the prediction loop runs now."""
        return self._is_in("predict")

    @property
    def evaluating(self) -> bool:
        """Whether the validation loop, also that before a fit, or the test loop runs now."""
        return self._is_in("validation", "sanity", "test")

    @property
    def sanity_checking(self) -> bool:
        """Whether the few validation batches before a fit run now."""
        return self._is_in("sanity")


def no_run(what: str) -> TrainerError:
    """Return the error for what only a run has."""
    return TrainerError(
        "trainer.no-run",
        f"trainer.{what} before any run",
        because="only a run has weights on a device, an optimizer and counters",
        hint="use it in a hook, or after fit",
    )
