"""ModelCheckpoint: saves every n steps or epochs."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, final

from drivetrain.base.errors import ModuleError
from drivetrain.callbacks.callback import Callback
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from drivetrain.modules import Module, Run

_FIELD = re.compile(r"\{(\w+)(:[^}]*)?\}")


@final
class ModelCheckpoint(Callback):
    """Save the run so that it can go on exactly: ``ModelCheckpoint("runs/a", every_n_train_steps=100)``.

    Files are named ``epoch=3-step=400.ckpt``, or by ``filename`` with ``{epoch}``, ``{step}`` and logged
    names in braces. With ``save_top_k=1`` the newest replaces the one before, -1 keeps all; only files that
    this run wrote are ever removed, and each only after the next is whole.
    """

    is_last = True

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        *,
        every_n_train_steps: int | None = None,
        every_n_epochs: int | None = None,
        save_last: bool = False,
        save_top_k: int = 1,
        save_weights_only: bool = False,
    ) -> None:
        if every_n_train_steps is None and every_n_epochs is None:
            every_n_epochs = 1
        for name, value in (("every_n_train_steps", every_n_train_steps), ("every_n_epochs", every_n_epochs)):
            if value is not None and (type(value) is not int or value < 1):
                raise _bad(name, value, "an int of 1 or more, or None")
        if save_top_k not in (-1, 0, 1):
            raise _bad("save_top_k", save_top_k, "1 (the newest), -1 (all) or 0 (none but last)")
        self.dirpath = None if dirpath is None else os.fspath(dirpath)
        self.filename = filename or "{epoch}-{step}"
        self.last_model_path = ""
        """The newest file."""
        self._steps, self._epochs = every_n_train_steps, every_n_epochs
        self._save_last, self._keep, self._weights_only = save_last, save_top_k, save_weights_only
        self._previous = ""
        self._saved_step = -1

    @property
    def state_key(self) -> str:
        """The class and what tells two of them in one run apart."""
        period = f"every_n_train_steps={self._steps}, every_n_epochs={self._epochs}"
        return f"ModelCheckpoint({period}, filename={self.filename!r})"

    def state_dict(self) -> dict[str, Any]:
        """Return which files are this run's."""
        return {"last_model_path": self.last_model_path, "previous": self._previous}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up which files are this run's."""
        self.last_model_path, self._previous = state_dict["last_model_path"], state_dict["previous"]

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Begin: nothing is saved of this run yet."""
        self._saved_step = -1

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save every ``every_n_train_steps`` steps."""
        step = trainer.global_step
        if self._steps is not None and step % self._steps == 0 and step != self._saved_step:
            self._saved_step = step
            self._save(trainer)

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Save every ``every_n_epochs`` epochs."""
        if self._epochs is not None and (trainer.current_epoch + 1) % self._epochs == 0:
            self._save(trainer)

    def _save(self, trainer: Run) -> None:
        folder = self.dirpath or os.path.join(trainer.default_root_dir, "checkpoints")  # noqa: PTH118 - may be a remote path
        older = self._previous
        if self._keep:
            path = os.path.join(folder, f"{self._name(trainer)}.ckpt")  # noqa: PTH118 - as above
            # What is written says of itself that it is the newest, so that a resumed run knows its files.
            self._previous = self.last_model_path = path
            trainer.save_checkpoint(path, self._weights_only)
        if self._save_last:
            path = os.path.join(folder, "last.ckpt")  # noqa: PTH118 - as above
            self.last_model_path = path if not self._keep else self.last_model_path
            trainer.save_checkpoint(path, self._weights_only)
        if self._keep == 1 and older and older != self._previous and trainer.is_global_zero:
            LocalCheckpointIO().remove(older)

    def _name(self, trainer: Run) -> str:
        values: dict[str, Any] = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        metrics = trainer.callback_metrics

        def fill(match: re.Match[str]) -> str:
            name, form = match[1], match[2] or ""
            value = (
                values[name] if name in values else float(metrics[name]) if name in metrics else float("nan")
            )
            return f"{name}={value:{form[1:]}}"

        return _FIELD.sub(fill, self.filename)


def _bad(name: str, value: object, because: str) -> ModuleError:
    return ModuleError(
        "callback.bad-argument",
        f"ModelCheckpoint({name}={value!r})",
        values={name: value},
        because=f"{name} is {because}",
        hint="leave it out for the default: the newest checkpoint, after every epoch",
    )


def newest_path(callbacks: list[Any]) -> str | None:
    """Return the newest file that a ModelCheckpoint among the callbacks wrote, or None."""
    found = [callback.last_model_path for callback in callbacks if isinstance(callback, ModelCheckpoint)]
    return next((path for path in found if path and ("://" in path or Path(path).exists())), None)
