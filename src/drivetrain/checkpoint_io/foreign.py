"""Classes that other libraries' checkpoints hold, and what is made in their place: plain data."""

from __future__ import annotations

import argparse
import os
import pathlib
from typing import Any


def _value_of(value: Any) -> Any:  # noqa: ANN401 - a text or a number
    """Return an enum's value."""
    return value


def _names(modules: tuple[str, ...], names: tuple[str, ...], made: Any) -> dict[str, Any]:  # noqa: ANN401 - see below
    return {f"{module}.{name}": made for module in modules for name in names}


_IS_WINDOWS = os.name == "nt"
_PATHS = ("pathlib", "pathlib._local")
_LIGHTNING = ("pytorch_lightning", "lightning.pytorch")
_STATES = tuple(f"{root}.trainer.states" for root in _LIGHTNING)
_CALLBACKS = {
    "early_stopping": "EarlyStopping",
    "model_checkpoint": "ModelCheckpoint",
    "timer": "Timer",
}

FOREIGN: dict[str, Any] = {
    **_names(_PATHS, ("PurePosixPath",), pathlib.PurePosixPath),
    **_names(_PATHS, ("PureWindowsPath",), pathlib.PureWindowsPath),
    **_names(_PATHS, ("PosixPath",), pathlib.PurePosixPath if _IS_WINDOWS else pathlib.PosixPath),
    **_names(_PATHS, ("WindowsPath",), pathlib.WindowsPath if _IS_WINDOWS else pathlib.PureWindowsPath),
    "argparse.Namespace": argparse.Namespace,
    **_names(tuple(f"{root}.utilities.parsing" for root in _LIGHTNING), ("AttributeDict",), dict),
    **_names(
        ("lightning_fabric.utilities.data", "lightning.fabric.utilities.data"), ("AttributeDict",), dict
    ),
    **_names(_STATES, ("TrainerFn", "RunningStage", "TrainerStatus"), _value_of),
    **_names(
        tuple(f"{root}.callbacks.early_stopping" for root in _LIGHTNING), ("EarlyStoppingReason",), _value_of
    ),
    **{
        f"{root}.callbacks.{module}.{name}": name  # releases before 1.5 had a callback's class as its key
        for root in _LIGHTNING
        for module, name in _CALLBACKS.items()
    },
}
"""By the name that a pickle asks for. To make any of these runs Python's own code only, and reads no file."""
