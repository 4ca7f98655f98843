"""CSVLogger: metrics.csv and hparams.yaml in a folder of the run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from drivetrain.base.errors import LoggerError
from drivetrain.loggers.folder import Place
from drivetrain.loggers.hyperparameters import as_yaml, plain
from drivetrain.loggers.logger import Logger, with_prefix
from drivetrain.loggers.table import Table

METRICS = "metrics.csv"
HYPERPARAMETERS = "hparams.yaml"


class CSVLogger(Logger):
    """Writes ``save_dir/name/version_N/metrics.csv``, one row a step: ``CSVLogger("runs")``.

    Rows reach the file every ``flush_logs_every_n_steps`` steps, at `save` and at the end. A version that
    is named, and is there already, is written to only by a fit that resumes it, or by an evaluation.
    Paths with a protocol (``memory://``, ``s3://``) go through fsspec; each flush then stores the whole file.

    Raises:
        LoggerError [logger.bad-argument]: an argument has a value that it cannot have.
        LoggerError [logger.version-exists]: at the fit, the named version holds another run.
    """

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "drivetrain_logs",
        version: int | str | None = None,
        prefix: str = "",
        flush_logs_every_n_steps: int = 100,
    ) -> None:
        if type(flush_logs_every_n_steps) is not int or flush_logs_every_n_steps < 1:
            raise LoggerError(
                "logger.bad-argument",
                f"CSVLogger(flush_logs_every_n_steps={flush_logs_every_n_steps!r})",
                values={"flush_logs_every_n_steps": flush_logs_every_n_steps},
                because="it is an int of 1 or more",
                hint="leave it out for 100",
            )
        self._place = Place("CSVLogger", save_dir, name, version)
        self._prefix, self._flush_every = prefix, flush_logs_every_n_steps
        self._hparams: dict[str, Any] = {}
        self._is_hparams_written = False
        self._flushed_at: int | None = None
        self._is_mine = not self._place.is_named
        """Whether this version's files are this object's, or may be gone on with."""

    @property
    def name(self) -> str:
        """The folder of all versions, in `save_dir`."""
        return self._place.name

    @property
    def version(self) -> int | str:
        """The number that no run had before, or what was given."""
        return self._place.version

    @property
    def save_dir(self) -> str:
        """The folder that was given."""
        return self._place.save_dir

    @property
    def root_dir(self) -> str:
        """``save_dir/name``."""
        return self._place.root.path

    @property
    def log_dir(self) -> str:
        """``save_dir/name/version_N``; a version that is a text is the folder's name."""
        return self._place.folder.path

    @property
    def experiment(self) -> Table:
        """The file, as it grows."""
        if self._experiment is None:
            self._experiment = Table(self._place.folder, METRICS)
        table: Table = self._experiment
        return table

    def prepare(self, stage: str, resumed_step: int | None) -> None:
        """Take the folder, and go on with what a resumed run wrote."""
        if not self._is_mine:
            is_new_fit = stage == "fit" and resumed_step is None
            if is_new_fit:
                self._refuse_another_runs()
            self.experiment.go_on(resumed_step)
            self._is_mine = True
        self._place.folder.make()

    def _refuse_another_runs(self) -> None:
        there = [name for name in (METRICS, HYPERPARAMETERS) if name in self._place.folder.names()]
        if there:
            raise self._place.refuse(there)

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Add to the row of the step."""
        now = self._at(step)
        self.experiment.add(now, with_prefix(self._prefix, metrics))
        if self._flushed_at is None:
            self._flushed_at = now
        if now - self._flushed_at >= self._flush_every:
            self.save()

    def log_hyperparams(self, params: Any, metrics: Mapping[str, float] | None = None) -> None:
        """Keep them for ``hparams.yaml``; ``metrics`` go into the table."""
        self._hparams |= plain(params)
        self._is_hparams_written = False
        if metrics:
            self.log_metrics(metrics)

    def save(self) -> None:
        """Write what is not written yet."""
        if not self._is_mine:
            self._refuse_another_runs()
            self._is_mine = True
        if self._hparams and not self._is_hparams_written:
            self._place.folder.write(HYPERPARAMETERS, as_yaml(self._hparams).encode())
            self._is_hparams_written = True
        self.experiment.flush()
        self._flushed_at = self._newest_step
