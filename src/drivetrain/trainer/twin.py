"""A Trainer for a short run on the side: the caller's flags and settings, and nothing is left behind."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from drivetrain.callbacks.callback import Callback, Checkpoint
from drivetrain.callbacks.progress_bar import ProgressBar
from drivetrain.callbacks.throughput_monitor import ThroughputMonitor
from drivetrain.callbacks.timer import Timer
from drivetrain.loggers.logger import DummyLogger
from drivetrain.loops.settings import Bounds
from drivetrain.modules import DataModule, Module
from drivetrain.profilers.pass_through import PassThroughProfiler

_LEFT_OUT = (Checkpoint, ProgressBar, ThroughputMonitor, Timer)
"""Callbacks that write files of their own, draw, or keep times, which are never the same twice."""


def twin_of(
    trainer: Any,
    callback: Callback | None,
    data: Mapping[str, Any],
    model: Any,
    bounds: Bounds,
    folder: Path,
    *,
    validates: bool = True,
    limits: Mapping[str, int | float] | None = None,
    left_out: tuple[type[Callback], ...] = (),
    saves: bool = False,
) -> tuple[Any, dict[str, Any], Any]:
    """Return a trainer as the caller's, with these bounds, that writes nothing; and copies of the rest.

    It saves nothing either, unless ``saves`` is said. Datasets are shared. What refers to the trainer refers
    in the copies to the new one.
    """
    settings = trainer._given_settings
    left_out = (*_LEFT_OUT, *left_out)
    twin = copy.copy(trainer)
    shared: dict[int, Any] = {id(one): one for one in _datasets([*data.values(), model])}
    shared[id(trainer)] = twin
    callbacks = [one for one in trainer._given_callbacks if not isinstance(one, left_out)]
    model, data, callbacks = copy.deepcopy((model, dict(data), callbacks), shared)
    twin._given_settings = replace(
        settings,
        bounds=bounds,
        signal_path=None,
        default_root_dir=str(folder),
        limits={**settings.limits, **({} if validates else {"val": 0}), **(limits or {})},
        validation=replace(settings.validation, num_sanity_steps=0),
    )
    twin._given_callbacks = callbacks if callback is None else [*callbacks, callback]
    twin.callbacks, twin._gathered = twin._given_callbacks, None
    twin._left_out, twin._saves = left_out, saves
    # Code that asks for self.logger.experiment finds one, as in the run itself.
    twin.loggers = [DummyLogger() for _ in trainer.loggers]
    twin.profiler = PassThroughProfiler()
    twin._module = twin._context = twin._fitted = None
    twin._is_live = twin.should_stop = False
    return twin, data, model


def _datasets(things: Iterable[Any]) -> list[Any]:
    found = []
    for thing in things:
        if isinstance(thing, Mapping):
            found += _datasets(thing.values())
        elif isinstance(thing, (list, tuple)):
            found += _datasets(thing)
        elif isinstance(thing, Dataset):
            found.append(thing)
        elif hasattr(thing, "dataset"):
            found.append(thing.dataset)
        elif isinstance(thing, (Module, DataModule)):
            found += _datasets(vars(thing).values())
    return found
