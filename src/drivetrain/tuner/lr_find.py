"""The learning rate by a range test: it grows from step to step, and the loss is watched.

Source: L. N. Smith, Cyclical Learning Rates for Training Neural Networks, arXiv:1506.01186, section 3.3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, final

import torch

from drivetrain.base.errors import TrainerError
from drivetrain.callbacks.callback import Callback
from drivetrain.loops.settings import Bounds
from drivetrain.trainer.twin import twin_of
from drivetrain.tuner.finder import LEFT_OUT, aside, run_fit
from drivetrain.tuner.places import needed_places, places
from drivetrain.tuner.refusal import bad, check_count

MODES = ("exponential", "linear")
_ATTRIBUTES = ("lr", "learning_rate")
_SMOOTHING = 0.98


@dataclass(frozen=True)
class LRSearch:
    """What a search saw: the smoothed loss, as a mean over all ranks, at each learning rate."""

    results: Mapping[str, list[float]] = field(default_factory=lambda: {"lr": [], "loss": []})
    mode: str = "exponential"

    def suggestion(self, skip_begin: int = 10, skip_end: int = 1) -> float | None:
        """Return the learning rate at which the loss falls fastest; None where too few steps are left."""
        rates, losses = self.results["lr"], self.results["loss"]
        stop = len(losses) - skip_end
        kept = [(rate, loss) for rate, loss in zip(rates, losses, strict=True) if math.isfinite(loss)]
        kept = kept[skip_begin:stop]
        if len(kept) < 2:  # noqa: PLR2004 - a slope has two ends
            return None
        (slope,) = torch.gradient(torch.tensor([loss for _, loss in kept], dtype=torch.float64))
        return kept[int(slope.argmin())][0]

    def plot(self, suggest: bool = False, show: bool = False, ax: Any = None) -> Any:
        """Draw the loss over the learning rate, with ``suggest`` a mark at the suggestion; return the figure.

        ``ax`` are matplotlib's axes to draw on; ``show`` opens a window.
        """
        import matplotlib.pyplot as plt

        figure, axes = plt.subplots() if ax is None else (ax.figure, ax)
        axes.plot(self.results["lr"], self.results["loss"], linewidth=1.6)
        axes.set(xlabel="learning rate", ylabel="loss, smoothed")
        if self.mode == "exponential":
            axes.set_xscale("log")
        found = self.suggestion() if suggest else None
        if found is not None:
            loss = self.results["loss"][self.results["lr"].index(found)]
            axes.plot([found], [loss], marker="o", color="#c62828", linestyle="none", label=f"{found:.2e}")
            axes.legend()
        if show:
            plt.show()
        return figure


@dataclass(frozen=True)
class RateSearch:
    """What a search for a learning rate is told."""

    min_lr: float = 1e-8
    max_lr: float = 1.0
    num_training: int = 100
    mode: str = "exponential"
    early_stop_threshold: float | None = 4.0
    update_attr: bool = True
    attr_name: str = ""

    def check(self, caller: str, count: str) -> None:
        """Refuse what makes no search; ``count`` is what the caller calls the number of steps.

        Raises:
            TrainerError [trainer.bad-argument]: a value that an argument cannot have.
        """
        if self.mode not in MODES:
            raise bad(caller, "mode", self.mode, "'exponential' or 'linear'", "'exponential'")
        if not 0 < self.min_lr < self.max_lr:
            raise bad(caller, "min_lr", self.min_lr, f"above 0 and below max_lr={self.max_lr}", "1e-8")
        check_count(caller, count, self.num_training, 2, "100")  # a slope has two ends

    def places(self, module: Any) -> tuple[str, list[Any]]:
        """Return the name that the rate has in a module, and who holds it.

        Raises:
            TrainerError [trainer.bad-argument]: nobody does.
        """
        names = (self.attr_name,) if self.attr_name else _ATTRIBUTES
        name = next((one for one in names if places(one, module)), names[0])
        return name, needed_places(name, "learning rate", module)


def search(trainer: Any, module: Any, wanted: RateSearch) -> LRSearch:
    """Search in the middle of a fit, once its data is set up; every rank returns the same.

    Collectives:
        those of a fit of that many steps; every rank must call.
    Raises:
        TrainerError [trainer.bad-argument]: nothing holds the rate, or there are several optimizers.
    """
    if wanted.update_attr:
        wanted.places(module)
    context = trainer._context
    data = {"train_dataloaders": context.passed[0], "datamodule": context.datamodule}
    test = RangeTest(wanted)
    with aside(context.strategy) as folder:
        bounds = Bounds(max_steps=wanted.num_training)
        twin, given, copied = twin_of(
            trainer, test, data, module, bounds, folder, validates=False, left_out=LEFT_OUT
        )
        run_fit(twin, copied, given["datamodule"], given["train_dataloaders"], context.strategy.place)
    return LRSearch({"lr": test.rates, "loss": test.losses}, wanted.mode)


@final
class RangeTest(Callback):
    """Sets each step's learning rate and keeps its loss; ends the run when the loss has grown too far."""

    def __init__(self, wanted: RateSearch) -> None:
        self._min_lr, self._max_lr, self._count = wanted.min_lr, wanted.max_lr, wanted.num_training
        self._mode, self._threshold = wanted.mode, wanted.early_stop_threshold
        self.rates: list[float] = []
        self.losses: list[float] = []
        self._average, self._best = 0.0, math.inf
        self._step = 0

    def rate(self, step: int) -> float:
        """Return the learning rate of a step, from 0."""
        part = step / max(self._count - 1, 1)
        if self._mode == "linear":
            return self._min_lr + (self._max_lr - self._min_lr) * part
        return float(self._min_lr * (self._max_lr / self._min_lr) ** part)

    def on_train_start(self, trainer: Any, module: Any) -> None:
        """Refuse what has no one learning rate."""
        if len(trainer.optimizers) != 1:
            raise TrainerError(
                "trainer.bad-argument",
                f"lr_find of a module with {len(trainer.optimizers)} optimizers",
                values={"optimizers": [type(one).__name__ for one in trainer.optimizers]},
                because="the search changes one learning rate",
                hint="search with a module that configures one optimizer",
            )
        trainer.lr_scheduler_configs.clear()  # the rate is set here, and they may watch what is not logged

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        """Set the rate, whatever a scheduler has set."""
        self._step = trainer.global_step
        for group in trainer.optimizers[0].param_groups:
            group["lr"] = self.rate(self._step)

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, *_: Any) -> None:
        """Keep the loss, if the batch brought a step."""
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        if trainer.global_step == self._step or loss is None:
            return
        value = loss.detach().double().reshape(()).clone()
        if trainer.world_size > 1:
            value = trainer.strategy.collectives.all_reduce(value, "mean")
        self._average = _SMOOTHING * self._average + (1 - _SMOOTHING) * float(value)
        smoothed = self._average / (1 - _SMOOTHING ** (len(self.losses) + 1))
        self.rates.append(self.rate(self._step))
        self.losses.append(smoothed)
        if self._threshold is not None and len(self.losses) > 1:
            trainer.should_stop |= not smoothed <= self._threshold * self._best
        self._best = min(self._best, smoothed)
