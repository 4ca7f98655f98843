"""OnExceptionCheckpoint: saves a run that stops with an exception."""

from __future__ import annotations

import os
from typing import final

from drivetrain.callbacks.callback import Checkpoint
from drivetrain.callbacks.checkpoint_name import joined
from drivetrain.callbacks.refusal import check_text
from drivetrain.callbacks.say import say
from drivetrain.modules import Module, Run


@final
class OnExceptionCheckpoint(Checkpoint):
    """Write ``dirpath/filename.ckpt`` when a fit stops with an exception, KeyboardInterrupt included.

    With one rank the file has everything, and a resumed run repeats the step that was cut short; what that
    step drew from the random generators before it failed is not taken back. With several ranks the others
    may be gone or wait elsewhere, so rank 0 writes by itself what it has: weights, optimizer, counters,
    data position, but not the other ranks' random state nor what the epoch had logged. Where ranks hold
    parts of the model, or rank 0 itself was killed, nothing can be written. A line on standard error says
    which it was; the exception stays what it was.
    """

    FILE_EXTENSION = ".ckpt"

    def __init__(self, dirpath: str | os.PathLike[str], filename: str = "on_exception") -> None:
        self.dirpath = os.fspath(dirpath)
        self.filename = check_text(self, "filename", filename, "a file's name without its extension")
        self._is_fitting = False

    @property
    def ckpt_path(self) -> str:
        """The file; an older one there is replaced."""
        return joined(self.dirpath, self.filename + self.FILE_EXTENSION)

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Nothing can be saved yet."""
        self._is_fitting = False

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """From here on there is a state to save."""
        self._is_fitting = True

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """The run has come to its end; whatever fails now is no loss of training."""
        self._is_fitting = False

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Save what can be saved."""
        was_fitting, self._is_fitting = self._is_fitting, False
        if was_fitting and not trainer.fast_dev_run:
            rescue(trainer, self.ckpt_path, exception)


def rescue(trainer: Run, path: str, exception: BaseException, *, weights_only: bool = False) -> bool:
    """Write on rank 0 what can be written without asking another rank, and say what it is.

    Nothing is raised: the exception that the run stops with must stay the one that is seen.
    """
    if not trainer.is_global_zero:
        return False
    why = type(exception).__name__
    strategy = trainer.strategy
    is_whole = strategy.is_whole_everywhere or (
        weights_only and strategy.has_whole_model and strategy.keeps_ranks_alike
    )
    if trainer.world_size > 1 and not is_whole:
        say(trainer, f"{why}: nothing is saved, since each rank holds a part and the others cannot be asked")
        return False
    try:
        trainer.strategy.checkpoint_io.wait()
    except Exception as failure:  # noqa: BLE001 - as below
        say(trainer, f"{why}: an earlier checkpoint was not written: {failure}")
    try:
        trainer.save_checkpoint(path, weights_only, alone=True)
    except Exception as failure:  # noqa: BLE001 - whatever it is, the first exception must not be hidden
        say(trainer, f"{why}: could not save {path}: {failure}")
        return False
    lacks = ", without the ranks' random state and the epoch's logged sums" if trainer.world_size > 1 else ""
    say(trainer, f"{why} at step {trainer.global_step}: saved {path}{lacks}")
    return True
