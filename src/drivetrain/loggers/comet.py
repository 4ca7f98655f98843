"""CometLogger: an experiment of Comet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, final

import torch

from drivetrain.base.errors import LoggerError
from drivetrain.loggers.hyperparameters import flat
from drivetrain.loggers.logger import Logger, with_prefix
from drivetrain.loggers.package import check_installed

_MODES = ("get", "create", "get_or_create")


@final
class CometLogger(Logger):
    """Writes to one experiment: ``CometLogger(project="digits")``; needs comet_ml.

    With ``online=False`` it goes into a zip file, which ``comet upload`` sends; ``offline_directory`` among
    ``kwargs`` says where. The experiment stays open after a fit, for what comes then, and ends with the
    process or by ``logger.experiment.end()``. ``kwargs`` go to `comet_ml.ExperimentConfig`.

    Raises:
        BuildError [build.package-missing]: comet_ml is not installed.
        LoggerError [logger.bad-argument]: ``mode`` is none of get, create, get_or_create.
    """

    def __init__(
        self,
        *,
        api_key: str | None = None,
        workspace: str | None = None,
        project: str | None = None,
        experiment_key: str | None = None,
        mode: Literal["get", "create", "get_or_create"] | None = None,
        online: bool | None = None,
        prefix: str = "",
        **kwargs: Any,
    ) -> None:
        check_installed("CometLogger", "comet_ml", "comet")
        if mode is not None and mode not in _MODES:
            raise LoggerError(
                "logger.bad-argument",
                f"CometLogger(mode={mode!r})",
                values={"mode": mode},
                because=f"mode is one of {', '.join(_MODES)}",
                hint="leave it out: an experiment_key that is known goes on, else there is a new one",
            )
        self._project, self._key = project, experiment_key
        self._given = {"workspace": workspace, "mode": mode, "online": online}
        self._api_key, self._prefix, self._kwargs = api_key, prefix, kwargs

    @property
    def name(self) -> str | None:
        """The project."""
        return self._project

    @property
    def version(self) -> str | None:
        """The experiment's key; None before it is open, unless it was given."""
        return self._key

    @property
    def save_dir(self) -> str | None:
        """The folder of offline experiments, where it was given."""
        folder = self._kwargs.get("offline_directory")
        return None if folder is None else str(folder)

    @property
    def experiment(self) -> Any:
        """The ``comet_ml`` experiment."""
        if self._experiment is None:
            import comet_ml

            self._experiment = comet_ml.start(
                api_key=self._api_key,
                project=self._project,
                experiment_key=self._key,
                experiment_config=comet_ml.ExperimentConfig(**self._kwargs),
                **self._given,
            )
            self._experiment.log_other("Created from", "drivetrain")
            self._key = str(self._experiment.get_key())
        return self._experiment

    def prepare(self, stage: str, resumed_step: int | None) -> None:
        """Open the experiment, so that every rank knows its key."""
        self.experiment  # noqa: B018 - reading it opens it

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write them; ``epoch`` becomes Comet's own epoch."""
        values = with_prefix(self._prefix, metrics)
        epoch = values.pop("epoch", None)
        self.experiment.log_metrics(values, step=self._at(step), epoch=None if epoch is None else int(epoch))

    def log_hyperparams(self, params: Any, metrics: Mapping[str, float] | None = None) -> None:
        """Write them as parameters, nested ones as outer/inner; ``metrics`` beside them."""
        self.experiment.log_parameters(flat(params))
        if metrics:
            self.log_metrics(metrics)

    def log_graph(self, model: torch.nn.Module, input_array: Any = None) -> None:
        """Write the model as text."""
        self.experiment.set_model_graph(str(model))

    def finalize(self, status: str) -> None:
        """Send what is under way, and note how the run ended; the experiment stays open."""
        if self._experiment is not None:
            self._experiment.log_other("status", status)
            self._experiment.flush()
