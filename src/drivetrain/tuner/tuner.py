"""Tuner: finds settings by short runs on the side."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, final

from drivetrain.base.errors import TrainerError
from drivetrain.data.seeds import seeded
from drivetrain.loops.settings import Bounds
from drivetrain.modules import DataModule, Module
from drivetrain.trainer.trainer import Trainer
from drivetrain.trainer.twin import twin_of
from drivetrain.tuner.lr_find import MODES, LRSearch, RangeTest

_ATTRIBUTES = ("lr", "learning_rate")


@final
class Tuner:
    """Searches with a Trainer's flags and settings: ``Tuner(trainer).lr_find(model, loader)``.

    A search runs on copies of the model and the callbacks, writes nothing, and leaves weights, counters and
    random state as they were, also when it fails.
    """

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer

    def lr_find(
        self,
        model: Module,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        dataloaders: Any = None,
        datamodule: DataModule | None = None,
        method: str = "fit",
        min_lr: float = 1e-8,
        max_lr: float = 1.0,
        num_training: int = 100,
        mode: str = "exponential",
        early_stop_threshold: float | None = 4.0,
        update_attr: bool = True,
        attr_name: str = "",
    ) -> LRSearch:
        """Train ``num_training`` steps while the learning rate grows from ``min_lr`` to ``max_lr``.

        It stops early when the smoothed loss is ``early_stop_threshold`` times the smallest. With
        ``update_attr`` the suggestion is set as ``attr_name`` of the module or of its hyperparameters, by
        default ``lr`` or ``learning_rate``.

        Raises:
            TrainerError [trainer.bad-argument]: wrong bounds, no attribute to set, several optimizers.
        """
        _check(method if dataloaders is None else "with dataloaders", mode, min_lr, max_lr, num_training)
        where = _holder(model, attr_name) if update_attr else None
        test = RangeTest(min_lr, max_lr, num_training, mode, early_stop_threshold)
        data = {
            "train_dataloaders": train_dataloaders,
            "val_dataloaders": val_dataloaders,
            "datamodule": datamodule,
        }
        with tempfile.TemporaryDirectory(prefix="drivetrain-tuner-") as folder, seeded(0):
            bounds = Bounds(max_steps=num_training)
            twin, given, copied = twin_of(
                self._trainer, test, data, model, bounds, Path(folder), validates=False
            )
            twin.fit(copied, **given)
        found = LRSearch({"lr": test.rates, "loss": test.losses}, mode)
        suggested = found.suggestion()
        if where is not None and suggested is not None:
            holder, name = where
            if isinstance(holder, dict):
                holder[name] = suggested
            else:
                setattr(holder, name, suggested)
        return found


def _check(method: str, mode: str, min_lr: float, max_lr: float, num_training: int) -> None:
    if method != "fit":
        raise _bad("method", method, "'fit', as only training has a learning rate", "'fit'")
    if mode not in MODES:
        raise _bad("mode", mode, "'exponential' or 'linear'", "'exponential'")
    if not 0 < min_lr < max_lr:
        raise _bad("min_lr", min_lr, f"above 0 and below max_lr={max_lr}", "1e-8")
    if type(num_training) is not int or num_training < 2:  # noqa: PLR2004 - a slope has two ends
        raise _bad("num_training", num_training, "a number of steps, 2 or more", "100")


def _holder(model: Any, attr_name: str) -> tuple[Any, str]:
    names = (attr_name,) if attr_name else _ATTRIBUTES
    for name in names:
        if hasattr(model, name):
            return model, name
        if name in getattr(model, "hparams", {}):
            return model.hparams, name
    raise TrainerError(
        "trainer.bad-argument",
        f"{type(model).__name__} has no {' or '.join(names)} for the learning rate that is found",
        values={"class": type(model).__qualname__, "attr_name": attr_name},
        because="configure_optimizers reads the learning rate from an attribute or a hyperparameter",
        hint="set self.lr in __init__ and use it in configure_optimizers, or pass update_attr=False",
    )


def _bad(name: str, value: object, what: str, example: str) -> TrainerError:
    return TrainerError(
        "trainer.bad-argument",
        f"lr_find({name}={value!r})",
        values={name: value},
        because=f"{name} is {what}",
        hint=f"pass {name}={example}",
    )
