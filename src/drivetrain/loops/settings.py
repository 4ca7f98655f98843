"""The Trainer's own arguments, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from fractions import Fraction
from typing import Any

from drivetrain.base.errors import TrainerError
from drivetrain.base.quantity import Quantity, QuantityProblem, Unit, parse
from drivetrain.data import check_limit
from drivetrain.loops.optimization import Clipping

_DEFAULT_EPOCHS = 1000
"""Epochs when neither ``max_epochs`` nor ``max_steps`` bounds a fit: what users of such Trainers know."""

_ANY_UNITS: tuple[Unit, ...] = ("steps", "epochs", "samples", "tokens", "seconds")

_LEAST: dict[str, Unit] = {"min_epochs": "epochs", "min_steps": "steps"}

KINDS = ("train", "val", "test", "predict")


@dataclass(frozen=True)
class Bounds:
    """When a fit ends; -1 is no bound."""

    max_epochs: int = -1
    min_epochs: int = 0
    max_steps: int = -1
    min_steps: int = 0
    max_samples: int | None = None
    max_tokens: int | None = None
    max_part: Fraction | None = None
    """Epochs, with a part of the last; in place of ``max_epochs``."""


@dataclass(frozen=True)
class Accumulation:
    """How many batches an optimizer step takes."""

    by_epoch: Mapping[int, int] = field(default_factory=lambda: {0: 1})
    """From which epoch on, how many."""
    spans_epochs: bool = False
    """Whether a window that an epoch's end cuts goes on in the next epoch."""

    def at(self, epoch: int) -> int:
        """Return how many batches a step takes in an epoch."""
        return self.by_epoch[max(first for first in self.by_epoch if first <= epoch)]


@dataclass(frozen=True)
class Validation:
    """When a fit validates."""

    interval: int | float | Quantity = 1.0
    """Batches between validations, the part of an epoch, or a quantity that is counted over epochs."""
    every_n_epochs: int | None = 1
    """In which epochs; None counts batches over epochs' ends."""
    num_sanity_steps: int = 2
    """Batches of each loader that come before the fit; -1 for all."""


@dataclass(frozen=True)
class Settings:
    """What a run is told beside its plan."""

    bounds: Bounds
    limits: Mapping[str, int | float] = field(default_factory=dict)
    """By kind of loader: train, val, test, predict."""
    accumulation: Accumulation = field(default_factory=Accumulation)
    clipping: Clipping = field(default_factory=Clipping)
    validation: Validation = field(default_factory=Validation)
    is_fast: bool = False
    """Whether it is ``fast_dev_run``, which only tries whether everything runs."""
    overfit: bool = False
    """Whether every epoch, and its validation, reads the same batches of the training loader."""
    reload_every_n_epochs: int = 0
    log_every_n_steps: int | Quantity = 50
    """Optimizer steps between those that are logged, or a quantity in another unit."""
    seed: int = 0
    deterministic: bool | str = False
    benchmark: bool | None = None
    detect_anomaly: bool = False
    inference_mode: bool = True
    use_distributed_sampler: bool = True
    default_root_dir: str = ""
    signal_path: str | None = None
    """Where a run is saved that a signal asks to leave; None for nowhere."""


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Check the Trainer's arguments and fill what was left out.

    Raises:
        TrainerError [trainer.bad-argument]: one has a value that it cannot have.
    """
    bounds = _bounds(given)
    if given["deterministic"] not in (True, False, "warn"):
        raise bad("deterministic", given["deterministic"], "True, False or 'warn'", "False")
    if given["benchmark"] not in (True, False, None):
        raise bad("benchmark", given["benchmark"], "True, False, or None for torch's own setting", "True")
    limits = {kind: check_limit(f"limit_{kind}_batches", given[f"limit_{kind}_batches"]) for kind in KINDS}
    overfit = check_limit("overfit_batches", given["overfit_batches"])
    if overfit:
        limits |= {"train": overfit, "val": overfit}
    switches = ("detect_anomaly", "inference_mode", "use_distributed_sampler")
    settings = Settings(
        bounds=bounds,
        limits=limits,
        accumulation=_accumulation(given["accumulate_grad_batches"], given["accumulate_across_epochs"]),
        clipping=Clipping.read(given["gradient_clip_val"], given["gradient_clip_algorithm"]),
        validation=_validation(given),
        overfit=bool(overfit),
        reload_every_n_epochs=_count(
            "reload_dataloaders_every_n_epochs", given["reload_dataloaders_every_n_epochs"], 0
        ),
        log_every_n_steps=_log_every(given["log_every_n_steps"]),
        seed=_count("seed", given["seed"], 0),
        deterministic=given["deterministic"],
        benchmark=given["benchmark"],
        default_root_dir=os.fspath(given["default_root_dir"] or os.path.curdir),
        signal_path=_signal_path(given),
        **{name: _switch(name, given[name]) for name in switches},
    )
    return _fast(settings, given["fast_dev_run"])


def _bounds(given: Mapping[str, Any]) -> Bounds:
    epochs, steps = given["max_epochs"], given["max_steps"]
    samples: int | None = None
    tokens: int | None = None
    part: Fraction | None = None
    if isinstance(steps, (str, Quantity)):
        found = _amount("max_steps", steps, ("steps", "samples", "tokens"))
        samples = int(found.value) if found.unit == "samples" else None
        tokens = int(found.value) if found.unit == "tokens" else None
        steps = int(found.value) if found.unit == "steps" else -1
    if isinstance(epochs, (str, Quantity)):
        part = _amount("max_epochs", epochs, ("epochs",)).exact
        epochs, part = (int(part), None) if part.denominator == 1 else (-1, part)
    if epochs is None:
        others = (samples, tokens, given["max_time"])
        is_bounded = steps != -1 or any(bound is not None for bound in others)
        epochs = -1 if is_bounded else _DEFAULT_EPOCHS
    least = {
        name: _whole(name, value, unit) if isinstance(value, (str, Quantity)) else value or 0
        for name, unit in _LEAST.items()
        for value in (given[name],)
    }
    return Bounds(
        max_epochs=_count("max_epochs", epochs, -1),
        min_epochs=_count("min_epochs", least["min_epochs"], 0),
        max_steps=_count("max_steps", steps, -1),
        min_steps=_count("min_steps", least["min_steps"], 0),
        max_samples=samples,
        max_tokens=tokens,
        max_part=part,
    )


def _whole(name: str, value: str | Quantity, unit: Unit) -> int:
    found = _amount(name, value, (unit,))
    if found.exact.denominator != 1:
        raise bad(name, str(value), f"whole {unit}", f"'{math.ceil(found.value)} {unit}'")
    return int(found.value)


def _amount(name: str, value: object, units: tuple[Unit, ...]) -> Quantity:
    """Return a quantity in one of the units.

    Raises:
        TrainerError [trainer.bad-argument]: it is none.
    """
    try:
        return parse(value, units)
    except QuantityProblem as problem:
        raise TrainerError(
            "trainer.bad-argument",
            f"{name} cannot be {value!r}: {problem}",
            values={name: value},
            because=problem.because,
            hint=problem.hint,
        ) from None


def _fast(settings: Settings, wanted: object) -> Settings:
    """Return the settings of a run of a few batches of everything, for fast_dev_run."""
    if wanted is False or wanted == 0:
        return settings
    num_batches = 1 if wanted is True else _count("fast_dev_run", wanted, 0)
    return replace(
        settings,
        is_fast=True,
        bounds=Bounds(max_epochs=1, max_steps=num_batches),
        limits=dict.fromkeys(KINDS, num_batches),
        validation=Validation(num_sanity_steps=0),
        log_every_n_steps=1,
    )


def _log_every(wanted: object) -> int | Quantity:
    if isinstance(wanted, (str, timedelta, Quantity)):
        found = _amount("log_every_n_steps", wanted, _ANY_UNITS)
        return int(found.value) if found.unit == "steps" else found
    return _count("log_every_n_steps", wanted, 1)


def _accumulation(wanted: object, spans_epochs: object) -> Accumulation:
    by_epoch = wanted if isinstance(wanted, Mapping) else {0: wanted}
    known = {
        _count("accumulate_grad_batches' epoch", epoch, 0): _count("accumulate_grad_batches", factor, 1)
        for epoch, factor in by_epoch.items()
    }
    return Accumulation({0: 1, **known}, _switch("accumulate_across_epochs", spans_epochs))


def _validation(given: Mapping[str, Any]) -> Validation:
    interval, every = given["val_check_interval"], given["check_val_every_n_epoch"]
    if interval is None:
        interval = 1.0
    if isinstance(interval, (str, timedelta, Quantity)):
        return _validation_every(_amount("val_check_interval", interval, _ANY_UNITS), given)
    is_count = type(interval) is int and interval > 0
    if not is_count and not (type(interval) is float and 0 < interval <= 1):
        raise bad(
            "val_check_interval",
            interval,
            "an int of 1 or more (batches), a float from 0.0 to 1.0 (part of an epoch), or has a unit",
            "0.25 for four times an epoch, or '500 steps'",
        )
    if every is None and not is_count:
        raise bad(
            "check_val_every_n_epoch",
            every,
            "None only with a val_check_interval in batches, which are then counted over epochs' ends",
            "1, or val_check_interval=1000",
        )
    return Validation(
        interval,
        None if every is None else _count("check_val_every_n_epoch", every, 1),
        _count("num_sanity_val_steps", given["num_sanity_val_steps"], -1),
    )


def _signal_path(given: Mapping[str, Any]) -> str | None:
    if given["enable_checkpointing"] is False or given["fast_dev_run"]:
        return None
    root = os.fspath(given["default_root_dir"] or os.path.curdir)
    return os.path.join(root, "checkpoints", "signal.ckpt")  # noqa: PTH118 - may be a remote path


def _validation_every(wanted: Quantity, given: Mapping[str, Any]) -> Validation:
    """Return validations at an interval with a unit: epochs and their parts, or counted over epochs' ends."""
    sanity, every = (
        _count("num_sanity_val_steps", given["num_sanity_val_steps"], -1),
        given["check_val_every_n_epoch"],
    )
    if every not in (1, None):
        raise bad("check_val_every_n_epoch", every, "left out where val_check_interval has a unit", "1")
    if wanted.unit != "epochs":
        return Validation(wanted, None, sanity)
    if wanted.value < 1:
        return Validation(float(wanted.value), 1, sanity)
    if wanted.exact.denominator != 1:
        raise bad("val_check_interval", str(wanted), "whole epochs, or a part of one", "'2 epochs'")
    return Validation(1.0, int(wanted.value), sanity)


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise bad(name, value, "True or False", "True")
    return value


def _count(name: str, value: object, least: int) -> int:
    if type(value) is not int or value < least:
        what = "-1 for no bound, or an int of 0 or more" if least < 0 else f"an int of {least} or more"
        raise bad(name, value, what, str(max(least, 1)))
    return value


def bad(name: str, value: object, what: str, example: str) -> TrainerError:
    """Return the error for an argument's value."""
    return TrainerError(
        "trainer.bad-argument",
        f"{name} cannot be {value!r}",
        values={name: value},
        because=f"{name} is {what}",
        hint=f"pass {name}={example}",
    )
