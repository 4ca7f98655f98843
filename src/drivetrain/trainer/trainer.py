"""Trainer: joins the verbs; decides nothing."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from drivetrain.base.loading import load
from drivetrain.base.origin import AUTO, OFF, ONE
from drivetrain.base.where import HERE
from drivetrain.build import build_launcher, build_strategy, check, strategy_here
from drivetrain.callbacks.callback import Callback, newest_path
from drivetrain.collectives.place import Place
from drivetrain.events import Dispatcher, Watch
from drivetrain.launchers.launcher import LOADED_BY_OPTIMIZERS
from drivetrain.loggers.logger import Logger
from drivetrain.loggers.start import begin_loggers, log_hyperparameters
from drivetrain.loops import checkpoint as checkpoints
from drivetrain.loops.compiled import uncompiled
from drivetrain.loops.context import Context, check_objects
from drivetrain.loops.fit_result import FitResult
from drivetrain.loops.results import Results
from drivetrain.loops.settings import read_settings
from drivetrain.loops.verbs import Request, perform
from drivetrain.modules import DataModule, Module
from drivetrain.modules.run import Logs
from drivetrain.profilers.profiler import Profiler
from drivetrain.profilers.watching import watch_for
from drivetrain.resolver.front import plan_for
from drivetrain.strategies.strategy import Strategy
from drivetrain.trainer.arguments import (
    as_path,
    bare,
    check_choice,
    check_data,
    check_model,
    check_names,
    read_callbacks,
    read_loggers,
    read_profiler,
    translated,
    with_own,
    with_schedule,
)
from drivetrain.trainer.overrides import FLAGS, plan_call
from drivetrain.trainer.view import View, no_run

if TYPE_CHECKING:
    from drivetrain.trainer.verify import ResumeReport


class Trainer(View):
    """Trains, validates, tests and predicts with one plan.

    The flags up to ``sync_batchnorm`` are those of `drivetrain.plan` and are resolved at once; see
    ``trainer.plan``. Each verb is an ordinary function call: it starts the other ranks, this process is
    rank 0 and keeps its objects, and afterwards no process is left. Each fit starts counting anew
    unless ``ckpt_path`` says where to go on; the module keeps its weights.

    Without ``max_epochs`` and ``max_steps`` a fit runs 1000 epochs. ``seed`` and the epoch fix the order of
    the data; the module's own random numbers come from torch's generators as the user left them.
    ``enable_checkpointing`` adds a ModelCheckpoint to those in ``callbacks``, ``logger=True`` a CSVLogger;
    nothing is written otherwise. ``enable_model_summary=False`` leaves out the table of layers that a fit
    begins with. ``profiler`` is an object, or ``"simple"``, ``"advanced"`` or ``"pytorch"``. ``barebones``
    switches off everything around the steps, to measure them. docs/trainer.md has a line for each argument.

    Units:
        bounds and intervals: what is natural to each; or as said, ``"500 steps"``, ``"0.5 epochs"``,
        ``"1e6 samples"``, ``"2e7 tokens"``, ``"30 min"``. Samples and tokens are those of all ranks.
    Raises:
        PlanError: the flags describe no run.
        TrainerError [trainer.bad-argument]: an argument has a value that it cannot have.
        TrainerError [trainer.unknown-argument]: there is no such argument.
        TrainerError [trainer.later-argument]: a known argument that this release does not have yet.
    """

    def __init__(
        self,
        *,
        accelerator: Any = AUTO,
        devices: Any = AUTO,
        num_nodes: Any = ONE,
        strategy: Any = AUTO,
        launcher: Any = AUTO,
        environment: Any = AUTO,
        precision: Any = None,
        plugins: Any = None,
        sync_batchnorm: Any = OFF,
        callbacks: Callback | Sequence[Callback] | None = None,
        logger: bool | Logger | Logs | Sequence[Logger | Logs] | None = None,
        max_epochs: int | str | None = None,
        min_epochs: int | str | None = None,
        max_steps: int | str = -1,
        min_steps: int | str | None = None,
        max_time: str | timedelta | Mapping[str, float] | None = None,
        limit_train_batches: int | float = 1.0,
        limit_val_batches: int | float = 1.0,
        limit_test_batches: int | float = 1.0,
        limit_predict_batches: int | float = 1.0,
        overfit_batches: int | float = 0,
        fast_dev_run: int | bool = False,
        val_check_interval: int | float | str | timedelta | None = None,
        check_val_every_n_epoch: int | None = 1,
        num_sanity_val_steps: int = 2,
        accumulate_grad_batches: int | Mapping[int, int] = 1,
        accumulate_across_epochs: bool = False,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
        reload_dataloaders_every_n_epochs: int = 0,
        use_distributed_sampler: bool = True,
        log_every_n_steps: int | str | timedelta = 50,
        enable_progress_bar: bool = True,
        enable_checkpointing: bool | None = None,
        enable_model_summary: bool | None = None,
        enable_autolog_hparams: bool = True,
        profiler: Profiler | str | None = None,
        barebones: bool = False,
        default_root_dir: str | os.PathLike[str] | None = None,
        deterministic: bool | str = False,
        benchmark: bool | None = None,
        detect_anomaly: bool = False,
        inference_mode: bool = True,
        seed: int = 0,
        **legacy: Any,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "legacy")}
        defaults = {name: one.default for name, one in inspect.signature(Trainer).parameters.items()}
        check_names(legacy, given)
        flags = {name: given.pop(name) for name in FLAGS} | legacy
        others = {
            name: given[name] for name in defaults if name in given and given[name] is not defaults[name]
        }
        found = plan_for(flags, caller="Trainer", others=others)
        old = dict(found.trainer_arguments)
        self._resume_from: Any = old.pop("resume_from_checkpoint", None)
        given |= translated(old, given, defaults)
        given |= bare(given) if given["barebones"] else {}
        self._given_settings, callbacks = read_settings(given), read_callbacks(given)
        settings = with_schedule(self._given_settings, callbacks)
        super().__init__(flags, found, settings, callbacks, read_loggers(given))
        self.profiler = read_profiler(given)
        self._autologs = bool(given["enable_autolog_hparams"])

    def fit(
        self,
        model: Module,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: DataModule | None = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        *,
        weights_only: bool = True,
        **flags: Any,
    ) -> FitResult:
        """Train the model; with ``ckpt_path`` go on where that run stood, exactly.

        KeyboardInterrupt ends it: it is raised again, ``trainer.interrupted`` is True, and the module,
        its optimizer and `save_checkpoint` have the state of the last step. SIGTERM or SIGUSR1 on any rank
        ends it in good order, unless somebody else handles the signal: all ranks save after the same step, as
        ``checkpoints/signal.ckpt`` under ``default_root_dir``, and SystemExit is raised with 128 and the
        signal's number. ``flags`` are those of the plan that are others than the Trainer's for this call.

        Raises:
            TrainerError [trainer.data-twice]: loaders and a data module are both given.
            TrainerError [trainer.no-data]: nobody gives a loader.
            BuildError: this release or installation cannot run the plan.
        """
        check_data(datamodule, train_dataloaders, val_dataloaders)
        ckpt_path = self._resume_from if ckpt_path is None else ckpt_path
        self.should_stop = self.interrupted = self.received_sigterm = False
        started = time.monotonic()
        try:
            stopped, number = self._run(
                "fit", flags, model, datamodule, train_dataloaders, ckpt_path, val_dataloaders, weights_only
            )
        except KeyboardInterrupt:
            self.interrupted = True
            raise
        context = self._fitted
        assert context is not None  # noqa: S101 - the run set it
        if number:
            self.received_sigterm = number == signal.SIGTERM
            where = self._settings.signal_path
            saved = f", saved as {where}" if where else ""
            self.print(
                f"drivetrain: {signal.Signals(number).name}: left after step {self.global_step}{saved}"
            )
            raise SystemExit(128 + number)
        return FitResult(
            epochs=context.progress.epoch,
            steps=context.progress.global_step,
            samples=context.progress.samples,
            tokens=context.progress.tokens,
            metrics={name: float(value) for name, value in self.callback_metrics.items()},
            checkpoint_path=newest_path(self.callbacks),
            duration_s=time.monotonic() - started,
            steps_here=context.progress.global_step - context.first_step,
            stopped_early=stopped,
        )

    def validate(
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        datamodule: DataModule | None = None,
        *,
        weights_only: bool = True,
        **flags: Any,
    ) -> list[dict[str, float]]:
        """Run the validation loop once; return what was logged, a dict a loader, on every rank."""
        check_data(datamodule, dataloaders)
        found: list[dict[str, float]] = self._run(
            "validate", flags, model, datamodule, dataloaders, ckpt_path, None, weights_only
        )
        return found

    def test(
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        datamodule: DataModule | None = None,
        *,
        weights_only: bool = True,
        **flags: Any,
    ) -> list[dict[str, float]]:
        """Run the test loop once; return what was logged, a dict a loader, on every rank."""
        check_data(datamodule, dataloaders)
        found: list[dict[str, float]] = self._run(
            "test", flags, model, datamodule, dataloaders, ckpt_path, None, weights_only
        )
        return found

    def predict(
        self,
        model: Module | None = None,
        dataloaders: Any = None,
        datamodule: DataModule | None = None,
        return_predictions: bool | None = None,
        ckpt_path: str | os.PathLike[str] | None = None,
        *,
        weights_only: bool = True,
        **flags: Any,
    ) -> Any:
        """Return predict_step's output for every batch, in the loader's order, on the CPU.

        With several loaders, a list for each. ``return_predictions=False`` returns None: outputs are given to
        the hooks of callbacks, such as a `BasePredictionWriter`, then let go, and nothing is gathered.
        """
        check_data(datamodule, dataloaders)
        keep = check_choice("return_predictions", return_predictions, default=True)
        return self._run(
            "predict",
            flags,
            model,
            datamodule,
            dataloaders,
            ckpt_path,
            None,
            weights_only,
            return_predictions=keep,
        )

    def save_checkpoint(
        self, filepath: str | os.PathLike[str], weights_only: bool = False, *, alone: bool = False
    ) -> None:
        """Write the run as it is; in a run every rank must call, afterwards the caller has it all.

        In a run it is exact in on_train_batch_end and on_train_epoch_end of callbacks with ``is_last``.
        ``alone`` is for a run of which other ranks may be gone: rank 0 writes without asking them, so
        their random state, and what the epoch has logged so far, is not in the file.

        Raises:
            TrainerError [trainer.no-run]: nothing has been run.
        """
        context = self._context if self._is_live else self._fitted or self._context
        if not self._saves:
            return
        if context is None:
            raise no_run("save_checkpoint")
        is_alone = alone and context.strategy.ranks.world_size > 1
        if is_alone:
            context.of_ranks = []  # what was gathered last belongs to an earlier moment
        save = context.watch.call(checkpoints.save, "save_checkpoint")
        save(context, filepath, weights_only=weights_only, is_live=self._is_live and not is_alone)

    def init_module(self, empty_init: bool | None = None) -> AbstractContextManager[None]:
        """Return a context in which a module is made where it will train: on the device, in the format.

        ``with trainer.init_module(): model = Net()``. Without it a fit moves and converts the module. With
        ``empty_init`` nothing fills the parameters: for weights that are loaded afterwards. A strategy that
        shards them gives them no memory before the fit, unless it is False. Where a fit will start ranks that
        get a copy, it is made on the CPU. `configure_model` is called in such a context by itself.

        Raises:
            BuildError: this release or installation cannot run the plan.
        """
        if self._is_live and self._context is not None:
            return self._context.strategy.making(empty=empty_init)
        found, plan = self._resolution, self.plan
        is_copied = plan.world_size > 1 and plan.launcher != "external"
        device = torch.device("cpu") if is_copied else None
        return strategy_here(plan, found.catalogue, found.objects).making(empty=empty_init, device=device)

    def verify_resume(
        self,
        model: Module,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: DataModule | None = None,
        *,
        steps: int = 20,
    ) -> ResumeReport:
        """Try whether this fit, cut off and resumed, is the fit that was not: three short runs, compared.

        They have the Trainer's flags and settings, and copies of the model and of the callbacks; they write
        nothing, and the caller's objects and random state stay as they are. ``print`` the report, or ask
        ``is_exact``.

        Raises:
            TrainerError [trainer.bad-argument]: fewer than two steps.
        """
        check_data(datamodule, train_dataloaders, val_dataloaders)
        data = {
            "train_dataloaders": train_dataloaders,
            "val_dataloaders": val_dataloaders,
            "datamodule": datamodule,
        }
        report: ResumeReport = load("drivetrain.trainer.verify").verify(self, data, model, steps)
        return report

    def _run(
        self,
        stage: str,
        flags: Mapping[str, Any],
        model: Module | None,
        datamodule: DataModule | None,
        loaders: Any,
        ckpt_path: str | os.PathLike[str] | None,
        val_loaders: Any,
        weights_only: bool,
        *,
        return_predictions: bool = True,
        instead: Callable[[Any, Module], Any] | None = None,
    ) -> Any:
        if model is not None:
            model, self._compiler = uncompiled(model)
        module = check_model(self._module if model is None else model)
        before = self._resolution
        if flags:
            self._resolution = plan_call(self._flags, flags, stage)
        try:
            found = self._resolution
            check(found.plan, found.catalogue, found.objects)
            self._gather(module)
            request = Request(
                stage=stage,
                settings=self._settings,
                loaders=loaders,
                val_loaders=val_loaders,
                ckpt_path=as_path(ckpt_path, self.callbacks, stage, self._settings),
                asked_for=ckpt_path if ckpt_path in ("best", "last") else None,
                weights_only=weights_only,
                return_predictions=return_predictions,
                is_external=found.plan.launcher == "external",
                compiler=self._compiler,
                instead=instead,
            )
            self._module, self._context, self._ckpt_path = module, None, request.ckpt_path
            launcher = build_launcher(found.plan, found.catalogue, found.objects)
            launcher.ahead = LOADED_BY_OPTIMIZERS if stage == "fit" else ()
            body = functools.partial(_on_rank, self, module, datamodule, request)
            result = launcher.launch(found.plan, body)
        except BaseException as error:
            self._finalize("interrupted" if isinstance(error, KeyboardInterrupt) else "failed")
            raise
        else:
            self._finalize("success")
            return result
        finally:
            self._resolution = before

    def _gather(self, module: Module) -> None:
        """Bring together the callbacks of a run, and what they say of its settings."""
        given = self._given_callbacks = self._changed_callbacks()
        found = with_own(given, module)
        self.callbacks = [one for one in found if one in given or not isinstance(one, self._left_out)]
        self._gathered = [*self.callbacks]
        self._settings = with_schedule(self._given_settings, self.callbacks)
        check_objects(module, self.callbacks, Callback)

    def _changed_callbacks(self) -> list[Callback]:
        """Return the callbacks that were given, with what was done to the list since the last run."""
        if self._gathered is None:
            return self._given_callbacks
        now, before = {id(one) for one in self.callbacks}, {id(one) for one in self._gathered}
        gone = before - now
        added = [one for one in self.callbacks if id(one) not in before]
        return [one for one in self._given_callbacks if id(one) not in gone] + added

    def _run_within(
        self, stage: str, module: Module, datamodule: DataModule | None, loaders: Any, place: Place
    ) -> Any:
        """Do a verb on this rank, in the middle of another trainer's run: nothing is launched.

        ``place`` is that of the run, and all of its ranks call; or that of a world of one, which the plan is
        for then. The data is prepared, and the data module set up.
        """
        self._gather(module)
        request = Request(stage=stage, settings=self._settings, loaders=loaders, has_data=True)
        with HERE.apart():
            return _on_rank(self, module, datamodule, request, place)

    def _finalize(self, status: str) -> None:
        for logger in self.loggers:
            logger.finalize(status)


def _on_rank(
    trainer: Trainer,
    module: Module,
    datamodule: DataModule | None,
    request: Request,
    place: Place,
) -> Any:
    """Do one call of a verb on one rank; runs in every process of the plan.

    What the process was doing is forgotten only when all went well: a failure's report reads it.
    """
    HERE.clear()
    found = trainer._resolution
    strategy = build_strategy(found.plan, found.catalogue, found.objects, place)
    profiler = trainer.profiler
    watch = watch_for(profiler, strategy)
    try:
        strategy.open()
        profiler._module = module
        profiler.setup(request.stage, strategy.ranks.rank, request.settings.default_root_dir)
        context = Context(
            run=trainer,
            strategy=strategy,
            module=module,
            callbacks=trainer.callbacks,
            datamodule=datamodule,
            stage=request.stage,
            log_every_n_steps=request.settings.log_every_n_steps,
            inference_mode=request.settings.inference_mode,
            events=Dispatcher(trainer, module, trainer.callbacks, watch),
            watch=watch,
            compiler=request.compiler,
            results=Results(strategy.collectives, strategy.device, module),
            passed=(request.loaders, request.val_loaders),
            start_logging=functools.partial(_start_logging, trainer, strategy, request.stage),
        )
        context.give, context.counts_each = trainer._give, trainer._counts_each
        context.shown = trainer._shown
        if trainer._autologs:
            context.log_hyperparameters = functools.partial(
                log_hyperparameters, trainer.loggers, module, datamodule
            )
        trainer._module, trainer._context, trainer._is_live = module, context, True
        trainer._fitted = context if request.stage == "fit" else trainer._fitted
        result = perform(context, request)
        profiler.describe()
    except BaseException:
        with contextlib.suppress(Exception):  # what the run raised is what is to be read
            profiler.describe()
        if trainer._context is not None:
            checkpoints.keep_cut(trainer._context)
        raise
    else:
        HERE.clear()
        return result
    finally:
        trainer._is_live = False
        profiler._module = None
        if trainer._context is not None:
            trainer._context.watch = Watch()  # the run that was watched is over
        try:
            profiler.teardown(request.stage)
        finally:
            strategy.close()


def _start_logging(trainer: Trainer, strategy: Strategy, stage: str, resumed_step: int | None) -> None:
    begin_loggers(trainer.loggers, strategy.collectives, stage, resumed_step)
    trainer.profiler.log_dir = trainer.log_dir
