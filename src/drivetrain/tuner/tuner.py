"""Tuner: finds settings by short runs on the side."""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from drivetrain.data.seeds import seeded
from drivetrain.loops.compiled import uncompiled
from drivetrain.loops.settings import Bounds
from drivetrain.modules import DataModule, Module
from drivetrain.trainer.arguments import check_data, check_model
from drivetrain.trainer.trainer import Trainer
from drivetrain.trainer.twin import twin_of
from drivetrain.tuner import batch_size, lr_find
from drivetrain.tuner.batch_size import STAGES, SizeSearch
from drivetrain.tuner.finder import LEFT_OUT
from drivetrain.tuner.lr_find import LRSearch, RateSearch
from drivetrain.tuner.places import assign, needed_places
from drivetrain.tuner.refusal import bad


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
        ``update_attr`` the suggestion is set as ``attr_name`` of the module and of its hyperparameters, by
        default ``lr`` or ``learning_rate``.

        Raises:
            TrainerError [trainer.bad-argument]: wrong bounds, no attribute to set, several optimizers.
        """
        if method != "fit":
            raise bad("lr_find", "method", method, "'fit', as only training has a learning rate", "'fit'")
        if dataloaders is not None:
            raise bad(
                "lr_find", "dataloaders", dataloaders, "for evaluation, which has no learning rate", "None"
            )
        wanted = RateSearch(min_lr, max_lr, num_training, mode, early_stop_threshold, update_attr, attr_name)
        wanted.check("lr_find", "num_training")
        check_data(datamodule, train_dataloaders, val_dataloaders)
        name, places = wanted.places(model) if update_attr else ("", [])
        search = functools.partial(lr_find.search, wanted=wanted)
        found: LRSearch = self._aside("fit", model, datamodule, train_dataloaders, search)
        suggested = found.suggestion()
        if suggested is not None:
            assign(places, name, suggested)
        return found

    def scale_batch_size(
        self,
        model: Module,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        dataloaders: Any = None,
        datamodule: DataModule | None = None,
        method: str = "fit",
        mode: str = "power",
        steps_per_trial: int = 3,
        init_val: int = 2,
        max_trials: int = 25,
        batch_arg_name: str = "batch_size",
        margin: float = 0.05,
        max_val: int | None = 8192,
    ) -> int:
        """Return the largest batch size with which every rank takes ``steps_per_trial`` steps.

        It grows from ``init_val``, doubling, until memory runs out on any rank, the data has no more samples,
        or ``max_val`` or ``max_trials`` is reached. ``binsearch`` then halves the interval, and takes the
        part ``margin`` off. It is set wherever the model or data module has ``batch_arg_name``, and their
        loaders must be made with it.

        Raises:
            TrainerError [trainer.bad-argument]: nothing to set; loaders that are there already, or do not
                follow; ``init_val`` does not fit.
        """
        if method not in STAGES:
            raise bad("scale_batch_size", "method", method, f"one of {', '.join(STAGES)}", "'fit'")
        wanted = SizeSearch(mode, steps_per_trial, init_val, max_trials, batch_arg_name, margin, max_val)
        wanted.check("scale_batch_size")
        check_data(datamodule, train_dataloaders, val_dataloaders, dataloaders)
        passed = (train_dataloaders, dataloaders) if method == "fit" else (dataloaders, train_dataloaders)
        batch_size.refuse_passed(method, next((one for one in passed if one is not None), None))
        places = needed_places(batch_arg_name, "batch size", model, datamodule)
        search = functools.partial(batch_size.search, wanted=wanted)
        size: int = self._aside(method, model, datamodule, None, search)
        assign(places, batch_arg_name, size)
        return size

    def _aside(
        self,
        stage: str,
        model: Module,
        datamodule: DataModule | None,
        loaders: Any,
        search: Callable[[Any, Module], Any],
    ) -> Any:
        """Set up a run of copies on all ranks, and search in it in place of the verb."""
        data = {"datamodule": datamodule, "loaders": loaders}
        model, _ = uncompiled(model)  # compiling for each size would take longer than the search
        with tempfile.TemporaryDirectory(prefix="drivetrain-tuner-") as folder, seeded(0):
            twin, given, copied = twin_of(
                self._trainer, None, data, check_model(model), Bounds(), Path(folder), left_out=LEFT_OUT
            )
            return twin._run(
                stage, {}, copied, given["datamodule"], given["loaders"], None, None, True, instead=search
            )
