"""DeviceStatsMonitor: what the device tells about itself, beside what is logged."""

from __future__ import annotations

from typing import Any, final

from drivetrain.accelerators.cpu import CPUAccelerator
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.logging_steps import may_be_logged
from drivetrain.callbacks.refusal import check_flag, check_loggers
from drivetrain.modules import Module, Run


@final
class DeviceStatsMonitor(Callback):
    """Log the device's statistics to the loggers before and after the steps that are logged.

    Names are ``DeviceStatsMonitor.on_train_batch_end/<statistic>``: on CUDA those of
    ``torch.cuda.memory_stats``, on CPU how busy the machine and how full its memory is. They are those of
    rank 0's device. ``cpu_stats=True`` adds the CPU's to another device's, False leaves them out; by
    default they are logged where the CPU is the device. No step waits for it.

    Units:
        cpu_percent: of all cores, since the batch before that was logged.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.no-logger]: the run has no logger.
    """

    def __init__(self, cpu_stats: bool | None = None) -> None:
        self._cpu_stats = None if cpu_stats is None else check_flag(self, "cpu_stats", cpu_stats)
        self._cpu = CPUAccelerator()
        self._began = -1
        """The step before which was read last: one step may take several batches."""
        self._before: dict[str, float] = {}
        """What was read then; written once the step turns out to be one that is logged."""

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """See that there is a logger."""
        check_loggers(self, trainer)

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Begin with the step that comes."""
        self._began, self._before = trainer.global_step, {}

    def on_train_batch_start(self, trainer: Run, module: Module, batch: Any, batch_idx: int) -> None:
        """Read before a step that may be logged."""
        step = trainer.global_step + 1
        if step != self._began and trainer.is_global_zero and may_be_logged(trainer):
            self._began, self._before = step, self._read(trainer)

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Log what was read before and after it."""
        if trainer.is_logging_step and trainer.is_global_zero:
            self._write(trainer, "on_train_batch_start", self._before)
            self._write(trainer, "on_train_batch_end", self._read(trainer))

    def on_validation_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Log before the first batch, and every so many."""
        self._log_evaluation(trainer, "on_validation_batch_start", batch_idx)

    def on_validation_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Log after it."""
        self._log_evaluation(trainer, "on_validation_batch_end", batch_idx)

    def on_test_batch_start(
        self, trainer: Run, module: Module, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Log before the first batch, and every so many."""
        self._log_evaluation(trainer, "on_test_batch_start", batch_idx)

    def on_test_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Log after it."""
        self._log_evaluation(trainer, "on_test_batch_end", batch_idx)

    def _log_evaluation(self, trainer: Run, hook: str, batch_idx: int) -> None:
        # Rank 0 has every world_size-th batch. Other units than steps say nothing of an evaluation.
        every, index = trainer.log_every_n_steps, batch_idx // trainer.world_size
        is_due = index % every == 0 if isinstance(every, int) and every else index == 0
        if is_due and trainer.is_global_zero and not trainer.sanity_checking:
            self._write(trainer, hook, self._read(trainer))

    def _read(self, trainer: Run) -> dict[str, float]:
        strategy = trainer.strategy
        is_cpu = strategy.device.type == "cpu"
        found: dict[str, float] = {} if is_cpu else strategy.accelerator.stats(strategy.device)
        if self._cpu_stats or (self._cpu_stats is None and is_cpu):
            found |= self._cpu.stats(strategy.device)
        return found

    def _write(self, trainer: Run, hook: str, found: dict[str, float]) -> None:
        named = {f"{type(self).__name__}.{hook}/{name}": value for name, value in found.items()}
        for logger in trainer.loggers if named else ():
            logger.log_metrics(named, trainer.logging_step)
