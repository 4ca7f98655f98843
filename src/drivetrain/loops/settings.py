"""The Trainer's own arguments, checked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from drivetrain.base.errors import TrainerError
from drivetrain.data import check_limit
from drivetrain.loops.fit import Bounds

_DEFAULT_EPOCHS = 1000
"""Epochs when neither ``max_epochs`` nor ``max_steps`` bounds a fit: what users of such Trainers know."""


@dataclass(frozen=True)
class Settings:
    """What a run is told beside its plan."""

    bounds: Bounds
    limits: Mapping[str, int | float] = field(default_factory=dict)
    """By kind of loader: train, val, test, predict."""
    log_every_n_steps: int = 50
    seed: int = 0
    deterministic: bool | str = False
    default_root_dir: str = ""


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Check the Trainer's arguments and fill what was left out.

    Raises:
        TrainerError [trainer.bad-argument]: one has a value that it cannot have.
    """
    max_epochs, max_steps = given["max_epochs"], given["max_steps"]
    if max_epochs is None:
        max_epochs = -1 if max_steps != -1 else _DEFAULT_EPOCHS
    bounds = Bounds(
        max_epochs=_count("max_epochs", max_epochs, -1),
        min_epochs=_count("min_epochs", given["min_epochs"] or 0, 0),
        max_steps=_count("max_steps", max_steps, -1),
        min_steps=_count("min_steps", given["min_steps"] or 0, 0),
        check_val_every_n_epoch=_count("check_val_every_n_epoch", given["check_val_every_n_epoch"], 1),
    )
    if given["deterministic"] not in (True, False, "warn"):
        raise _bad("deterministic", given["deterministic"], "True, False or 'warn'", "False")
    kinds = ("train", "val", "test", "predict")
    return Settings(
        bounds=bounds,
        limits={kind: check_limit(f"limit_{kind}_batches", given[f"limit_{kind}_batches"]) for kind in kinds},
        log_every_n_steps=_count("log_every_n_steps", given["log_every_n_steps"], 1),
        seed=_count("seed", given["seed"], 0),
        deterministic=given["deterministic"],
        default_root_dir=os.fspath(given["default_root_dir"] or os.path.curdir),
    )


def _count(name: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        what = "-1 for no bound, or an int of 0 or more" if least < 0 else f"an int of {least} or more"
        raise _bad(name, value, what, str(max(least, 1)))
    return value


def _bad(name: str, value: object, what: str, example: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"{name} cannot be {value!r}",
        values={name: value},
        because=f"{name} is {what}",
        hint=f"pass {name}={example}",
    )
