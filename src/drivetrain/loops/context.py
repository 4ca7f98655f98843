"""Context: what a run on one rank has, and the set-up and tear-down around its loop."""

from __future__ import annotations

import inspect
import sys
import traceback
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.base.quantity import Quantity
from drivetrain.base.where import HERE
from drivetrain.events import Dispatcher, Watch, check_hooks, is_unused
from drivetrain.loops.compiled import Compiler, metrics_outside
from drivetrain.loops.optimization import Scheduled, Stepped
from drivetrain.loops.progress import Progress
from drivetrain.loops.results import Results
from drivetrain.loops.window import Window
from drivetrain.modules import DataModule, Module, Run
from drivetrain.strategies.strategy import Strategy


@dataclass
class Context:
    """One verb on one rank: the objects of the run, in their run-time form."""

    run: Run
    """The trainer, as hooks see it."""
    strategy: Strategy
    module: Module
    callbacks: Sequence[Any]
    datamodule: DataModule | None
    stage: str
    """fit, validate, test or predict."""
    log_every_n_steps: int | Quantity
    inference_mode: bool
    """Whether verbs of evaluation run under torch.inference_mode; under torch.no_grad otherwise."""
    events: Dispatcher
    results: Results
    watch: Watch = field(default_factory=Watch)
    """What a profiler sees of the run; asked where a call is looked up, so that nothing costs without one."""
    phase: str = ""
    """What is going on now: train, validation, sanity, test or predict."""
    start_logging: Callable[[int | None], None] = lambda _: None
    """Tells the loggers that the run begins, and at which step it goes on, if it does."""
    log_hyperparameters: Callable[[], None] = lambda: None
    """Gives the loggers what the module and data module were made with."""
    give: Callable[[Mapping[str, float], bool], None] | None = None
    """Gives logged values to the loggers in the run's own way, told whether they are a step's."""
    shown: Callable[[Any], Any] | None = None
    """Makes of a training step's output what on_train_batch_end is given; None gives it as it is."""
    counts_each: bool = False
    """In manual optimization: whether ``max_steps`` counts each optimizer's steps, and logging batches."""
    is_logging_step: bool = False
    """Whether the step that was taken is one of ``log_every_n_steps``."""
    first_step: int = 0
    """Optimizer steps that had been taken when this run began."""
    progress: Progress = field(default_factory=Progress)
    stepped: list[Stepped] = field(default_factory=list)
    """The optimizers, each with its name and clipping."""
    schedulers: list[Scheduled] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    """The accumulation windows, one for each set of optimizers that step together."""
    before_validation: dict[str, Any] | None = None
    """What this rank had before the validation that is going on, and what that changes."""
    modes: list[tuple[torch.nn.Module, bool]] | None = None
    """Which parts of the module were in train mode before the evaluation that is going on."""
    begun_with: dict[str, list[str]] = field(default_factory=dict)
    """The module's switches as the fit found them."""
    loaded: dict[str, Any] = field(default_factory=lambda: {"epoch": 0, "datamodule": {}})
    """How things stood when the user was asked for the loaders that are read."""
    handles: list[Any] = field(default_factory=list)
    """Hooks on the user's objects, which are taken off when the run ends."""
    passed: tuple[Any, Any] = (None, None)
    """The loaders that were passed to the verb; the second are those to validate with in a fit."""
    reload: Callable[[], None] = lambda: None
    """Asks the user for loaders again: now, or before the next epoch where one is being read."""
    configure_optimizers: Callable[[], None] = lambda: None
    """Makes optimizers and schedulers of a fit anew, before its first step."""
    num_training_batches: int | None = None
    """Steps of an epoch on this rank; None where the loader has no length."""
    loaders: dict[str, list[Any]] = field(default_factory=dict)
    """The user's loaders, by kind: train, val, test, predict."""
    num_batches: dict[str, list[int | None]] = field(default_factory=dict)
    """How many batches each of them has over all ranks, after the limit."""
    data_state: Callable[[], dict[str, Any]] = dict
    """Returns what the training data's own objects keep: samplers, datasets, loaders."""
    load_data_state: Callable[[Mapping[str, Any]], None] = lambda _: None
    """Gives it back to them."""
    training_batches: Callable[[], Iterator[Any]] = lambda: iter(())
    """Reads this rank's training batches once more, on the device."""
    share_step: Callable[[], None] = lambda: None
    """Makes what the step that is being taken logged one value over all ranks; every rank must call."""
    of_ranks: list[dict[str, Any]] = field(default_factory=list)
    """What every rank has of its own, on rank 0, as it was last gathered."""
    in_step: bool = False
    """Whether a training step is being taken, so that the random state is that of no moment between steps."""
    batch_indices: Any = None
    """The dataset's indices of the samples in the batch that predict is at; None where nobody knows."""
    is_leaving: bool = False
    """Whether a signal ends the fit."""
    in_batches: bool = False
    """Whether batches of an evaluation are being read, of which ranks may have different numbers."""
    compiler: Compiler | None = None
    """What the user compiled the module with, for its steps; None where it is not compiled as a whole."""
    compiled: dict[str, Callable[..., Any]] = field(default_factory=dict)
    """The steps that were compiled in this run."""

    def step(self, name: str) -> Callable[..., Any]:
        """Return one of the module's steps, compiled where the module is."""
        method: Callable[..., Any] = getattr(self.module, name)
        if self.compiler is None or is_unused(method):
            return method
        if name not in self.compiled:
            self.compiled[name] = self.compiler(method)
        return self.compiled[name]

    def write(self, values: Callable[[], Mapping[str, torch.Tensor]], *, is_step: bool = False) -> None:
        """Give logged values to the loggers, on rank 0; where there are none, nothing is read or computed."""
        if not self.run.loggers or not self.strategy.ranks.is_zero:
            return
        found = {name: float(value) for name, value in values().items()}
        if found and self.give is not None:
            self.give(found, is_step)
        elif found:
            for logger in self.run.loggers:
                logger.log_metrics({**found, "epoch": float(self.progress.epoch)}, self.progress.global_step)

    def write_batch(self, values: Mapping[str, torch.Tensor], number: int) -> None:
        """Give what a batch of an evaluation logged to the loggers, at the number of batches before it."""
        found = {name: float(value) for name, value in values.items()}
        for logger in self.run.loggers if found else ():
            logger.log_metrics(found, number)

    def seen(self, thing: Module | DataModule, name: str) -> Callable[..., Any]:
        """Return a method of the module or data module, as it is watched."""
        kind = "Module" if isinstance(thing, Module) else "DataModule"
        method: Callable[..., Any] = getattr(thing, name)
        return self.watch.call(method, f"[{kind}]{type(thing).__name__}.{name}")

    @property
    def optimizers(self) -> list[torch.optim.Optimizer]:
        """The optimizers themselves."""
        return [one.optimizer for one in self.stepped]


def check_objects(module: Module, callbacks: Sequence[Any], callback_base: type) -> None:
    """Refuse, before anything starts, hooks that nothing would call.

    Raises:
        ModuleError [module.hook-name]: and the others of `check_hooks`.
        ModuleError [callback.duplicate-key]: two callbacks would write one entry of a checkpoint.
    """
    check_hooks(module, Module)
    keys: dict[str, Any] = {}
    for callback in callbacks:
        check_hooks(callback, callback_base)
        is_stateful = type(callback).state_dict is not getattr(callback_base, "state_dict", None)
        if is_stateful and keys.setdefault(callback.state_key, callback) is not callback:
            raise ModuleError(
                "callback.duplicate-key",
                f"two callbacks have the state_key {callback.state_key!r}",
                values={"callbacks": [type(one).__name__ for one in callbacks]},
                because="each callback's state has its own entry in a checkpoint",
                hint="override state_key so that they differ",
            )


@contextmanager
def callbacks_log(context: Context) -> Iterator[None]:
    """Let the callbacks log into the module of this run; afterwards into that around it, if any."""
    before = [(callback, callback._logs_into) for callback in context.callbacks]  # noqa: SLF001 - its side
    for callback, _ in before:
        callback._logs_into = weakref.ref(context.module)  # noqa: SLF001 - as above
    try:
        yield
    finally:
        for callback, around in before:
            callback._logs_into = around  # noqa: SLF001 - as above


@contextmanager
def running(context: Context, *, has_data: bool = False) -> Iterator[None]:
    """Set a run up and tear it down: data, hooks, module; also after a failure.

    With ``has_data`` the run is a part of another one, which has prepared the data and set the data module
    up, takes it down, and is told of what fails.

    Collectives:
        one barrier where there is data to prepare; every rank must call.
    """
    module, datamodule = context.module, context.datamodule
    HERE.clear()
    HERE.note(stage=context.stage)
    module._run, module._recorder = context.run, context.results  # noqa: SLF001 - the run's side of it
    if datamodule is not None:
        datamodule.trainer = context.run
    try:
        if not has_data:
            _prepare(context)
        if datamodule is not None and not is_unused(datamodule.setup) and not has_data:
            context.seen(datamodule, "setup")(context.stage)
        context.events("setup", context.stage)
        if not is_unused(module.configure_model):
            with context.strategy.making():
                context.seen(module, "configure_model")()
        with metrics_outside(module):
            yield
        for call in _teardowns(context, has_data=has_data):
            call(context.stage)
    except BaseException as error:
        for call in () if has_data else _on_exceptions(context):
            _call_aside(call, error, error)
        for call in _teardowns(context, has_data=has_data):
            _call_aside(call, context.stage, error)
        raise
    finally:
        module._recorder = module._stepper = None  # noqa: SLF001 - as above
        for handle in context.handles:
            handle.remove()
        context.strategy.teardown(module)


def _teardowns(context: Context, *, has_data: bool) -> list[Callable[..., Any]]:
    """Return who is told that the verb ends; also after a failure, as files and processes may be open."""
    datamodule = context.datamodule
    is_silent = has_data or datamodule is None or is_unused(datamodule.teardown)
    own = [] if datamodule is None or is_silent else [context.seen(datamodule, "teardown")]
    return [*context.events.calls("teardown"), *own]


def _on_exceptions(context: Context) -> list[Callable[..., Any]]:
    datamodule = context.datamodule
    own = [] if datamodule is None or is_unused(datamodule.on_exception) else [datamodule.on_exception]
    return [*own, *context.events.calls("on_exception")]


def _call_aside(call: Callable[..., Any], argument: object, error: BaseException) -> None:
    """Call a hook after a failure; what fails in it is shown, and does not take the failure's place."""
    try:
        call(argument)
    except Exception:  # noqa: BLE001 - whatever it is, the first failure is what the caller must see
        name = getattr(call, "__qualname__", None) or getattr(
            getattr(call, "func", call), "__qualname__", call
        )
        print(  # noqa: T201 - a warning could itself be made an error
            f"drivetrain: {name} failed after {type(error).__name__}:\n{traceback.format_exc()}",
            file=sys.stderr,
            flush=True,
        )


def _prepare(context: Context) -> None:
    found = [
        thing
        for thing in (context.datamodule, context.module)
        if thing is not None and not is_unused(thing.prepare_data)
    ]
    if not found:
        return
    if context.strategy.ranks.is_zero:
        for thing in found:
            context.seen(thing, "prepare_data")()
    context.strategy.collectives.barrier()


@contextmanager
def evaluating(context: Context, kind: str) -> Iterator[None]:
    """Put the module into eval mode without gradients, and every part of it back as it was."""
    module = context.module
    before = context.modes = [(part, part.training) for part in module.modules()]
    to_eval, to_train = (getattr(module, f"on_{kind}_model_{mode}") for mode in ("eval", "train"))
    if is_unused(to_eval):
        module.eval()
    else:
        to_eval()
    try:
        # What a validation within a fit leaves on the module, training may use.
        is_apart = (
            context.inference_mode and context.stage != "fit" and context.strategy.allows_inference_mode
        )
        with torch.inference_mode() if is_apart else torch.no_grad():
            yield
    finally:
        for part, mode in before:
            part.training = mode
        context.modes = None
        if not is_unused(to_train):
            to_train()


def named_arguments(step: Callable[..., Any]) -> int:
    """Return how many arguments a step takes by position and name, leaving ``*arguments`` out."""
    try:
        parameters = inspect.signature(step).parameters.values()
    except (TypeError, ValueError):
        return 0
    return sum(one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters)


def arguments_taken(step: Callable[..., Any], most: int) -> int:
    """Return how many of the ``most`` arguments (batch, batch_idx, dataloader_idx) a step takes."""
    try:
        signature = inspect.signature(step)
    except (TypeError, ValueError):  # a builtin without a signature takes them all
        return most
    for count in range(most, 0, -1):
        try:
            signature.bind(*range(count))
        except TypeError:
            continue
        return count
    raise ModuleError(
        "module.step-arguments",
        f"{getattr(step, '__qualname__', step)}{signature} cannot be called",
        values={"step": getattr(step, "__qualname__", step), "takes": str(signature)},
        because="a step gets (batch, batch_idx) and, with several loaders, dataloader_idx",
        hint="write it as def training_step(self, batch, batch_idx)",
    )
