"""LearningRateFinder: begins a fit with the learning rate that a range test suggests."""

from __future__ import annotations

from typing import Any

from drivetrain.callbacks.param_groups import follow, rates
from drivetrain.callbacks.say import say
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.tuner.finder import Finder
from drivetrain.tuner.lr_find import LRSearch, RateSearch, search
from drivetrain.tuner.places import assign


class LearningRateFinder(Finder):
    """Search the learning rate when a fit begins; the fit's optimizer is made with what is suggested.

    The arguments are those of `Tuner.lr_find`; ``num_training_steps`` is its ``num_training``. A subclass may
    search at another time: it overrides ``on_fit_start`` and calls `lr_find`, in ``on_train_epoch_start`` for
    one. After the first step the optimizer keeps its state, and its groups get the rate that is suggested.
    """

    def __init__(
        self,
        min_lr: float = 1e-8,
        max_lr: float = 1.0,
        num_training_steps: int = 100,
        mode: str = "exponential",
        early_stop_threshold: float | None = 4.0,
        update_attr: bool = True,
        attr_name: str = "",
    ) -> None:
        self._wanted = RateSearch(
            min_lr, max_lr, num_training_steps, mode, early_stop_threshold, update_attr, attr_name
        )
        self._wanted.check(type(self).__name__, "num_training_steps")
        self.optimal_lr: LRSearch | None = None
        """What was found: `LRSearch`, with ``suggestion()`` and ``plot()``; None before a search."""

    def lr_find(self, trainer: Any, pl_module: Any) -> None:
        """Search, and use the suggestion in this fit.

        Collectives:
            those of a fit of ``num_training_steps`` steps; every rank must call.
        """
        self.optimal_lr = search(trainer, pl_module, self._wanted)
        say(trainer, f"{type(self).__name__}: suggests {self.optimal_lr.suggestion()}")
        self._take_up(trainer, pl_module)

    def _search(self, trainer: Any, module: Any) -> None:
        """Search by `lr_find`."""
        self.lr_find(trainer, module)

    def _take_up(self, trainer: Any, module: Any) -> None:
        """Set the rate; optimizers that are there are made anew, or have their groups' rates set."""
        suggested = None if self.optimal_lr is None else self.optimal_lr.suggestion()
        if not self._wanted.update_attr or suggested is None:
            return
        context = trainer._context
        name, found = self._wanted.places(module)
        assign(found, name, suggested)
        if context.stepped and not context.progress.seen:
            context.configure_optimizers()
            return
        for optimizer in context.optimizers:
            before = rates(optimizer)
            for group in optimizer.param_groups:
                group["lr"] = suggested
            follow(context.schedulers, optimizer, before)

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Where the search belongs; it was done before the optimizer was made, which may not have used it."""
        self._begin(trainer, pl_module, "fit")
        suggested = None if self.optimal_lr is None else self.optimal_lr.suggestion()
        if suggested is None or not self._wanted.update_attr:
            return
        groups = [group for optimizer in trainer.optimizers for group in optimizer.param_groups]
        # A schedule keeps what it was made with beside the rate: as initial_lr, or a cycle as max_lr.
        kept = [value for group in groups for value in group.values() if isinstance(value, float)]
        if suggested not in kept:
            name, _ = self._wanted.places(pl_module)
            made_with = ", ".join(f"{float(group['lr']):g}" for group in groups)
            text = f"self.{name} is {suggested:g}, and the optimizer was made with {made_with}"
            say(trainer, f"{type(self).__name__}: {text}: does configure_optimizers use self.{name}?")

    _starts = {"fit": on_fit_start}  # noqa: RUF012 - typed as a ClassVar in the base class

    def state_dict(self) -> dict[str, Any]:
        """Return what was found: a fit that goes on does not search again."""
        found = self.optimal_lr
        return {} if found is None else {"mode": found.mode, "results": dict(found.results)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up what was found."""
        entry = Entry(state_dict, "", f"callbacks.{self.state_key}")
        results = {name: [one.number() for one in entry["results"][name].each()] for name in ("lr", "loss")}
        self.optimal_lr = LRSearch(results, entry["mode"].text())
