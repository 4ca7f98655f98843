"""ModelCheckpoint: saves every so often, and keeps the best, the newest, or all."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import timedelta
from typing import Any, NamedTuple

import torch

from drivetrain.base.quantity import Quantity
from drivetrain.callbacks.callback import Checkpoint
from drivetrain.callbacks.checkpoint_name import check_template, fill, joined
from drivetrain.callbacks.monitor import Monitor, Reading, validates_within_epochs
from drivetrain.callbacks.on_exception import rescue
from drivetrain.callbacks.own_files import link
from drivetrain.callbacks.refusal import bad_argument, check_flag, check_mode, check_text
from drivetrain.callbacks.say import say
from drivetrain.callbacks.shelf import NOTHING, Shelf
from drivetrain.callbacks.triggers import Triggers, read_interval
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.modules import Module, Run

_FILES: dict[str, Any] = {"traces": {}, "doomed": {}}
_SHELF: dict[str, Any] = {"scores": {}, "newest": "", "last": "", "step": 0, "files": _FILES}
_STATE: dict[str, Any] = {
    "dirpath": "",
    "shelf": _SHELF,
    "current_score": None,
    "is_owed": False,
    "seen_step": 0,
}
"""What a state has, by the kinds of its values; None stands for any."""


class _Save(NamedTuple):
    """What rank 0 has decided, for every rank."""

    reading: Reading
    path: str
    """Of the ranked file; empty for none."""
    last: str


class ModelCheckpoint(Checkpoint):
    """Save the run so that it can go on exactly: ``ModelCheckpoint("runs/a", every_n_train_steps=100)``.

    With ``monitor`` the best ``save_top_k`` stay, by a value that is always that of the saved weights: where
    validation logs it, a save that is due waits for the next validation's end (``save_last`` does not wait).
    ``save_last`` keeps ``last.ckpt``: the newest of what is saved, and at the fit's end what the fit came to.
    Without ``monitor`` the newest stay. -1 keeps all, 0 only ``last``. Only files that this run wrote are
    ever removed or replaced, and each only after the next is whole; a name that is taken gets ``-v1``.

    ``every_n_train_steps``, ``every_n_epochs`` and ``train_time_interval`` may be combined, and take texts
    with a unit: ``"500 steps"``, ``"0.5 epochs"``, ``"1e6 samples"``, ``"30 min"``; by default, each epoch.
    ``save_on_train_epoch_end`` says whether intervals in epochs save at epochs' ends (True) or at each
    validation's (False); by default at epochs' ends, and where validations lie within epochs also at those.

    Collectives:
        at each save, one object of some bytes beside those of saving itself; with an interval in time, a
        broadcast of 16 bytes every few seconds. Every rank must call.
    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.monitor]: nothing logged ``monitor``, at the end of an epoch that could have.
    """

    CHECKPOINT_JOIN_CHAR = "-"
    CHECKPOINT_EQUALS_CHAR = "="
    CHECKPOINT_NAME_LAST = "last"
    FILE_EXTENSION = ".ckpt"
    STARTING_VERSION = 1

    def __init__(
        self,
        dirpath: str | os.PathLike[str] | None = None,
        filename: str | None = None,
        monitor: str | None = None,
        verbose: bool = False,
        save_last: bool | str | None = None,
        save_top_k: int = 1,
        *,
        save_weights_only: bool = False,
        save_on_exception: bool = False,
        mode: str = "min",
        auto_insert_metric_name: bool = True,
        every_n_train_steps: int | str | Quantity | None = None,
        every_n_epochs: int | str | Quantity | None = None,
        train_time_interval: timedelta | str | Quantity | None = None,
        save_on_train_epoch_end: bool | None = None,
        enable_version_counter: bool = True,
    ) -> None:
        self.dirpath = None if dirpath is None else os.fspath(dirpath)
        self.filename = check_template(self, "filename", "{epoch}-{step}" if filename is None else filename)
        self.monitor, self.mode = monitor, check_mode(self, mode)
        self.verbose = check_flag(self, "verbose", verbose)
        self.save_last, self.save_top_k = save_last, save_top_k
        self.save_weights_only = check_flag(self, "save_weights_only", save_weights_only)
        self.auto_insert_metric_name = check_flag(self, "auto_insert_metric_name", auto_insert_metric_name)
        self._save_on_exception = check_flag(self, "save_on_exception", save_on_exception)
        self._counts_versions = check_flag(self, "enable_version_counter", enable_version_counter)
        self._at_epoch_end = save_on_train_epoch_end
        self._check()
        given = {
            "every_n_train_steps": read_interval(self, "every_n_train_steps", every_n_train_steps, "steps"),
            "every_n_epochs": read_interval(self, "every_n_epochs", every_n_epochs, "epochs"),
            "train_time_interval": read_interval(self, "train_time_interval", train_time_interval, "seconds"),
        }
        if every_n_train_steps is every_n_epochs is train_time_interval is None:
            given["every_n_epochs"] = Quantity("epochs", 1)
        intervals = {name: one for name, one in given.items() if one is not None}
        if not intervals and not save_on_exception:
            raise bad_argument(self, "every_n_epochs", every_n_epochs, "0 only where something else saves")
        self._intervals = {name: str(one) for name, one in intervals.items()}
        self._triggers = Triggers(type(self).__name__, intervals)
        self._watch = None if monitor is None else Monitor(monitor, type(self).__name__)
        self._default_dirpath = ""
        self._forget()
        is_own_hook = type(self).on_train_batch_end is ModelCheckpoint.on_train_batch_end
        if is_own_hook and not self._triggers.within_epochs:
            # What has nothing to do there is not called there, as if nobody overrode the hook.
            vars(self)["on_train_batch_end"] = super().on_train_batch_end

    def _check(self) -> None:
        if self.monitor is not None:
            check_text(self, "monitor", self.monitor, "the name of a logged value, or None")
        if type(self.save_top_k) is not int or self.save_top_k < -1:
            raise bad_argument(self, "save_top_k", self.save_top_k, "how many stay, -1 (all) or 0 (none)")
        if self.save_last not in (True, False, None, "link"):
            raise bad_argument(self, "save_last", self.save_last, "True, False or 'link'")
        if self._at_epoch_end is not None:
            check_flag(self, "save_on_train_epoch_end", self._at_epoch_end)

    def _forget(self) -> None:
        """Begin as a run that has saved nothing."""
        self._shelf = Shelf(self.save_top_k, self.mode if self.monitor else "")
        self._current: float | None = None
        self._seen_step = -1
        self._is_owed = False
        """Whether a save was due for which there was no new value yet."""
        self._is_fitting = self._is_resumed = False

    @property
    def state_key(self) -> str:
        """The class and what tells two of them in one run apart."""
        said = {"monitor": self.monitor, "mode": self.mode, **self._intervals, "filename": self.filename}
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    @property
    def best_model_path(self) -> str:
        """The best file; without ``monitor`` the newest of those that stay. Empty before the first."""
        return self._shelf.ranking.best

    @property
    def best_model_score(self) -> torch.Tensor | None:
        """The value of ``monitor`` that the best file has."""
        best = self.best_model_path if self.monitor else ""
        return self.best_k_models[best] if best else None

    @property
    def best_k_models(self) -> dict[str, torch.Tensor]:
        """The files that stay, each with its value of ``monitor``; empty without one."""
        scores = self._shelf.ranking.scores if self.monitor else {}
        return {path: torch.tensor(score, dtype=torch.float64) for path, score in scores.items()}

    @property
    def kth_best_model_path(self) -> str:
        """The file that the next better one replaces; empty while there is room."""
        return self._shelf.ranking.worst if self.monitor else ""

    @property
    def kth_value(self) -> torch.Tensor:
        """The value that has to be bettered; while there is room, one that everything betters."""
        path = self.kth_best_model_path
        nothing = float("inf") if self.mode == "min" else float("-inf")
        return self.best_k_models[path] if path else torch.tensor(nothing, dtype=torch.float64)

    @property
    def current_score(self) -> torch.Tensor | None:
        """The value of ``monitor`` that the newest decision was made by."""
        return None if self._current is None else torch.tensor(self._current, dtype=torch.float64)

    @property
    def last_model_path(self) -> str:
        """The file that ``save_last`` keeps; without it the newest file."""
        return self._shelf.last or self._shelf.newest

    @property
    def newest_model_path(self) -> str:
        """The file that was written newest; where ``last`` has the same state, the ranked one."""
        return self._shelf.newest

    def state_dict(self) -> dict[str, Any]:
        """Return which files are this run's, and what they are worth."""
        names = ("best_model_path", "best_model_score", "kth_best_model_path", "kth_value", "current_score")
        said = {name: getattr(self, name) for name in (*names, "monitor", "dirpath", "last_model_path")}
        seen_step = -1 if self._watch is None else self._watch.step
        return {
            **said,
            "shelf": self._shelf.state_dict(),
            "is_owed": self._is_owed,
            "seen_step": seen_step,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take up which files are this run's; those of another folder are left alone from now on.

        So are those that Lightning's callback of this name saved: they count among the best, and stay.
        """
        if "best_k_models" in state_dict:
            state_dict = _of_lightning(state_dict)
        Entry(state_dict, "", f"callbacks.{self.state_key}").check_like(_STATE)
        self._shelf.load_state_dict(state_dict["shelf"], owns=state_dict["dirpath"] == self.dirpath)
        current = state_dict["current_score"]
        self._current = None if current is None else float(current)
        self._is_owed, self._seen_step = state_dict["is_owed"], state_dict["seen_step"]
        self._is_resumed = True

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Find the folder; a fit begins with no file that is its own, unless a checkpoint says so."""
        if stage != "fit":
            return
        if self.dirpath is None or self.dirpath == self._default_dirpath:
            self.dirpath = self._default_dirpath = self._folder_of(trainer)
        if self.save_last == "link" and "://" in self.dirpath:
            raise bad_argument(
                self, "save_last", "link", f"True or False where the folder is remote: {self.dirpath}"
            )
        self._forget()

    def earlier_folder(self, root: str) -> str | None:
        """Return the folder: ``dirpath``, or where it is by default."""
        return self.dirpath or joined(root, "checkpoints")

    def _folder_of(self, trainer: Run) -> str:
        """Return the folder where the user named none, on every rank the same."""
        return joined(trainer.default_root_dir, "checkpoints")

    def on_train_start(self, trainer: Run, module: Module) -> None:
        """Start to count; after a resume, look which files are still there."""
        self._is_fitting = True
        self._triggers.begin(trainer, module)
        if self._watch is not None:
            self._watch.begin(trainer, self._seen_step)
        if self._is_resumed:
            here = self._shelf.look_again() if trainer.is_global_zero else NOTHING
            self._shelf.keep(trainer.collectives.broadcast_object(here))
            self._sweep(trainer)

    def on_train_batch_end(
        self, trainer: Run, module: Module, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save if an interval in steps, samples, parts of epochs or time has ended."""
        if self._triggers.after_batch(trainer, batch_idx):
            self._act(trainer, is_due=True)

    def on_validation_end(self, trainer: Run, module: Module) -> None:
        """Save what waited for the validation, or what is saved at each."""
        if not self._is_fitting or trainer.sanity_checking:
            return
        if self._watch is not None:
            self._watch.note_validation()
        is_moment = not self._at_epoch_end and (
            self._at_epoch_end is False or validates_within_epochs(trainer)
        )
        self._act(trainer, is_due=is_moment and self._triggers.after_epoch(trainer))

    def on_train_epoch_end(self, trainer: Run, module: Module) -> None:
        """Save every so many epochs, or what waited for the epoch's values."""
        is_due = self._at_epoch_end is not False and self._triggers.after_epoch(trainer)
        # Where validations lie within the epoch they were due too: nothing more to wait for.
        is_second = is_due and self._at_epoch_end is None and validates_within_epochs(trainer)
        is_due = is_due and not (is_second and self._shelf.step == trainer.global_step)
        self._act(trainer, is_due=is_due, may_wait=not is_second, is_epoch_end=True)

    def on_train_end(self, trainer: Run, module: Module) -> None:
        """Save ``last`` as the fit ends; remove what could not be removed before; say what never came."""
        self._save_end(trainer)
        self._sweep(trainer)
        self._is_fitting = False
        if self._is_owed and self._watch is not None and self._watch.look_here(trainer).value is None:
            say(trainer, f"{type(self).__name__}: the run ended before anything logged {self.monitor!r}")

    def _save_end(self, trainer: Run) -> None:
        """Save ``last`` once more, unless it has this step: no interval may have ended in a short fit."""
        shelf, step = self._shelf, trainer.global_step
        has_it = step == 0 or (shelf.last and shelf.step == step)
        # After a signal there is little time, and the run has saved itself.
        if not self.save_last or has_it or trainer.fast_dev_run or trainer.is_leaving:
            return
        here = self._place_last(trainer) if trainer.is_global_zero else None
        path = trainer.collectives.broadcast_object(here)
        assert path is not None  # noqa: S101 - rank 0 has one
        try:
            self._write(trainer, _Save(Reading(None, is_current=False), "", path))
        finally:
            shelf.claims.release()

    def _place_last(self, trainer: Run) -> str:
        return self._shelf.place_last(
            lambda version: self._path(trainer, version, self.CHECKPOINT_NAME_LAST), self._first_version
        )

    def on_exception(self, trainer: Run, module: Module, exception: BaseException) -> None:
        """Save what can be saved, with ``save_on_exception``."""
        wanted = self._save_on_exception and self._is_fitting and self._shelf.step != trainer.global_step
        self._is_fitting = False
        if wanted and trainer.is_global_zero and not trainer.fast_dev_run:
            shelf = self._shelf
            path = shelf.free(lambda version: self._path(trainer, version), (), self._first_version)
            if rescue(trainer, path, exception, weights_only=self.save_weights_only):
                shelf.newest, shelf.step = path, trainer.global_step
            shelf.claims.release()

    def _act(self, trainer: Run, *, is_due: bool, may_wait: bool = True, is_epoch_end: bool = False) -> None:
        """Save if it is due, or was; with a monitor, once its value is that of the weights of now."""
        watch = self._watch
        if not is_due and not self._is_owed:
            if watch is not None:
                watch.mark(trainer)
            return
        here = self._decide(trainer, is_due=is_due) if trainer.is_global_zero else None
        found: _Save | None = trainer.collectives.broadcast_object(here)
        assert found is not None  # noqa: S101 - rank 0 has one
        try:
            if watch is not None:
                value, is_current = found.reading
                if value is None and is_epoch_end and watch.has_had_its_chance(trainer):
                    raise watch.missing(trainer)
                self._is_owed = not is_current and (self._is_owed or may_wait)
                self._current = value if is_current else self._current
                watch.mark(trainer)
            self._write(trainer, found)
        finally:
            self._shelf.claims.release()

    def _decide(self, trainer: Run, *, is_due: bool) -> _Save:
        """Return, on rank 0, what is to be written where."""
        reading = Reading(0.0, is_current=True) if self._watch is None else self._watch.look_here(trainer)
        path = last = ""
        if trainer.fast_dev_run:
            return _Save(reading, path, last)  # it tries everything and leaves no file
        if reading.is_current and reading.value is not None:
            path = self._shelf.place(
                trainer.global_step,
                reading.value,
                lambda version: self._path(trainer, version),
                self._first_version,
            )
        if self.save_last and (is_due or reading.is_current):
            last = self._place_last(trainer)
        return _Save(reading, path, "" if last == path else last)

    def _write(self, trainer: Run, save: _Save) -> None:
        if not save.path and not save.last:
            return
        shelf, is_zero = self._shelf, trainer.is_global_zero
        before = shelf.state_dict()
        shelf.take(trainer.global_step, save.path, save.reading.value or 0.0, save.last)
        try:
            for path in filter(None, (save.path, save.last)):
                is_deferred = trainer.strategy.checkpoint_io.is_deferred
                with shelf.files.writing(path, is_deferred=is_deferred) if is_zero else nullcontext():
                    if self.save_last == "link" and path == save.last and save.path:
                        link(trainer, save.path, path)
                    else:
                        trainer.save_checkpoint(path, self.save_weights_only)
        except BaseException:
            shelf.load_state_dict(before, owns=True)  # what was there is what there is
            raise
        shelf.claims.release()
        for logger in trainer.loggers:
            after = getattr(logger, "after_save_checkpoint", None)
            if after is not None:
                after(self)
        if self.verbose:
            value = (
                f", {self.monitor}={save.reading.value:.5g}"
                if self._watch and save.reading.is_current
                else ""
            )
            files = " and ".join(filter(None, (save.path, save.last)))
            say(trainer, f"epoch {trainer.current_epoch}, step {trainer.global_step}{value}: saved {files}")
        self._sweep(trainer)

    def _sweep(self, trainer: Run) -> None:
        if trainer.is_global_zero:
            self._shelf.files.sweep(trainer.strategy.checkpoint_io, self._shelf.newest)

    @property
    def _first_version(self) -> int | None:
        return self.STARTING_VERSION if self._counts_versions else None

    def _path(self, trainer: Run, version: int | None, template: str | None = None) -> str:
        counters = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        return self.format_checkpoint_name({**trainer.callback_metrics, **counters}, template, version)

    def format_checkpoint_name(
        self,
        metrics: Mapping[str, Any],
        filename: str | None = None,
        ver: int | None = None,
        prefix: str | None = None,
    ) -> str:
        """Return the path of a checkpoint that has these values."""
        name = fill(
            filename or self.filename,
            metrics,
            equals=self.CHECKPOINT_EQUALS_CHAR,
            insert_names=self.auto_insert_metric_name,
        )
        parts = [prefix, name, None if ver is None else f"v{ver}"]
        name = self.CHECKPOINT_JOIN_CHAR.join(part for part in parts if part) + self.FILE_EXTENSION
        return joined(self.dirpath, name) if self.dirpath else name

    def to_yaml(self, filepath: str | os.PathLike[str] | None = None) -> None:
        """Write the files that stay, each with its value; by default ``best_k_models.yaml`` beside them."""
        import fsspec

        path = joined(self.dirpath or "", "best_k_models.yaml") if filepath is None else os.fspath(filepath)
        lines = [
            f"{json.dumps(name)}: {_number(float(score))}\n" for name, score in self.best_k_models.items()
        ]
        with fsspec.open(path, "w") as file:
            file.write("".join(lines) or "{}\n")


def _number(value: float) -> str:
    """Return a number as YAML writes it."""
    return repr(value) if math.isfinite(value) else f".{value}".replace(".-", "-.")


def _of_lightning(state_dict: Mapping[str, Any]) -> dict[str, Any]:
    """Return a state of Lightning's ModelCheckpoint in our form."""
    scores = {str(path): float(score) for path, score in state_dict["best_k_models"].items()}
    shelf = {"scores": scores, "newest": "", "last": "", "step": -1, "files": {"traces": {}, "doomed": {}}}
    dirpath = str(state_dict["dirpath"])
    return {**state_dict, "dirpath": dirpath, "shelf": shelf, "is_owed": False, "seen_step": -1}
