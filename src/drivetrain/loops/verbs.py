"""What each verb of the Trainer does on one rank, between set-up and tear-down."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from drivetrain.base.errors import DataError, DrivetrainWarning, Notice
from drivetrain.base.loading import Later
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.data import CombinedFeed, CombinedLoader, Feed, OwnFeed, Slice, counted, make_feed
from drivetrain.events import is_unused
from drivetrain.loops.compiled import Compiler
from drivetrain.loops.context import Context, callbacks_log, running
from drivetrain.loops.fit import FitLoop, Loaded
from drivetrain.loops.settings import Settings
from drivetrain.loops.sources import all_loaders, find_loader, needed_loader, training_loader
from drivetrain.modules import Module

if TYPE_CHECKING:
    from drivetrain.loops import evaluation, lightning, prediction, restoring
else:
    evaluation = Later("drivetrain.loops.evaluation")
    lightning = Later("drivetrain.loops.lightning")
    prediction = Later("drivetrain.loops.prediction")
    restoring = Later("drivetrain.loops.restoring")

KINDS = {"validate": "val", "test": "test", "predict": "predict"}
"""The loaders that each verb reads."""
_HOOKS = {"validate": "validation", "test": "test"}


@dataclass(frozen=True)
class Request:
    """One call of a verb: what was passed to it."""

    stage: str
    settings: Settings
    loaders: Any = None
    val_loaders: Any = None
    ckpt_path: str | None = None
    asked_for: str | None = None
    """``best`` or ``last``, where that was the path."""
    weights_only: bool = True
    is_external: bool = False
    """Whether every rank is a caller that wants the result."""
    return_predictions: bool = True
    """Whether predictions are kept and gathered."""
    compiler: Compiler | None = None
    """What the user compiled the module with."""
    has_data: bool = False
    """Whether this is a part of a run that has prepared the data, and set the data module up."""
    instead: Callable[[Any, Module], Any] | None = None
    """What is done, once everything is set up, in place of the verb; called with trainer and module."""


def perform(context: Context, request: Request) -> Any:
    """Do what was asked for, on this rank."""
    with (
        _torch_switches(request.settings),
        callbacks_log(context),
        running(context, has_data=request.has_data),
    ):
        if request.instead is not None:
            return request.instead(context.run, context.module)
        request = _agreed(context, request)
        checkpoint = _read(context, request)
        if request.stage == "fit":
            context.start_logging(None if checkpoint is None else _step_of(checkpoint, request))
        elif request.stage != "predict":
            context.start_logging(None)
        if request.stage == "fit":
            return _fit(context, request, checkpoint)
        return _evaluate(context, request, checkpoint)


def _fit(context: Context, request: Request, checkpoint: Mapping[str, Any] | None) -> tuple[bool, int]:
    settings, module, datamodule = request.settings, context.module, context.datamodule
    with contextlib.ExitStack() as stack:

        def load() -> Loaded:
            stack.close()
            source = training_loader(needed_loader("train", "fit", request.loaders, datamodule, module))
            (feed,) = stack.enter_context(_feeds(context, settings, "train", [source]))
            if feed.num_batches is not None:
                context.num_training_batches = math.ceil(feed.num_batches / context.strategy.ranks.world_size)
            sources: list[Any] = []
            if settings.limits["val"] and not is_unused(module.validation_step):
                found = find_loader("val", request.val_loaders, datamodule, module)
                found = None if isinstance(found, (list, tuple, dict)) and not found else found
                sources = all_loaders(source if settings.overfit and found is not None else found)
            feeds = stack.enter_context(_feeds(context, settings, "val", sources))
            return feed, evaluation.EvaluationLoop(context, feeds, "validation") if feeds else None

        loop = FitLoop(context, settings, load)
        loop.run(checkpoint, request.ckpt_path)
        context.strategy.finish_saving()
    return loop.stopped_early, loop.signal


def _evaluate(context: Context, request: Request, checkpoint: Mapping[str, Any] | None) -> Any:
    stage, module, strategy = request.stage, context.module, context.strategy
    kind = KINDS[stage]
    with contextlib.ExitStack() as stack:

        def sources() -> list[Any]:
            return all_loaders(needed_loader(kind, stage, request.loaders, context.datamodule, module))

        def load(found: list[Any]) -> list[Feed]:
            stack.close()
            return stack.enter_context(_feeds(context, request.settings, kind, found))

        first = sources()
        strategy.setup(module, None)
        if checkpoint is not None:
            restoring.restore_weights(context, checkpoint, request.ckpt_path)
            restoring.restore_states(context, checkpoint, request.ckpt_path)
        if stage == "predict":
            keep = request.return_predictions
            predict = prediction.PredictionLoop(
                context, load(first), on_every_rank=request.is_external, keep=keep
            )
            context.reload = lambda: predict.read(load(sources()))
            found = context.watch.call(predict.run, "run_predict")()
            strategy.gather_model(module)
            return None if not keep else found[0] if len(found) == 1 else found
        loop = evaluation.EvaluationLoop(context, load(first), _HOOKS[stage])
        context.reload = lambda: loop.read(load(sources()))
        values = context.watch.call(loop.run, f"run_{_HOOKS[stage]}")()
        strategy.gather_model(module)
        return [{name: float(value) for name, value in one.items()} for one in values]


def _agreed(context: Context, request: Request) -> Request:
    """Return the request with the file that rank 0 has found, and say which one it is.

    Collectives:
        one broadcast, where ranks that somebody else started have looked for it; every rank must call.
    """
    path, strategy = request.ckpt_path, context.strategy
    if request.asked_for is not None and request.is_external:
        path = strategy.collectives.broadcast_object(path)
    if request.asked_for == "last" and request.stage == "fit" and strategy.ranks.is_zero:
        if path:
            context.run.print(f"going on from {path}")
        else:
            text = "ckpt_path='last': nothing was saved yet, the fit begins anew"
            warnings.warn(str(Notice("trainer.no-last", text)), DrivetrainWarning, stacklevel=2)
    return replace(request, ckpt_path=path)


def _read(context: Context, request: Request) -> Mapping[str, Any] | None:
    if request.ckpt_path is None:
        return None
    strategy = context.strategy
    found = strategy.checkpoint_io.load(request.ckpt_path, weights_only=request.weights_only)
    if request.stage != "fit" or not lightning.is_lightnings(found):
        return found
    if strategy.ranks.is_zero:
        _say_foreign(request.ckpt_path, str(found[lightning.VERSION]))
    return lightning.from_lightning(found, request.ckpt_path, strategy.ranks.world_size)


def _say_foreign(path: str, version: str) -> None:
    text = (
        f"{path} was written by Lightning {version}: weights, optimizers, schedulers, counters and states "
        "of callbacks are taken up; random numbers and the order of shuffled data are others than there. "
        "Save once with this trainer, and resume from that"
    )
    warnings.warn(str(Notice("checkpoint.foreign", text)), DrivetrainWarning, stacklevel=2)


def _step_of(checkpoint: Mapping[str, Any], request: Request) -> int:
    entry = Entry(checkpoint, request.ckpt_path)
    return entry["global_step"].integer() if "global_step" in checkpoint else 0


@contextmanager
def _feeds(context: Context, settings: Settings, kind: str, sources: list[Any]) -> Iterator[list[Feed]]:
    made = [_feed(context, settings, kind, source) for source in sources]
    if settings.limits[kind]:
        for source, feed in zip(sources, made, strict=True):
            _check_empty(feed, kind, source)
    context.loaders[kind] = sources
    context.num_batches[kind] = [feed.num_batches for feed in made]
    try:
        yield made
    finally:
        for feed in made:
            feed.close()


def _feed(context: Context, settings: Settings, kind: str, source: Any) -> Feed:
    ranks, limit = context.strategy.ranks, (f"limit_{kind}_batches", settings.limits[kind])
    place, name = Slice(ranks.rank, ranks.world_size), f"the {kind} loader"
    collectives, device = context.strategy.collectives, context.strategy.device

    def gather(mine: int) -> list[int]:
        return [int(size) for size in collectives.all_gather(torch.tensor([mine], device=device))]

    if isinstance(source, CombinedLoader):
        parts = [make_feed(one, name, limit[0], 1.0, settings.seed, *place) for one in source.flattened]
        return counted(CombinedFeed(source, parts, limit, place.world_size), place, gather)
    if settings.use_distributed_sampler or place.world_size == 1:
        return counted(make_feed(source, name, *limit, settings.seed, *place), place, gather)

    def agree(mine: bool) -> bool:
        told = torch.tensor([int(mine)], device=device)
        return bool(collectives.all_reduce(told, "min").item())

    own = OwnFeed(make_feed(source, name, *limit, settings.seed), place, name, agree)
    return counted(own, place, gather)


def _check_empty(feed: Feed, kind: str, source: Any) -> None:
    if feed.num_batches == 0:
        raise DataError(
            "data.empty",
            f"the {kind} loader has no batches",
            values={"loader": source, "batches": feed.length},
            because="a run on nothing would look like one that succeeded",
            hint="check the dataset's length, batch_size and drop_last; "
            f"to leave {kind} batches out, pass limit_{kind}_batches=0",
        )


@contextmanager
def _torch_switches(settings: Settings) -> Iterator[None]:
    """Set torch's own switches for the run, and back."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    benchmark = torch.backends.cudnn.benchmark
    if settings.deterministic:
        torch.use_deterministic_algorithms(mode=True, warn_only=settings.deterministic == "warn")
    if settings.benchmark is not None:
        torch.backends.cudnn.benchmark = settings.benchmark
    try:
        with torch.autograd.set_detect_anomaly(mode=True) if settings.detect_anomaly else nullcontext():
            yield
    finally:
        torch.backends.cudnn.benchmark = benchmark
        torch.use_deterministic_algorithms(mode=before[0], warn_only=before[1])
