"""StochasticWeightAveraging: ends with the mean of the last epochs' weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, final

import torch
from torch.optim.swa_utils import SWALR

from drivetrain.callbacks.average import Average, store_both, take_current
from drivetrain.callbacks.batch_norm import refresh_batch_norm
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.ranks_apart import refuse_apart
from drivetrain.callbacks.refusal import bad_argument
from drivetrain.callbacks.weight_averaging import read_device
from drivetrain.modules import Module, Run

AverageFunction: TypeAlias = Callable[[torch.Tensor, torch.Tensor, "torch.Tensor | int"], torch.Tensor]
"""Makes the new average of the old one, the weights, and how many are in the old one."""

_CPU = torch.device("cpu")


@final
class StochasticWeightAveraging(Callback):
    """Average the weights at the ends of the last epochs, with a learning rate of their own.

    From the ``swa_epoch_start``-th epoch on (an int, from 1), or after that part of ``max_epochs`` (a float),
    the learning rate goes from what it is to ``swa_lrs`` within ``annealing_epochs`` epochs, ``cos`` or
    ``linear``; the module's own schedulers rest. At the end of each of these epochs the weights go into the
    average, by ``avg_fn(average, weights, count)``, or as a mean. It is kept on ``device``, None for the
    module's. Validation and checkpoints have the weights of training. The fit's end leaves the average in the
    module, and computes running statistics of batch norm anew over the training data.

    Collectives:
        with several ranks, at the fit's end those of `Strategy.share_buffers` and one all_reduce.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    Source:
        Izmailov et al. 2018; torch.optim.swa_utils.
    """

    acts_in_fit_only = True

    def __init__(
        self,
        swa_lrs: float | Sequence[float],
        swa_epoch_start: float = 0.8,
        annealing_epochs: int = 10,
        annealing_strategy: Literal["cos", "linear"] = "cos",
        avg_fn: AverageFunction | None = None,
        device: torch.device | str | None = _CPU,
    ) -> None:
        self._lrs: Any = (
            [_rate(self, one) for one in swa_lrs]
            if isinstance(swa_lrs, (list, tuple))
            else _rate(self, swa_lrs)
        )
        is_part = type(swa_epoch_start) is float and 0 <= swa_epoch_start <= 1
        if not is_part and (type(swa_epoch_start) is not int or swa_epoch_start < 1):
            what = "an int of 1 or more (epochs), or a float from 0.0 to 1.0 (part of max_epochs)"
            raise bad_argument(self, "swa_epoch_start", swa_epoch_start, what)
        if type(annealing_epochs) is not int or annealing_epochs < 0:
            raise bad_argument(self, "annealing_epochs", annealing_epochs, "an int of 0 or more")
        if annealing_strategy not in ("cos", "linear"):
            raise bad_argument(self, "annealing_strategy", annealing_strategy, "'cos' or 'linear'")
        if avg_fn is not None and not callable(avg_fn):
            raise bad_argument(self, "avg_fn", avg_fn, "a function of (average, weights, count)")
        self._start: int | float = swa_epoch_start
        self._avg_fn = avg_fn
        self._annealing: dict[str, Any] = {
            "anneal_epochs": annealing_epochs,
            "anneal_strategy": annealing_strategy,
        }
        self._device = read_device(self, device)
        self._forget()

    def _forget(self) -> None:
        self._average: Average | None = None
        self._schedulers: list[SWALR] = []
        self._latest_epoch = -1
        self._loaded: dict[str, Any] | None = None
        self._stage = ""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the average of the last fit."""
        return {**vars(self), "_average": None, "_schedulers": [], "_loaded": None}

    @property
    def n_averaged(self) -> int:
        """How many epochs' weights are in the average."""
        return 0 if self._average is None else self._average.count

    def state_dict(self) -> dict[str, Any]:
        """Return the average, and where the learning rate stands."""
        return {
            "latest_update_epoch": self._latest_epoch,
            "schedulers": [one.state_dict() for one in self._schedulers],
            "average": None if self._average is None else self._average.state_dict(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there, once the fit starts."""
        self._loaded, self._latest_epoch = state_dict, state_dict["latest_update_epoch"]

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint has an average."""
        if stage == "fit":
            refuse_apart(self, trainer)
            self._forget()
        self._stage = stage

    def on_load_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """In a fit, go on with the weights of training."""
        if self._stage == "fit":
            take_current(checkpoint)

    def on_fit_start(self, trainer: Run, module: Module) -> None:
        """Check what is there to average over; go on where a checkpoint stood."""
        if isinstance(self._start, float) and trainer.max_epochs < 0:
            raise bad_argument(
                self,
                "swa_epoch_start",
                self._start,
                "a part of max_epochs, which this Trainer has not",
                "pass Trainer(max_epochs=...), or an epoch as an int",
            )
        groups = [len(one.param_groups) for one in trainer.optimizers]
        if isinstance(self._lrs, list) and groups != [len(self._lrs)]:
            what = f"one number, or one for each parameter group of one optimizer; groups: {groups}"
            raise bad_argument(self, "swa_lrs", self._lrs, what, "pass one number")
        loaded, self._loaded = self._loaded, None
        if loaded is None:
            return
        if loaded["schedulers"]:
            self._begin(trainer)
            for scheduler, state in zip(self._schedulers, loaded["schedulers"], strict=True):
                scheduler.load_state_dict(state)
        if loaded["average"] is not None:
            self._average = self._made(trainer, module)
            self._average.load_state_dict(loaded["average"])

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Take over the learning rate when the first of the last epochs begins."""
        start = self._start
        first = max((int(trainer.max_epochs * start) if isinstance(start, float) else start) - 1, 0)
        if not self._schedulers and trainer.current_epoch >= first:
            self._begin(trainer)

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Take the epoch's weights into the average, and move the learning rate."""
        epoch = trainer.current_epoch
        if not self._schedulers or not trainer.is_epoch_whole or epoch <= self._latest_epoch:
            return
        self._average = self._average or self._made(trainer, module)
        self._average.update()
        self._latest_epoch = epoch
        for scheduler in self._schedulers:
            for group in scheduler.optimizer.param_groups:  # those that came since have the first one's
                group.setdefault("swa_lr", scheduler.optimizer.param_groups[0]["swa_lr"])
            scheduler.step()

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Leave the average in the module, with statistics of its own.

        Not where a signal ends the fit: they take a pass over the data, and there is no time for it.
        """
        if self._average is not None and not trainer.is_leaving:
            self._average.swap()
            refresh_batch_norm(trainer, module)
            trainer.strategy.share_buffers(module)
        if self._average is not None:
            self._average.gather()

    def on_save_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """Save both, once the module has the average; before, it is in this callback's state."""
        if self._average is not None and self._average.is_swapped:
            store_both(trainer, module, checkpoint, self._average)

    def teardown(self, trainer: Run, module: Module, stage: str) -> None:
        """Come to the CPU, as the module does."""
        if self._average is not None:
            self._average.to("cpu")

    def _made(self, trainer: Run, module: Module) -> Average:
        return Average(module, self._device, trainer.strategy, avg_fn=self._avg_fn)

    def _begin(self, trainer: Run) -> None:
        for config in trainer.lr_scheduler_configs:
            config.is_paused = True
        self._schedulers = [
            SWALR(optimizer, self._lrs, **self._annealing) for optimizer in trainer.optimizers
        ]


def _rate(owner: object, value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise bad_argument(
            owner, "swa_lrs", value, "a number above 0, or a list of them", "pass swa_lrs=0.05"
        )
    return float(value)
