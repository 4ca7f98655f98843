"""BatchSizeFinder: begins each run with the largest batch size that fits."""

from __future__ import annotations

from typing import Any

from drivetrain.callbacks.say import say
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.tuner.batch_size import SizeSearch, search
from drivetrain.tuner.finder import Finder
from drivetrain.tuner.places import assign, places


class BatchSizeFinder(Finder):
    """Search the batch size when a fit, validation, test or prediction begins; its loaders are made with it.

    The arguments are those of `Tuner.scale_batch_size`. A subclass may search at another time: it overrides
    ``on_fit_start`` (``on_test_start``, ...) and calls `scale_batch_size`, as in ``on_train_epoch_start``.
    """

    def __init__(
        self,
        mode: str = "power",
        steps_per_trial: int = 3,
        init_val: int = 2,
        max_trials: int = 25,
        batch_arg_name: str = "batch_size",
        margin: float = 0.05,
        max_val: int | None = 8192,
    ) -> None:
        limits = (steps_per_trial, init_val, max_trials)
        self._wanted = SizeSearch(mode, *limits, batch_arg_name, margin, max_val)
        self._wanted.check(type(self).__name__)
        self.optimal_batch_size: int | None = None
        """What was found; None before a search."""

    def scale_batch_size(self, trainer: Any, pl_module: Any) -> None:
        """Search, set the size, and make the run's loaders with it: at once, or from the next epoch on.

        Collectives:
            one object of a few bytes a trial; every rank must call.
        """
        self.optimal_batch_size = search(trainer, pl_module, self._wanted)
        say(trainer, f"{type(self).__name__}: {self._wanted.batch_arg_name}={self.optimal_batch_size}")
        self._take_up(trainer, pl_module)

    def _search(self, trainer: Any, module: Any) -> None:
        """Search by `scale_batch_size`."""
        self.scale_batch_size(trainer, module)

    def _take_up(self, trainer: Any, module: Any) -> None:
        """Set the size; where loaders and optimizers are there already, they are made anew."""
        context, name = trainer._context, self._wanted.batch_arg_name
        assign(places(name, module, context.datamodule), name, self.optimal_batch_size)
        if context.loaders:
            context.reload()
        if context.stepped and not context.progress.seen:
            context.configure_optimizers()  # a schedule may count the steps of an epoch

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Where a fit's search belongs; it was done before, while the device was free."""
        self._begin(trainer, pl_module, "fit")

    def on_validation_start(self, trainer: Any, pl_module: Any) -> None:
        """Where that of ``trainer.validate`` belongs."""
        self._begin(trainer, pl_module, "validate")

    def on_test_start(self, trainer: Any, pl_module: Any) -> None:
        """Where that of ``trainer.test`` belongs."""
        self._begin(trainer, pl_module, "test")

    def on_predict_start(self, trainer: Any, pl_module: Any) -> None:
        """Where that of ``trainer.predict`` belongs."""
        self._begin(trainer, pl_module, "predict")

    _starts = {  # noqa: RUF012 - typed as a ClassVar in the base class
        "fit": on_fit_start,
        "validate": on_validation_start,
        "test": on_test_start,
        "predict": on_predict_start,
    }

    def state_dict(self) -> dict[str, Any]:
        """Return what was found: a fit that goes on keeps its batch size."""
        found = self.optimal_batch_size
        return {} if found is None else {"optimal_batch_size": found}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what was found."""
        entry = Entry(state_dict, "", f"callbacks.{self.state_key}")["optimal_batch_size"]
        self.optimal_batch_size = entry.integer(least=1)
