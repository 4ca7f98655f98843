"""Trainer: `drivetrain.Trainer` with the defaults and counts that code written for Lightning depends on."""

from __future__ import annotations

import inspect
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import drivetrain
from drivetrain.base.errors import DrivetrainDeprecationWarning, DrivetrainWarning, Notice
from drivetrain.base.quantity import Quantity
from drivetrain.callbacks.callback import Callback, Checkpoint
from drivetrain.callbacks.early_stopping import EarlyStopping
from drivetrain.compat.checkpointing import ModelCheckpoint
from drivetrain.compat.keeping import default_logger
from drivetrain.compat.kinds import RunningStage, TrainerFn, TrainerState, TrainerStatus
from drivetrain.compat.strategy_view import StrategyView
from drivetrain.compat.tools import last_seed
from drivetrain.compat.variables import with_variables
from drivetrain.loggers.logger import Logger
from drivetrain.modules import DataModule, Module
from drivetrain.profilers.profiler import Profiler
from drivetrain.trainer import Trainer as Base

_NEVER = 1_000_000_000
"""Steps between two logged ones where nothing is logged."""
_STAGES = {
    "train": RunningStage.TRAINING,
    "validation": RunningStage.VALIDATING,
    "sanity": RunningStage.SANITY_CHECKING,
    "test": RunningStage.TESTING,
    "predict": RunningStage.PREDICTING,
}


class Trainer(Base):
    """`drivetrain.Trainer` with Lightning's defaults and counts; every argument is its own there.

    Other than ours:

    - ``logger`` is by default one that writes to ``lightning_logs/version_N``, and a `ModelCheckpoint`
      saves there: code reads ``trainer.logger`` and ``trainer.checkpoint_callback`` without asking for them.
    - a logged value's step is the number of steps before it (49, 99, ...), or what was logged as ``step``:
      plots of old and new runs lie on each other.
    - in manual optimization ``global_step`` and ``max_steps`` count each optimizer's steps: schedules and
      file names are written for that.
    - `fit` returns None, `test` without a model takes the best checkpoint, and names of strategies that
      are old here are not warned of.
    - the order of the data follows from the seed of `seed_everything`, unless ``seed`` says another.
    - an argument that is not given comes from the variable ``PL_TRAINER_<ARGUMENT>``, if there is one.
    """

    @with_variables
    def __init__(
        self,
        *,
        accelerator: Any = "auto",
        strategy: Any = "auto",
        devices: Any = "auto",
        num_nodes: int = 1,
        precision: Any = None,
        logger: Logger | Iterable[Logger] | bool | None = None,
        callbacks: Callback | Sequence[Callback] | None = None,
        fast_dev_run: int | bool = False,
        max_epochs: int | None = None,
        min_epochs: int | None = None,
        max_steps: int = -1,
        min_steps: int | None = None,
        max_time: Any = None,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None,
        limit_test_batches: int | float | None = None,
        limit_predict_batches: int | float | None = None,
        overfit_batches: int | float = 0.0,
        val_check_interval: Any = None,
        check_val_every_n_epoch: int | None = 1,
        num_sanity_val_steps: int | None = None,
        log_every_n_steps: int | None = None,
        enable_checkpointing: bool | None = None,
        enable_progress_bar: bool | None = None,
        enable_model_summary: bool | None = None,
        accumulate_grad_batches: int | Mapping[int, int] = 1,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: Any = None,
        deterministic: bool | str | None = None,
        benchmark: bool | None = None,
        inference_mode: bool = True,
        use_distributed_sampler: bool = True,
        profiler: Profiler | str | None = None,
        detect_anomaly: bool = False,
        barebones: bool = False,
        plugins: Any = None,
        sync_batchnorm: bool = False,
        reload_dataloaders_every_n_epochs: int = 0,
        default_root_dir: str | os.PathLike[str] | None = None,
        enable_autolog_hparams: bool = True,
        model_registry: str | None = None,
        suggest_integrations: bool = True,
        seed: int | None = None,
        **more: Any,
    ) -> None:
        here = locals()
        unset = {name: one.default for name, one in inspect.signature(Trainer).parameters.items()}
        given: dict[str, Any] = {
            name: here[name] for name in unset if name != "more" and here[name] is not unset[name]
        }
        given.pop("suggest_integrations", None)
        root = os.fspath(default_root_dir or Path.cwd())
        kept, self._set_aside = _callbacks(callbacks, is_smoke=bool(fast_dev_run))
        if not barebones:
            given["default_root_dir"] = root
            if logger is None or logger is True:
                given["logger"] = default_logger(root) if not fast_dev_run else True
            _add_summary(kept, given, enable_model_summary)
            given["callbacks"] = _with_checkpoint(kept, enable_checkpointing, is_smoke=bool(fast_dev_run))
            given["enable_checkpointing"] = False if enable_checkpointing is False else None
        self._log_every = 50 if log_every_n_steps is None else log_every_n_steps
        if self._log_every == 0:
            given["log_every_n_steps"] = _NEVER
        given.setdefault("seed", last_seed())
        self._fast_dev_run = fast_dev_run
        self.barebones = barebones
        self._state = TrainerState()
        with _old_names_are_fine():
            super().__init__(**given, **more)
        self._counts_each = True
        self._give, self._shown = self._write, self._outputs

    def fit(  # type: ignore[override]  # what users of it know: None, and more kinds of arguments
        self,
        model: Module,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: DataModule | None = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        weights_only: bool | None = None,
    ) -> None:
        """Train the model; a data module may stand in the loaders' place."""
        if isinstance(train_dataloaders, DataModule):
            train_dataloaders, datamodule = None, train_dataloaders
        if ckpt_path is None and self._fitted is not None and self._fitted.progress.global_step:
            _warn_of_anew(self._fitted.progress.epoch, self._fitted.progress.global_step)
        with self._running(TrainerFn.FITTING):
            super().fit(
                model,
                train_dataloaders,
                val_dataloaders,
                datamodule,
                ckpt_path,
                weights_only=weights_only is not False,
            )

    def validate(  # type: ignore[override]  # as fit
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        verbose: bool = True,
        datamodule: DataModule | None = None,
        weights_only: bool | None = None,
    ) -> list[dict[str, float]]:
        """Run the validation loop once, and print what was logged."""
        return self._evaluated(
            TrainerFn.VALIDATING,
            super().validate,
            model,
            dataloaders,
            ckpt_path,
            verbose,
            datamodule,
            weights_only,
        )

    def test(  # type: ignore[override]  # as fit
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        verbose: bool = True,
        datamodule: DataModule | None = None,
        weights_only: bool | None = None,
    ) -> list[dict[str, float]]:
        """Run the test loop once, and print what was logged."""
        return self._evaluated(
            TrainerFn.TESTING, super().test, model, dataloaders, ckpt_path, verbose, datamodule, weights_only
        )

    def predict(  # type: ignore[override]  # as fit
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        datamodule: DataModule | None = None,
        return_predictions: bool | None = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        weights_only: bool | None = None,
    ) -> list[Any] | None:
        """Return predict_step's output for every batch; None with ``return_predictions=False``."""
        if isinstance(dataloaders, DataModule):
            dataloaders, datamodule = None, dataloaders
        path = self._best() if model is None and ckpt_path is None else ckpt_path
        with self._running(TrainerFn.PREDICTING):
            found: list[Any] | None = super().predict(
                model,
                dataloaders,
                datamodule,
                return_predictions,
                path,
                weights_only=weights_only is not False,
            )
        return found

    def _evaluated(
        self,
        verb: TrainerFn,
        run: Callable[..., list[dict[str, float]]],
        model: Module | None,
        dataloaders: Any,
        ckpt_path: Any,
        verbose: bool,
        datamodule: DataModule | None,
        weights_only: bool | None,
    ) -> list[dict[str, float]]:
        if isinstance(dataloaders, DataModule):
            dataloaders, datamodule = None, dataloaders
        path = self._best() if model is None and ckpt_path is None else ckpt_path
        with self._running(verb):
            found = run(model, dataloaders, path, datamodule, weights_only=weights_only is not False)
        if verbose:
            for number, values in enumerate(found):
                self.print(f"{verb} metrics" + (f", loader {number}" if len(found) > 1 else ""))
                for name, value in values.items():
                    self.print(f"  {name:<30} {value}")
        return found

    def save_checkpoint(
        self,
        filepath: str | os.PathLike[str],
        weights_only: bool | None = False,
        storage_options: Any = None,
        *,
        alone: bool = False,
    ) -> None:
        """Write the run as it is."""
        super().save_checkpoint(filepath, bool(weights_only), alone=alone)

    @contextmanager
    def _running(self, verb: TrainerFn) -> Iterator[None]:
        self._state = TrainerState(TrainerStatus.RUNNING, verb)
        try:
            with _old_names_are_fine():
                yield
        except BaseException:
            self._state.status = TrainerStatus.INTERRUPTED
            raise
        self._state.status = TrainerStatus.FINISHED

    def _best(self) -> str | None:
        """Return the best checkpoint of this trainer, which a verb without a model means."""
        found = [getattr(one, "best_model_path", "") for one in self.checkpoint_callbacks]
        return next((path for path in found if path), None)

    def _write(self, values: Mapping[str, float], is_step: bool) -> None:
        """Give logged values to the loggers, at the number of steps before them."""
        context = self._context
        assert context is not None  # noqa: S101 - a run calls it
        fits = context.stage == "fit"
        if is_step and (self._log_every == 0 or not (self.is_logging_step or self.should_stop)):
            return
        written = {"epoch": self.current_epoch, **values}
        step = int(written.pop("step", self.logging_step if fits else self._steps_before))
        for logger in self.loggers:
            logger.log_metrics(written, step)

    @property
    def logging_step(self) -> int:
        """The number of steps before the one that was taken last."""
        return max(self.coming_logging_step - 1, 0)

    @property
    def coming_logging_step(self) -> int:
        """Steps of the fit, as loggers count them: batches, in manual optimization."""
        if self._fitted is None:
            return 0
        progress = self._fitted.progress
        return progress.global_step if self._fitted.module.automatic_optimization else progress.seen

    def _outputs(self, output: Any) -> dict[str, Any]:
        """Return a training step's output as hooks know it there: a dict, its loss without a graph.

        In automatic optimization the loss is one batch's part of the accumulation window.
        """
        if output is None:
            return {}
        found = dict(output) if isinstance(output, Mapping) else {"loss": output}
        loss = found.get("loss")
        if isinstance(loss, torch.Tensor):
            is_shared = self._fitted is not None and self._fitted.module.automatic_optimization
            found["loss"] = loss.detach() / (self.accumulate_grad_batches if is_shared else 1)
        return found

    @property
    def _steps_before(self) -> int:
        """Steps of the fit before this evaluation."""
        return 0 if self._fitted is None else self._fitted.progress.global_step

    @property
    def global_step(self) -> int:
        """Optimizer steps of the fit; in manual optimization each optimizer's."""
        fitted = self._fitted
        if fitted is None or fitted.module.automatic_optimization:
            return super().global_step
        return fitted.progress.optimizer_steps

    @property
    def logged_metrics(self) -> Mapping[str, torch.Tensor]:
        """The newest value of everything that loggers get, whether they got it already or not."""
        return {} if self._context is None else self._context.results.logged()

    @property
    def state(self) -> TrainerState:
        """The verb of the run, what goes on in it, and how it stands."""
        phase = self._context.phase if self._is_live and self._context is not None else ""
        return TrainerState(self._state.status, self._state.fn, _STAGES.get(phase))

    @property
    def logger(self) -> Any:
        """The first logger, or None."""
        return super().logger

    @logger.setter
    def logger(self, logger: Any) -> None:
        self.loggers = [] if logger is None else [logger]

    @property
    def checkpoint_callbacks(self) -> list[Any]:
        """The callbacks that save; in a smoke run those that would."""
        aside = [one for one in self._set_aside if isinstance(one, Checkpoint)]
        return super().checkpoint_callbacks + aside

    @property
    def early_stopping_callbacks(self) -> list[EarlyStopping]:
        """The callbacks that stop a fit which gets no better; in a smoke run those that would."""
        aside = [one for one in self._set_aside if isinstance(one, EarlyStopping)]
        return super().early_stopping_callbacks + aside

    @property
    def progress_bar_callback(self) -> Any:
        """The callback that shows progress, or None."""
        return next((one for one in self.callbacks if "Progress" in type(one).__name__), None)

    @property
    def strategy(self) -> Any:
        """The parallel algorithm of the run, with the methods that users call on it."""
        return StrategyView(super().strategy, self)

    @property
    def scaler(self) -> Any:
        """The loss scaler of the run's precision; None where it scales nothing."""
        return getattr(self.precision_plugin, "scaler", None)

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int] | None:
        """What a `DistributedSampler` of one's own takes for this rank; None with the single strategy."""
        if self.plan.strategy.name == "single":
            return None
        return {"num_replicas": self.world_size, "rank": self.global_rank}

    @property
    def fast_dev_run(self) -> int | bool:
        """What the Trainer was told: how many batches a smoke run takes, or whether it is one."""
        return self._fast_dev_run

    @property
    def log_every_n_steps(self) -> int | Quantity:
        """How many steps lie between two logged ones; 0 where none is."""
        return 0 if self._log_every == 0 else super().log_every_n_steps

    @property
    def gradient_clip_val(self) -> float | None:
        """The number that gradients are clipped to, or None."""
        return self._settings.clipping.val

    @property
    def gradient_clip_algorithm(self) -> str | None:
        """How they are clipped, or None."""
        return None if self._settings.clipping.val is None else self._settings.clipping.algorithm

    @property
    def num_training_batches(self) -> int | float:  # type: ignore[override]  # inf is what is known there
        """Steps of an epoch on each rank; inf where the loader has no length, or none was read yet."""
        found = super().num_training_batches
        return math.inf if found is None else found

    def _num_batches(self, kind: str) -> list[Any]:
        return [math.inf if one is None else one for one in super()._num_batches(kind)]

    @property
    def overfit_batches(self) -> float:
        """The part of the training data, or number of batches, that is read again and again; 0 for none."""
        return self._settings.limits["train"] if self._settings.overfit else 0

    @property
    def limit_train_batches(self) -> float:
        """How much of the training data an epoch reads."""
        return self._settings.limits["train"]

    @property
    def limit_val_batches(self) -> float:
        """How much of the validation data is read."""
        return self._settings.limits["val"]

    @property
    def limit_test_batches(self) -> float:
        """How much of the test data is read."""
        return self._settings.limits["test"]

    @property
    def limit_predict_batches(self) -> float:
        """How much of the data to predict on is read."""
        return self._settings.limits["predict"]

    @property
    def num_sanity_val_steps(self) -> float:
        """Validation batches before a fit; inf for all."""
        wanted = self._settings.validation.num_sanity_steps
        return math.inf if wanted < 0 else wanted


def _warn_of_anew(epoch: int, step: int) -> None:
    text = (
        f"this trainer has fitted before, to epoch {epoch} and step {step}, and fit begins anew at epoch 0; "
        "Lightning's would count on from there, with new optimizers, and do nothing where max_epochs is "
        "reached. To go on, save_checkpoint(path), and Trainer(max_epochs=...).fit(..., ckpt_path=path); to "
        "begin anew, make another Trainer"
    )
    warnings.warn(str(Notice("compat.fit-again", text)), DrivetrainWarning, stacklevel=3)


def _callbacks(
    given: Callback | Sequence[Callback] | None, *, is_smoke: bool
) -> tuple[list[Callback], list[Callback]]:
    """Return the callbacks, and those that a smoke run (fast_dev_run) leaves aside."""
    every: list[Any] = list(given) if isinstance(given, (list, tuple)) else [given] if given else []
    aside: list[Callback] = [
        one for one in every if is_smoke and isinstance(one, (Checkpoint, EarlyStopping))
    ]
    return [one for one in every if one not in aside], aside


def _with_checkpoint(callbacks: list[Callback], wanted: bool | None, *, is_smoke: bool) -> list[Callback]:
    has_one = any(isinstance(one, Checkpoint) for one in callbacks)
    return callbacks if has_one or is_smoke or wanted is False else [*callbacks, ModelCheckpoint()]


_TAKEN = inspect.signature(Base).parameters
"""The arguments that `drivetrain.Trainer` takes."""


def _add_summary(callbacks: list[Callback], given: dict[str, Any], wanted: bool | None) -> None:
    """Have the model summarized, by the Trainer itself or by the callback, where this release can."""
    given.pop("enable_model_summary", None)
    kind = getattr(drivetrain, "ModelSummary", None)
    if "enable_model_summary" in _TAKEN:
        if wanted is not False or not any(kind is not None and isinstance(one, kind) for one in callbacks):
            given["enable_model_summary"] = wanted is not False  # there it is of the default one alone
        return
    if kind is not None and wanted is not False and not any(isinstance(one, kind) for one in callbacks):
        callbacks.append(kind())


@contextmanager
def _old_names_are_fine() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\[plan\.legacy\]", DrivetrainDeprecationWarning)
        yield
