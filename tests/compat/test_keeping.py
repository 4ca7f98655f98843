from __future__ import annotations

from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.compat import keeping
from drivetrain.loggers.silence import SILENCE


@pytest.mark.parametrize(
    "made",
    [
        keeping.CSVLogger,
        lambda folder: keeping.FabricCSVLogger(root_dir=folder),
        keeping.TensorBoardLogger,
        lambda folder: keeping.FabricTensorBoardLogger(root_dir=folder),
    ],
)
def test_the_folder_is_the_known_one(tmp_path, made):
    logger = made(tmp_path)
    assert Path(logger.log_dir) == tmp_path / "lightning_logs" / "version_0"
    assert isinstance(logger, dt.Logger)


def test_without_tensorboard_it_is_a_table(tmp_path, monkeypatch):
    assert isinstance(keeping.default_logger(str(tmp_path)), keeping.TensorBoardLogger)
    monkeypatch.setattr(keeping.installed, "version", lambda name: None)
    assert isinstance(keeping.default_logger(str(tmp_path)), keeping.CSVLogger)


class Mine(dt.Logger):
    @property
    @keeping.rank_zero_experiment
    def experiment(self):
        return "opened"

    def log_metrics(self, metrics, step=None):
        pass

    def log_hyperparams(self, params, *args, **kwargs):
        pass


def test_an_experiment_is_rank_0s():
    logger = Mine()
    assert logger.experiment == "opened"
    logger._is_zero = False
    assert logger.experiment is SILENCE


def test_dicts_are_merged_name_by_name():
    merged = keeping.merge_dicts([{"a": 1.0, "b": {"c": 2}}, {"a": 3.0, "b": {"c": 4}}], {"a": max})
    assert merged == {"a": 3.0, "b": {"c": 3.0}}
