"""A Trainer for a short run on the side: the caller's flags and settings, and nothing is left behind."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from drivetrain.callbacks import Callback, Checkpoint, ProgressBar, ThroughputMonitor, Timer
from drivetrain.loops.settings import Bounds
from drivetrain.profilers import PassThroughProfiler

_LEFT_OUT = (Checkpoint, ProgressBar, ThroughputMonitor, Timer)
"""Callbacks that write files of their own, draw, or keep times, which are never the same twice."""


def twin_of(
    trainer: Any,
    callback: Callback,
    data: Mapping[str, Any],
    model: Any,
    bounds: Bounds,
    folder: Path,
    *,
    validates: bool = True,
) -> tuple[Any, dict[str, Any], Any]:
    """Return a trainer as the caller's, with these bounds, that writes nothing; and copies of the rest."""
    settings = trainer._given_settings
    callbacks = [one for one in trainer._given_callbacks if not isinstance(one, _LEFT_OUT)]
    shared = {id(one): one for one in _datasets(list(data.values()))}
    model, data, callbacks = copy.deepcopy((model, dict(data), callbacks), shared)
    twin = copy.copy(trainer)
    twin._given_settings = replace(
        settings,
        bounds=bounds,
        signal_path=None,
        default_root_dir=str(folder),
        limits=settings.limits if validates else {**settings.limits, "val": 0},
        validation=replace(settings.validation, num_sanity_steps=0),
    )
    twin._given_callbacks, twin.loggers = [*callbacks, callback], []
    twin.profiler = PassThroughProfiler()
    twin._module = twin._context = twin._fitted = None
    return twin, data, model


def _datasets(things: list[Any]) -> list[Any]:
    found = []
    for thing in things:
        if isinstance(thing, Mapping):
            found += _datasets(list(thing.values()))
        elif isinstance(thing, (list, tuple)):
            found += _datasets(list(thing))
        elif hasattr(thing, "dataset"):
            found.append(thing.dataset)
    return found
