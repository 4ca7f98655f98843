"""MLFlowLogger: a run of MLflow."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, final

from drivetrain.base.errors import LoggerError
from drivetrain.loggers.hyperparameters import flat
from drivetrain.loggers.logger import Logger, with_prefix
from drivetrain.loggers.package import check_installed
from drivetrain.loggers.saved import Saved, new_checkpoints, on_disk

T = TypeVar("T")

_MOST_PARAMS, _MOST_METRICS = 100, 1000
"""What MLflow takes in one call."""
_REFUSED = re.compile(r"[^\w/. -]", re.ASCII)
_ENDS = {"success": "FINISHED", "failed": "FAILED", "interrupted": "KILLED"}


@final
class MLFlowLogger(Logger):
    """Writes to one run: ``MLFlowLogger("digits", tracking_uri="http://server:5000")``; needs mlflow.

    The store is ``tracking_uri``, else the folder ``save_dir``, else what MLflow itself takes
    (``MLFLOW_TRACKING_URI``, then its default); MLflow 3.7 and newer want a database, such as
    ``"sqlite:///runs.db"``, and use a folder only with ``MLFLOW_ALLOW_FILE_STORE=true``. With ``run_id`` the
    run goes on. Characters that MLflow refuses in names become ``_``. ``log_model="all"`` uploads each
    checkpoint when it is saved, True those that are there at the end. `experiment` is the ``MlflowClient``.

    Raises:
        BuildError [build.package-missing]: mlflow is not installed.
        LoggerError [logger.bad-argument]: an argument has a value that it cannot have.
        LoggerError [logger.name-clash]: two names differ only in characters that MLflow refuses.
    """

    def __init__(  # noqa: PLR0917 - the order that Lightning's users know
        self,
        experiment_name: str = "drivetrain_logs",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, Any] | None = None,
        save_dir: str | os.PathLike[str] | None = None,
        log_model: Literal["all"] | bool = False,
        prefix: str = "",
        artifact_location: str | None = None,
        run_id: str | None = None,
        synchronous: bool | None = None,
    ) -> None:
        check_installed("MLFlowLogger", "mlflow", "mlflow")
        if log_model not in (True, False, "all"):
            raise LoggerError(
                "logger.bad-argument",
                f"MLFlowLogger(log_model={log_model!r})",
                values={"log_model": log_model},
                because="it is True (at the end), 'all' (each) or False",
                hint="leave it out to keep checkpoints where they are",
            )
        self._name, self._run_name, self._tags = experiment_name, run_name, dict(tags or {})
        self._save_dir = None if save_dir is None else os.fspath(save_dir)
        self._uri = tracking_uri
        self._log_model, self._prefix, self._artifact_location = log_model, prefix, artifact_location
        self._run_id = run_id
        self._options = {} if synchronous is None else {"synchronous": synchronous}
        self._experiment_id: str | None = None
        self._is_ended = False
        self._names: dict[str, str] = {}
        """Names as MLflow takes them, with the name that each was."""
        self._waiting: list[Any] = []
        self._seen: dict[str, float] = {}
        self._callback: Any = None

    @property
    def name(self) -> str:
        """The experiment's name."""
        return self._name

    @property
    def version(self) -> str | None:
        """The run's id; None before the run is open, unless it was given."""
        return self._run_id

    @property
    def run_id(self) -> str | None:
        """The `version`, by MLflow's name."""
        return self.version

    @property
    def experiment_id(self) -> str | None:
        """The experiment's number, on rank 0; None before the run is open."""
        return self._experiment_id

    @property
    def save_dir(self) -> str | None:
        """The folder that was given."""
        return self._save_dir

    @property
    def experiment(self) -> Any:
        """The ``mlflow.MlflowClient``; the run is `run_id`."""
        if self._experiment is None:
            from mlflow import MlflowClient

            uri = self._uri
            if uri is None and self._save_dir is not None:
                uri = Path(self._save_dir).absolute().as_uri()
            self._experiment = MlflowClient(tracking_uri=uri)
            self._open()
        return self._experiment

    def _open(self) -> None:
        client = self._experiment
        if self._run_id is not None:
            run = client.get_run(self._run_id)
            self._experiment_id = run.info.experiment_id
            self._is_ended = run.info.status != "RUNNING"
            return
        self._experiment_id = self._find_experiment()
        run = client.create_run(self._experiment_id, tags=self._tags, run_name=self._run_name)
        self._run_id = run.info.run_id

    def _find_experiment(self) -> str:
        from mlflow.exceptions import MlflowException

        client = self._experiment
        found = client.get_experiment_by_name(self._name)
        if found is None:
            try:
                return str(client.create_experiment(self._name, self._artifact_location))
            except MlflowException:
                # Another process may have made it just now.
                found = client.get_experiment_by_name(self._name)
                if found is None:
                    raise
        return str(found.experiment_id)

    def prepare(self, stage: str, resumed_step: int | None) -> None:
        """Open the run, so that every rank knows its id."""
        self.experiment  # noqa: B018 - reading it opens it

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a point of each metric."""
        from mlflow.entities import Metric

        now, at = int(time.time() * 1000), self._at(step)
        named = with_prefix(self._prefix, metrics).items()
        points = [Metric(self._clean(name), float(value), now, at) for name, value in named]
        for some in _parts(points, _MOST_METRICS):
            self._write(metrics=some)

    def log_hyperparams(self, params: Any, metrics: Mapping[str, float] | None = None) -> None:
        """Write them as the run's parameters, which MLflow lets nobody change afterwards."""
        from mlflow.entities import Param

        entries = [Param(self._clean(name), str(value)) for name, value in flat(params).items()]
        for some in _parts(entries, _MOST_PARAMS):
            self._write(params=some)
        if metrics:
            self.log_metrics(metrics)

    def _write(self, **entries: Any) -> None:
        client = self.experiment
        if self._is_ended:
            client.update_run(self._run_id, status="RUNNING")
            self._is_ended = False
        operation = client.log_batch(self._run_id, **entries, **self._options)
        if operation is not None:
            self._waiting.append(operation)

    def _clean(self, name: str) -> str:
        clean = _REFUSED.sub("_", name)
        if (other := self._names.setdefault(clean, name)) != name:
            raise LoggerError(
                "logger.name-clash",
                f"{name!r} and {other!r} are one name for MLflow",
                values={"name": name, "other": other, "for MLflow": clean},
                because="MLflow takes letters, digits and _ - . / and spaces; what else there is becomes _",
                hint="rename one of them",
            )
        return clean

    def save(self) -> None:
        """Wait for what was written with ``synchronous=False``."""
        waiting, self._waiting = self._waiting, []
        for operation in waiting:
            operation.wait()

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Upload the checkpoint with ``log_model="all"``, or remember to do so at the end."""
        self.save()
        self._callback = checkpoint_callback
        if self._log_model == "all":
            self._upload()

    def _upload(self) -> None:
        for saved in new_checkpoints(self._callback, self._seen) if self._callback is not None else []:
            self._upload_one(saved)

    def _upload_one(self, saved: Saved) -> None:
        with on_disk(saved) as path:
            self.experiment.log_artifact(self._run_id, path, "model/checkpoints")

    def finalize(self, status: str) -> None:
        """Upload checkpoints with ``log_model=True``, and tell MLflow how the run ended."""
        self.save()
        if self._log_model is True and status == "success":
            self._upload()
        if self._experiment is not None and not self._is_ended:
            self._experiment.set_terminated(self._run_id, _ENDS[status])
            self._is_ended = True

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what is under way here."""
        return {**super().__getstate__(), "_callback": None, "_waiting": []}


def _parts(entries: list[T], most: int) -> Iterator[list[T]]:
    for start in range(0, len(entries), most):
        yield entries[start : start + most]
