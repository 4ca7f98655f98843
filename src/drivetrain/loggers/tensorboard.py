"""TensorBoardLogger: event files for TensorBoard."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import torch

from drivetrain.base.errors import LoggerError
from drivetrain.base.tree import map_leaves
from drivetrain.loggers.folder import Folder, Place
from drivetrain.loggers.hyperparameters import as_yaml, flat, plain
from drivetrain.loggers.logger import Logger, with_prefix
from drivetrain.loggers.package import check_installed

HYPERPARAMETERS = "hparams.yaml"
_EVENTS = "events.out.tfevents"
_DEFAULT_METRIC = "hp_metric"


class TensorBoardLogger(Logger):
    """Writes event files to ``save_dir/name/version_N``: ``TensorBoardLogger("runs")``; needs tensorboard.

    ``kwargs`` go to `torch.utils.tensorboard.SummaryWriter`, which is `experiment`. ``default_hp_metric``
    makes ``hp_metric`` a column of the HPARAMS tab; its value is what is logged under this name, nothing
    is made up. A resumed fit into a named version hides what the earlier one logged after the checkpoint.

    Raises:
        BuildError [build.package-missing]: tensorboard is not installed.
        LoggerError [logger.bad-argument]: an argument has a value that it cannot have.
        LoggerError [logger.version-exists]: at the fit, the named version holds another run.
    """

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "drivetrain_logs",
        version: int | str | None = None,
        log_graph: bool = False,
        default_hp_metric: bool = True,
        prefix: str = "",
        sub_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        check_installed("TensorBoardLogger", "tensorboard", "tensorboard")
        self._place = Place("TensorBoardLogger", save_dir, name, version)
        self._has_graph, self._default_hp_metric = log_graph, default_hp_metric
        self._prefix, self._sub_dir = prefix, "" if sub_dir is None else os.fspath(sub_dir)
        self._kwargs = kwargs
        self._hparams: dict[str, Any] = {}
        self._is_hparams_written = False
        self._purge_step: int | None = None
        self._others: list[str] | None = [] if version is None else None
        """Event files that were there before ours; None before we looked."""

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
        """``save_dir/name/version_N/sub_dir``."""
        return self._folder.path

    @property
    def _folder(self) -> Folder:
        return self._place.folder.child(self._sub_dir)

    @property
    def experiment(self) -> Any:
        """The `torch.utils.tensorboard.SummaryWriter`."""
        if self._experiment is None:
            from torch.utils.tensorboard import SummaryWriter

            self._look()
            self._folder.make()
            given = {"log_dir": self.log_dir, "purge_step": self._purge_step, **self._kwargs}
            self._experiment = SummaryWriter(**given)
            self._purge_step = None
        return self._experiment

    def prepare(self, stage: str, resumed_step: int | None) -> None:
        """Take the folder; refuse a new fit into one that another run wrote to."""
        others = self._look()
        self._others = []
        if others and stage == "fit":
            if resumed_step is None:
                raise self._place.refuse(others)
            self._purge_step = resumed_step + 1
        self._folder.make()

    def _look(self) -> list[str]:
        if self._others is None:
            self._others = [name for name in self._folder.names() if name.startswith(_EVENTS)]
        return self._others

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write a scalar each."""
        now, writer = self._at(step), self.experiment
        for name, value in with_prefix(self._prefix, metrics).items():
            writer.add_scalar(name, value, now)

    def log_hyperparams(
        self, params: Any, metrics: Mapping[str, float] | float | None = None, step: int | None = None
    ) -> None:
        """Write them for the HPARAMS tab and for ``hparams.yaml``; ``metrics`` become its columns.

        A single number is the value of ``hp_metric``.
        """
        from torch.utils.tensorboard.summary import hparams

        self._hparams |= plain(params)
        self._is_hparams_written = False
        given = {_DEFAULT_METRIC: metrics} if isinstance(metrics, (int, float)) else dict(metrics or {})
        columns = given or ({_DEFAULT_METRIC: 0.0} if self._default_hp_metric else {})
        values = {name: "None" if value is None else value for name, value in flat(self._hparams).items()}
        # One writer a folder: TensorBoard stops reading a file as soon as a newer one has come.
        writer = self.experiment._get_file_writer()  # noqa: SLF001 - torch has no public way to the same file
        for summary in hparams(values, with_prefix(self._prefix, columns)):  # type: ignore[no-untyped-call]  # torch leaves it so
            writer.add_summary(summary)
        if given:
            self.log_metrics(given, step)

    def log_graph(self, model: torch.nn.Module, input_array: Any = None) -> None:
        """Write the graph of ``forward``, with ``log_graph=True``; traced on the model's example input.

        Raises:
            LoggerError [logger.no-example]: neither ``input_array`` nor the model's example_input_array.
        """
        if not self._has_graph:
            return
        example = getattr(model, "example_input_array", None) if input_array is None else input_array
        if example is None:
            raise LoggerError(
                "logger.no-example",
                f"TensorBoardLogger(log_graph=True): {type(model).__name__} has no example_input_array",
                values={"model": type(model).__qualname__},
                because="the graph is what forward does with an input",
                hint="set self.example_input_array in the module's __init__, or leave log_graph out",
            )
        device = next((one.device for one in model.parameters()), torch.device("cpu"))
        modes = [(part, part.training) for part in model.modules()]
        model.eval()
        try:
            with torch.no_grad(), warnings.catch_warnings():
                # The writer traces with torch.jit, which torch deprecates: nothing that our user can act on.
                warnings.simplefilter("ignore", DeprecationWarning)
                moved = map_leaves(example, lambda leaf: leaf.to(device) if hasattr(leaf, "to") else leaf)
                self.experiment.add_graph(model, moved)
        finally:
            for part, mode in modes:
                part.training = mode

    def save(self) -> None:
        """Flush the event file; write ``hparams.yaml``."""
        if self._experiment is not None:
            self._experiment.flush()
        if self._hparams and not self._is_hparams_written:
            self._folder.write(HYPERPARAMETERS, as_yaml(self._hparams).encode())
            self._is_hparams_written = True

    def finalize(self, status: str) -> None:
        """Close the event file; a later write opens another."""
        self.save()
        if self._experiment is not None:
            self._experiment.close()
            self._experiment = None
