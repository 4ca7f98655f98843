"""ThroughputMonitor: samples, items, batches and FLOPs a second, beside what is logged."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, final

import torch

from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.refusal import bad_argument, check_loggers
from drivetrain.callbacks.throughput import Throughput
from drivetrain.modules import Module, Run

_RATES = ("batches_per_sec", "samples_per_sec", "items_per_sec", "flops_per_sec")
_NUMBERS = {"64": "float64", "32": "float32", "bf16": "bfloat16", "16": "float16"}
_LOOPS = {"train": "train", "validation": "validate", "test": "test"}
"""What names begin with, by loop."""


@final
class ThroughputMonitor(Callback):
    """Log rates over the last ``window_size`` batches, at the steps that are logged and after evaluations.

    ``batch_size_fn`` returns a batch's samples, ``length_fn`` its items, such as tokens. Names are
    ``train/device/samples_per_sec`` for rank 0, ``train/samples_per_sec`` for the sum over all ranks, as each
    measured its own. Where the module has ``flops_per_batch``, the operations of one rank's step on one
    batch (`measure_flops` tells them), ``flops_per_sec`` and, on a device whose peak is known,
    ``device/mfu`` are logged too. ``available_flops`` is that peak where the library does not know it.

    Time spent in validation within a fit does not count; a resumed run goes on counting where it stood.
    Clocks are read on the host, and no step waits for the device: at a step that is logged the device has
    caught up, as its values are read, so the window's end is exact.

    Units:
        available_flops: operations a second, of one device.
    Collectives:
        with several ranks, one all_reduce of four numbers at each step that is logged and after each
        evaluation.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.no-logger]: the run has no logger.
    """

    acts_in_fit_only = True

    def __init__(
        self,
        batch_size_fn: Callable[[Any], int],
        length_fn: Callable[[Any], int] | None = None,
        window_size: int = 100,
        separator: str = "/",
        *,
        available_flops: float | None = None,
    ) -> None:
        given: dict[str, object] = {"batch_size_fn": batch_size_fn, "length_fn": length_fn or len}
        for name, value in given.items():
            if not callable(value):
                hint = f"pass {name}=lambda batch: len(batch[0])"
                raise bad_argument(self, name, value, "a function of a batch", hint)
        self._size_of, self._length_of = batch_size_fn, length_fn
        self._available_flops, self._separator = available_flops, separator
        self._throughputs = {loop: Throughput(available_flops, 1, window_size, separator) for loop in _LOOPS}
        self._counts: dict[str, _Count] = {loop: _Count() for loop in _LOOPS}

    def state_dict(self) -> dict[str, Any]:
        """Return what training has come to."""
        count = self._counts["train"]
        return {"train": {**count.state(), **self._throughputs["train"].state_dict()}}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        found = state_dict["train"]
        self._counts["train"] = _Count(
            found["elapsed_s"], found["batches"], found["samples"], found["lengths"]
        )
        self._throughputs["train"].load_state_dict(found)

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Begin anew, and see that there is a logger."""
        check_loggers(self, trainer)
        for loop in _LOOPS:
            self._counts[loop] = _Count()
            self._throughputs[loop].reset()
            self._throughputs[loop].world_size = trainer.world_size

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Start the clock."""
        self._look_up(trainer, "train")
        self._counts["train"].go_on()

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the batch, and log if its step is one that is logged."""
        self._count("train", trainer, module, batch)
        if trainer.is_logging_step:
            self._log("train", trainer)

    def on_validation_start(self, trainer: Run, module: Module) -> None:
        """Stop training's clock, and start that of validation."""
        self._counts["train"].pause()
        self._begin("validation", trainer)

    def on_validation_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Count the batch."""
        self._count("validation", trainer, module, batch, trains=False)

    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """Log, and go on with training's clock."""
        if not trainer.sanity_checking:
            self._log("validation", trainer)
        if self._counts["train"].is_paused:
            self._counts["train"].go_on()

    def on_test_start(self, trainer: Run, module: Module) -> None:
        """Start the clock."""
        self._begin("test", trainer)

    def on_test_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Count the batch."""
        self._count("test", trainer, module, batch, trains=False)

    def on_test_end(self, trainer: Run, module: Module) -> None:
        """Log."""
        self._log("test", trainer)

    def _begin(self, loop: str, trainer: Run) -> None:
        self._look_up(trainer, loop)
        self._throughputs[loop].reset()
        self._counts[loop] = _Count()
        self._counts[loop].go_on()

    def _look_up(self, trainer: Run, loop: str) -> None:
        if self._available_flops is None:
            strategy = trainer.strategy
            number = _number(trainer.plan.precision)
            peak = strategy.accelerator.peak_flops(strategy.device, number) if number else None
            self._throughputs[loop].available_flops = peak

    def _count(self, loop: str, trainer: Run, module: Module, batch: Any, *, trains: bool = True) -> None:
        count = self._counts[loop]
        count.batches += 1
        count.samples += self._size_of(batch)
        if self._length_of is not None:
            count.lengths = (count.lengths or 0) + self._length_of(batch)
        flops = getattr(module, "flops_per_batch", None) if trains else None
        self._throughputs[loop].update(
            time=count.now(),
            batches=count.batches,
            samples=count.samples,
            lengths=count.lengths,
            flops=None if flops is None else flops * trainer.world_size,
        )

    def _log(self, loop: str, trainer: Run) -> None:
        throughput = self._throughputs[loop]
        found = throughput.compute()
        if trainer.world_size > 1:
            mine = throughput.rates()
            rates = torch.tensor(
                [mine.get(name, 0.0) for name in _RATES], dtype=torch.float64, device=trainer.strategy.device
            )
            everybody = trainer.collectives.all_reduce(rates, "sum").tolist()
            found |= {name: rate for name, rate in zip(_RATES, everybody, strict=True) if rate}
        named = {f"{_LOOPS[loop]}{self._separator}{name}": float(value) for name, value in found.items()}
        for logger in trainer.loggers if named else ():
            logger.log_metrics(named, trainer.logging_step)


class _Count:
    """What one loop has come to on this rank."""

    def __init__(
        self, elapsed_s: float = 0.0, batches: int = 0, samples: int = 0, lengths: int | None = None
    ) -> None:
        self.elapsed_s, self.batches, self.samples, self.lengths = elapsed_s, batches, samples, lengths
        self._since: float | None = None
        self.is_paused = False

    def go_on(self) -> None:
        """Start the clock where it stood."""
        self._since, self.is_paused = time.monotonic(), False

    def pause(self) -> None:
        """Stop the clock, if it goes."""
        if self._since is not None:
            self.elapsed_s, self._since, self.is_paused = self.now(), None, True

    def now(self) -> float:
        """Return how long the clock has gone."""
        return self.elapsed_s + (0.0 if self._since is None else time.monotonic() - self._since)

    def state(self) -> dict[str, Any]:
        return {
            "elapsed_s": self.now(),
            "batches": self.batches,
            "samples": self.samples,
            "lengths": self.lengths,
        }


def _number(precision: str) -> str | None:
    """Return the format in which matrix products are computed, or None for one that has no name here."""
    found = _NUMBERS.get(precision.removesuffix("-true").removesuffix("-mixed"))
    if found == "float32" and torch.get_float32_matmul_precision() != "highest":
        return "tf32"
    return found
