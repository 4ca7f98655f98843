"""WeightAveraging: validates, saves and ends with an average of the weights of many steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch.optim.swa_utils import get_ema_multi_avg_fn

from drivetrain.callbacks.average import Average, store_both, take_current
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.ranks_apart import refuse_apart
from drivetrain.callbacks.refusal import bad_argument, check_flag, check_number
from drivetrain.modules import Module, Run

_KNOWN = ("avg_fn", "multi_avg_fn")


class WeightAveraging(Callback):
    """Average the weights of a fit with `torch.optim.swa_utils.AveragedModel`, in training only.

    `should_update` says after which steps or epochs; by default after each step. Once there is an average,
    validation within the fit runs on it, checkpoints have it as ``state_dict``, and a fit that comes to its
    end leaves it in the module. Training goes on with its own weights, which checkpoints keep beside it, so
    that a resumed run is the same run. Before the first update, and after an exception, there are only the
    weights of training.

    ``device`` is where the average is kept, by default the module's. ``use_buffers`` averages buffers, such
    as running statistics, as well; otherwise they are those of the last update. ``avg_fn`` and
    ``multi_avg_fn`` are AveragedModel's; without one it is the mean.

    Collectives:
        with several ranks, what `Strategy.share_buffers` needs before a validation and at the fit's end.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    acts_in_fit_only = True

    def __init__(
        self, device: torch.device | str | int | None = None, use_buffers: bool = True, **kwargs: Any
    ) -> None:
        self._device = read_device(self, device)
        self._options = {"use_buffers": check_flag(self, "use_buffers", use_buffers), **kwargs}
        for name, value in kwargs.items():
            if name not in _KNOWN or not (value is None or callable(value)):
                raise bad_argument(self, name, value, f"no argument, or no function; there are {_KNOWN}")
        if all(kwargs.get(name) is not None for name in _KNOWN):
            raise bad_argument(self, "avg_fn", kwargs["avg_fn"], "given alone, without multi_avg_fn")
        self._forget()

    def _forget(self) -> None:
        self._average: Average | None = None
        self._latest_step, self._latest_epoch = 0, -1
        self._asked_step = 0
        """Optimizer steps that had been taken when `should_update` was asked last."""
        self._loaded: tuple[Mapping[str, Any], Mapping[str, Any], int] | None = None
        self._is_fitting = False
        self._stage = ""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the average of the last fit."""
        return {**vars(self), "_average": None, "_loaded": None}

    @property
    def n_averaged(self) -> int:
        """How many weights are in the average."""
        return 0 if self._average is None else self._average.count

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Whether the weights of now go into the average; to be overridden, the same on every rank.

        After each optimizer step it gets ``step_idx``, at the end of each whole epoch ``epoch_idx``, both
        from 0; the other is None.
        """
        return step_idx is not None

    def state_dict(self) -> dict[str, Any]:
        """Return when it was updated last; the averages are the checkpoint's weights."""
        return {
            "latest_update_step": self._latest_step,
            "latest_update_epoch": self._latest_epoch,
            "asked_step": self._asked_step,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self._latest_step = state_dict["latest_update_step"]
        self._latest_epoch = state_dict["latest_update_epoch"]
        self._asked_step = state_dict.get("asked_step", self._latest_step)

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint has an average."""
        if stage == "fit":
            refuse_apart(self, trainer)
            self._forget()
        self._stage = stage

    def on_load_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """In a fit, go on with the weights of training, and keep the averages; elsewhere they are loaded."""
        if self._stage != "fit":
            return
        found = take_current(checkpoint)
        if found is not None:
            self._loaded = (*found, int(checkpoint["averaging_state"]["n_averaged"]))

    def on_fit_start(self, trainer: Run, module: Module) -> None:
        """Make the average that a checkpoint brought."""
        self._is_fitting = True
        loaded, self._loaded = self._loaded, None
        if loaded is not None:
            averaged, current, count = loaded
            trainer.strategy.load_model_state(module, averaged)
            self._average = self._made(trainer, module)
            trainer.strategy.load_model_state(module, current)
            self._average.set_count(count)

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Update, if it should be after this step."""
        step = trainer.global_step
        if step <= self._asked_step:
            return  # a batch of a window that is open
        self._asked_step = step
        if self.should_update(step_idx=step - 1):
            self._update(trainer, module)
            self._latest_step = step

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Update, if it should be after this epoch."""
        epoch = trainer.current_epoch
        if trainer.is_epoch_whole and epoch > self._latest_epoch and self.should_update(epoch_idx=epoch):
            self._update(trainer, module)
            self._latest_epoch = epoch

    def on_validation_epoch_start(self, trainer: Run, module: Module) -> None:
        """Validate with the average."""
        if self._is_fitting and self._average is not None:
            self._average.swap()
            trainer.strategy.share_buffers(module)

    def on_validation_epoch_end(self, trainer: Run, module: Module) -> None:
        """Go on with the weights of training."""
        self._swap_back()

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Leave the average in the module."""
        self._is_fitting = False
        if self._average is not None:
            self._average.swap()
            trainer.strategy.share_buffers(module)
            self._average.gather()

    def on_save_checkpoint(self, trainer: Run, module: Module, checkpoint: dict[str, Any]) -> None:
        """Save both."""
        if self._average is not None:
            store_both(trainer, module, checkpoint, self._average)

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Leave the weights of training in the module."""
        self._swap_back()
        self._is_fitting = False

    def teardown(self, trainer: Run, module: Module, stage: str) -> None:
        """Come to the CPU, as the module does."""
        if self._average is not None:
            self._average.to("cpu")

    def _made(self, trainer: Run, module: Module) -> Average:
        return Average(module, self._device, trainer.strategy, **self._options)

    def _update(self, trainer: Run, module: Module) -> None:
        # It is made at the first update: lazy parameters have their shapes by then.
        self._average = self._average or self._made(trainer, module)
        self._average.update()

    def _swap_back(self) -> None:
        if self._is_fitting and self._average is not None and self._average.is_swapped:
            self._average.swap()


class EMAWeightAveraging(WeightAveraging):
    """Average weights with exponentially less of older ones: ``decay * average + (1 - decay) * weights``.

    It is updated after every ``update_every_n_steps``-th optimizer step, counted from the first, not before
    step ``update_starting_at_step`` and epoch ``update_starting_at_epoch``, both from 0. With a starting
    epoch it is updated also at each epoch's end that no such step is; ``update_every_n_steps=0`` leaves only
    those. All else is as in `WeightAveraging`.

    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
    """

    def __init__(
        self,
        device: torch.device | str | int | None = None,
        use_buffers: bool = True,
        decay: float = 0.999,
        update_every_n_steps: int = 1,
        update_starting_at_step: int | None = None,
        update_starting_at_epoch: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.decay = check_number(self, "decay", decay, least=0.0)
        if self.decay > 1:
            raise bad_argument(self, "decay", decay, "a number from 0.0 to 1.0")
        for name, value in (
            ("update_every_n_steps", update_every_n_steps),
            ("update_starting_at_step", update_starting_at_step),
            ("update_starting_at_epoch", update_starting_at_epoch),
        ):
            is_none = value is None and name != "update_every_n_steps"
            if not is_none and (type(value) is not int or value < 0):
                raise bad_argument(self, name, value, "an int of 0 or more")
        if update_every_n_steps == 0 and update_starting_at_epoch is None:
            raise bad_argument(
                self, "update_every_n_steps", 0, "0 only with an update_starting_at_epoch", "pass 1"
            )
        for name, function in kwargs.items():
            if name in _KNOWN:
                raise bad_argument(self, name, function, "what decay says", "use WeightAveraging")
        average = get_ema_multi_avg_fn(self.decay)  # type: ignore[no-untyped-call]  # torch's
        super().__init__(device, use_buffers, multi_avg_fn=average, **kwargs)
        self.update_every_n_steps = update_every_n_steps
        self.update_starting_at_step = update_starting_at_step
        self.update_starting_at_epoch = update_starting_at_epoch

    def should_update(self, step_idx: int | None = None, epoch_idx: int | None = None) -> bool:
        """Whether the weights after the step, or of the epoch, go into the average."""
        if step_idx is not None:
            every = self.update_every_n_steps
            return every > 0 and step_idx >= (self.update_starting_at_step or 0) and step_idx % every == 0
        first = self.update_starting_at_epoch
        return epoch_idx is not None and first is not None and epoch_idx >= first

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Update, if it should be after this step of this epoch."""
        if trainer.current_epoch >= (self.update_starting_at_epoch or 0):
            super().on_train_batch_end(trainer, module, outputs, batch, batch_idx)

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Update, if it should be after this epoch and its weights are not in the average yet."""
        if self._latest_step < trainer.global_step:
            super().on_train_epoch_end(trainer, module)


def read_device(owner: object, device: object) -> torch.device | None:
    """Return where an average is kept; None for the module's device.

    Raises:
        ModuleError [callback.bad-argument]: it names no device.
    """
    try:
        return None if device is None else torch.device(device)  # type: ignore[call-overload]  # torch refuses what is none
    except (TypeError, RuntimeError) as error:
        raise bad_argument(owner, "device", device, "a torch.device or its name, or None") from error
