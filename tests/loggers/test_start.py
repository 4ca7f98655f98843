from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

import drivetrain as dt
from drivetrain.loggers.start import begin_loggers, log_hyperparameters
from tests.loggers.test_csv import filled
from tests.loggers.told import Told, begun


class Model(dt.Module):
    def __init__(self, lr: float = 0.1, width: int = 4, act: Any = torch.nn.ReLU) -> None:
        super().__init__()
        self.save_hyperparameters("lr")
        self.save_hyperparameters({"secret": 1})
        self._unlogged_hparams = frozenset({"secret"})
        self.hparams.act = act


class Data(dt.DataModule):
    def __init__(self, **hparams: Any) -> None:
        super().__init__()
        self.save_hyperparameters(hparams)


class Stranger:
    """What follows the protocol and is no Logger."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def log_metrics(self, metrics, step=None):
        self.got.append(metrics)

    def log_hyperparams(self, params, metrics=None):
        self.got.append(dict(params))

    def save(self):
        self.got.append("saved")

    def finalize(self, status):
        self.got.append(status)


def test_each_logger_gets_what_save_hyperparameters_kept(tmp_path: Path) -> None:
    stranger, logger = Stranger(), dt.CSVLogger(tmp_path)
    begin_loggers([logger, stranger], Told(), "fit", None)
    log_hyperparameters([logger, stranger], Model(), Data(batch=8, lr=0.1))
    assert stranger.got == [{"batch": 8, "lr": 0.1, "act": torch.nn.ReLU}, "saved"]
    assert yaml.safe_load(Path(logger.log_dir, "hparams.yaml").read_text()) == {
        "batch": 8,
        "lr": 0.1,
        "act": "torch.nn.modules.activation.ReLU",
    }


def test_nothing_is_written_where_nothing_was_saved(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    log_hyperparameters([logger], torch.nn.Linear(1, 1))
    assert list(Path(logger.log_dir).iterdir()) == []


@pytest.mark.parametrize(("value", "clashes"), [(0.1, False), (0.2, True), (torch.ones(2), True)])
def test_one_name_has_one_value(value: Any, clashes: bool) -> None:
    stranger = Stranger()
    if clashes:
        with pytest.raises(dt.LoggerError, match=r"logger.name-clash.*'lr'"):
            log_hyperparameters([stranger], Model(), Data(lr=value))
    else:
        log_hyperparameters([stranger], Model(), Data(lr=value))
    assert bool(stranger.got) is not clashes


def test_the_graph_is_asked_for(tmp_path: Path) -> None:
    class Graphs(dt.Logger):
        def log_metrics(self, metrics, step=None): ...

        def log_hyperparams(self, params, metrics=None): ...

        def log_graph(self, model, input_array=None):
            self.model = model

    logger, model = begun(Graphs()), Model()
    log_hyperparameters([logger], model)
    assert logger.model is model


def test_a_logger_takes_up_each_run(tmp_path: Path) -> None:
    logger = dt.CSVLogger(tmp_path, "n", "v")
    begin_loggers([logger], Told(), "fit", None)
    logger.log_metrics({"a": 1.0}, 1)
    logger.log_metrics({"a": 2.0}, 2)
    logger.finalize("success")
    again = dt.CSVLogger(tmp_path, "n", "v")
    begin_loggers([again], Told(), "fit", 1)
    again.log_metrics({"a": 3.0}, 2)
    again.finalize("success")
    assert [row["a"] for row in filled(f"{again.log_dir}/metrics.csv")] == ["1.0", "3.0"]
