"""WandbLogger: a run of Weights & Biases."""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

import torch

from drivetrain.base.errors import LoggerError
from drivetrain.loggers.hyperparameters import plain
from drivetrain.loggers.logger import Logger, with_prefix
from drivetrain.loggers.package import check_installed
from drivetrain.loggers.saved import Saved, new_checkpoints, on_disk

_STEP = "trainer/global_step"
_MADE: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
"""Runs that loggers of this process opened, by id: one that is not among them is the user's."""


@final
class WandbLogger(Logger):
    """Writes to one run: ``WandbLogger(project="digits")``; needs wandb.

    The run is ``experiment`` if given, else the one that the user opened by ``wandb.init`` (as sweeps do),
    else a new one, or the one of ``id``. It stays open after a fit, for what comes then, and ends with
    the process or by ``logger.experiment.finish()``. Optimizer steps are ``trainer/global_step``, since
    wandb's own step counts calls. ``log_model="all"`` uploads each checkpoint when it is saved, True those
    that are there at the end. ``kwargs`` go to ``wandb.init``.

    Raises:
        BuildError [build.package-missing]: wandb is not installed.
        LoggerError [logger.bad-argument]: two arguments for one thing, or a value that it cannot have.
    """

    def __init__(  # noqa: PLR0917 - the order that Lightning's users know
        self,
        name: str | None = None,
        save_dir: str | os.PathLike[str] = ".",
        version: str | None = None,
        offline: bool = False,
        dir: str | os.PathLike[str] | None = None,  # noqa: A002 - wandb's name
        id: str | None = None,  # noqa: A002 - wandb's name
        project: str | None = None,
        log_model: Literal["all"] | bool = False,
        experiment: Any = None,
        prefix: str = "",
        checkpoint_name: str | None = None,
        **kwargs: Any,
    ) -> None:
        check_installed("WandbLogger", "wandb", "wandb")
        if log_model not in (True, False, "all"):
            raise _bad("log_model", log_model, "True (at the end), 'all' (each) or False")
        if version is not None and id is not None and version != id:
            raise _bad("version", version, f"the run's id, which is id={id!r}")
        self._id = version if id is None else id
        self._save_dir = os.fspath(save_dir if dir is None else dir)
        self._log_model, self._prefix, self._checkpoint_name = log_model, prefix, checkpoint_name
        mode = {"mode": "offline"} if offline else {}
        resume = {"id": self._id, "resume": "allow"} if self._id is not None else {}
        self._given = {"name": name, "project": project, "dir": self._save_dir, **mode, **resume, **kwargs}
        self._project, self._experiment = project, experiment
        self._is_set_up = False
        self._seen: dict[str, float] = {}
        self._callback: Any = None

    @property
    def name(self) -> str | None:
        """The project."""
        return self._project if self._experiment is None else str(self._experiment.project)

    @property
    def version(self) -> str | None:
        """The run's id; None before the run is open, unless it was given."""
        return self._id if self._experiment is None else str(self._experiment.id)

    @property
    def save_dir(self) -> str:
        """The folder that holds wandb's."""
        return self._save_dir

    @property
    def experiment(self) -> Any:
        """The ``wandb.Run``."""
        if self._experiment is None:
            self._experiment = self._opened()
        if not self._is_set_up:
            self._is_set_up = True
            self._experiment.define_metric(_STEP)
            self._experiment.define_metric("*", step_metric=_STEP, step_sync=True)
        return self._experiment

    def _opened(self) -> Any:
        import wandb

        active = wandb.run
        if active is not None:
            is_the_users = active.id not in _MADE
            if active.id == self._id or (self._id is None and is_the_users):
                return active
        Path(self._save_dir).mkdir(parents=True, exist_ok=True)
        # Beside a run that is open, wandb would by default hand that one out, and mix the two.
        beside = {} if active is None else {"reinit": "create_new"}
        run = wandb.init(**{**beside, **self._given})
        _MADE[run.id] = run
        return run

    def prepare(self, stage: str, resumed_step: int | None) -> None:
        """Open the run, so that every rank knows its id."""
        self.experiment  # noqa: B018 - reading it opens it

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a row of the run's history."""
        self.experiment.log({**with_prefix(self._prefix, metrics), _STEP: self._at(step)})

    def log_hyperparams(self, params: Any, metrics: Mapping[str, float] | None = None) -> None:
        """Put them into the run's config; ``metrics`` into its summary."""
        self.experiment.config.update(plain(params), allow_val_change=True)
        if metrics:
            self.experiment.summary.update(with_prefix(self._prefix, metrics))

    def watch(
        self,
        model: torch.nn.Module,
        log: str | None = "gradients",
        log_freq: int = 100,
        log_graph: bool = True,
    ) -> None:
        """Have wandb write histograms of gradients, parameters or both (``all``) every ``log_freq`` steps."""
        self.experiment.watch(model, log=log, log_freq=log_freq, log_graph=log_graph)

    def unwatch(self, model: torch.nn.Module) -> None:
        """End `watch`."""
        self.experiment.unwatch(model)

    def log_table(
        self,
        key: str,
        columns: list[str] | None = None,
        data: list[list[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
    ) -> None:
        """Write a table, of rows or of a pandas DataFrame; cells are texts, numbers or wandb's media."""
        import wandb

        self._log_media({key: wandb.Table(columns=columns, data=data, dataframe=dataframe)}, step)

    def log_text(
        self,
        key: str,
        columns: list[str] | None = None,
        data: list[list[str]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
    ) -> None:
        """Write texts, as a table."""
        self.log_table(key, columns, data, dataframe, step)

    def log_image(self, key: str, images: Sequence[Any], step: int | None = None, **kwargs: Any) -> None:
        """Write images: tensors, arrays, PIL images or paths; each of ``kwargs`` has one value an image."""
        import wandb

        self._log_media({key: _each(wandb.Image, "images", images, kwargs)}, step)

    def log_audio(self, key: str, audios: Sequence[Any], step: int | None = None, **kwargs: Any) -> None:
        """Write sounds: arrays or paths; each of ``kwargs`` has one value a sound."""
        import wandb

        self._log_media({key: _each(wandb.Audio, "audios", audios, kwargs)}, step)

    def log_video(self, key: str, videos: Sequence[Any], step: int | None = None, **kwargs: Any) -> None:
        """Write videos: arrays or paths; each of ``kwargs`` has one value a video."""
        import wandb

        self._log_media({key: _each(wandb.Video, "videos", videos, kwargs)}, step)

    def _log_media(self, media: dict[str, Any], step: int | None) -> None:
        self.experiment.log({**media, _STEP: self._at(step)})

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Upload the checkpoint with ``log_model="all"``, or remember to do so at the end."""
        self._callback = checkpoint_callback
        if self._log_model == "all":
            self._upload()

    def finalize(self, status: str) -> None:
        """Upload the checkpoints that are there, with ``log_model=True``; the run stays open."""
        if self._log_model is True and status == "success":
            self._upload()

    def _upload(self) -> None:
        for saved in new_checkpoints(self._callback, self._seen) if self._callback is not None else []:
            self._upload_one(saved)

    def _upload_one(self, saved: Saved) -> None:
        import wandb

        details = {} if saved.score is None else {"score": saved.score}
        metadata = {"original_filename": saved.name, **details}
        run = self.experiment
        artifact = wandb.Artifact(self._checkpoint_name or f"model-{run.id}", "model", metadata=metadata)
        with on_disk(saved) as path:
            artifact.add_file(path, name="model.ckpt")
            run.log_artifact(artifact, aliases=list(saved.aliases))

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the callback that saves there too."""
        return {**super().__getstate__(), "_callback": None, "_is_set_up": False}


def _each(kind: Any, what: str, items: Sequence[Any], kwargs: Mapping[str, Sequence[Any]]) -> list[Any]:
    for name, values in kwargs.items():
        if len(values) != len(items):
            raise _bad(name, values, f"a list of {len(items)}, one for each of the {what}")
    return [
        kind(item, **{name: values[i] for name, values in kwargs.items()}) for i, item in enumerate(items)
    ]


def _bad(name: str, value: object, because: str) -> LoggerError:
    return LoggerError(
        "logger.bad-argument",
        f"WandbLogger: {name}={value!r}",
        values={name: value},
        because=f"{name} is {because}",
        hint="leave it out for the default",
    )
