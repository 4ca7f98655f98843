"""Loggers in a run of two processes: one rank writes, both know where."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import drivetrain as dt
from tests.loggers.test_logger import Lines
from tests.loggers.told import names
from tests.loops.models import Regression, loader

pytestmark = pytest.mark.ranks


SETTINGS = {
    "WANDB_SILENT": "true",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_ALLOW_FILE_STORE": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "COMET_LOGGING_CONSOLE": "ERROR",
}
"""Nothing is sent anywhere, and little is said."""


class Tells(dt.Callback):
    """Writes on every rank beside the run, and keeps what each rank saw."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        for logger in trainer.loggers:
            logger.log_metrics({"rank": float(trainer.global_rank), "epoch": 0}, trainer.global_step)

    def on_fit_end(self, trainer, module):
        mine = [
            (one.name, one.version, one.log_dir, type(one.experiment).__name__) for one in trainer.loggers
        ]
        self.seen = trainer.collectives.all_gather_object((mine, os.getpid()))


def fit(loggers: list[dt.Logger], launcher: str) -> list[Any]:
    """Train three steps on two ranks; return what each saw."""
    tells = Tells()
    trainer = dt.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        launcher=launcher,
        max_steps=3,
        enable_progress_bar=False,
        enable_checkpointing=False,
        callbacks=[tells],
    )
    trainer.loggers = loggers
    trainer.fit(Regression(), loader())
    (zero, pid), (other, other_pid) = tells.seen
    assert pid == os.getpid() != other_pid
    assert [one[:3] for one in zero] == [one[:3] for one in other]
    assert [one[3] for one in other] == ["Silence"] * len(loggers)
    return zero


def check_files(loggers: list[dt.Logger], tmp_path: Path) -> None:
    with Path(loggers[0].log_dir, "metrics.csv").open() as file:
        rows = [(row["step"], row["rank"]) for row in csv.DictReader(file) if row["rank"]]
    assert rows == [("1", "0.0"), ("2", "0.0"), ("3", "0.0")]
    events = EventAccumulator(loggers[1].log_dir).Reload()
    assert [(one.step, one.value) for one in events.Scalars("rank")] == [(1, 0.0), (2, 0.0), (3, 0.0)]
    lines = (tmp_path / "lines").read_text().splitlines()
    assert [line for line in lines if "rank" in line] == ["1 rank 0.0", "2 rank 0.0", "3 rank 0.0"]
    assert names(tmp_path / "drivetrain_logs") == ["version_0"]


@pytest.mark.parametrize("launcher", ["subprocess", "fork"])
def test_rank_0_writes_and_every_rank_knows_where(tmp_path: Path, launcher: str) -> None:
    loggers = [dt.CSVLogger(tmp_path), dt.TensorBoardLogger(tmp_path, "tb"), Lines(tmp_path / "lines")]
    before = loggers[1].experiment  # it is open when the others start
    zero = fit(loggers, launcher)
    assert zero[0][2] == str(tmp_path / "drivetrain_logs" / "version_0")
    assert [one[3] for one in zero] == ["Table", type(before).__name__, "TextIOWrapper"]
    check_files(loggers, tmp_path)
    assert names(tmp_path) == ["drivetrain_logs", "lines", "tb"]
    loggers[2].experiment.close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # wandb and comet leave files and sockets open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # as above
def test_services_have_one_run_of_several_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("COMET_API_KEY", raising=False)
    loggers = [
        dt.CSVLogger(tmp_path),
        dt.TensorBoardLogger(tmp_path, "tb"),
        Lines(tmp_path / "lines"),
        dt.WandbLogger(save_dir=tmp_path, offline=True),
        dt.MLFlowLogger(save_dir=tmp_path / "mlflow"),
        dt.CometLogger(online=False, offline_directory=str(tmp_path / "comet"), log_env_details=False),
    ]
    zero = fit(loggers, "subprocess")
    check_files(loggers, tmp_path)
    _, _, lines, wandb_logger, mlflow_logger, comet_logger = loggers
    assert [one[1] for one in zero[3:]] == [
        wandb_logger.experiment.id,
        mlflow_logger.run_id,
        comet_logger.experiment.get_key(),
    ]
    lines.experiment.close()
    wandb_logger.experiment.finish()
    comet_logger.experiment.end()
    client = mlflow_logger.experiment
    (run,) = client.search_runs([mlflow_logger.experiment_id])
    assert (run.info.status, run.data.metrics["rank"]) == ("FINISHED", 0.0)
    points = client.get_metric_history(mlflow_logger.run_id, "rank")
    assert [(one.step, one.value) for one in points] == [(1, 0.0), (2, 0.0), (3, 0.0)]
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 1
    assert len(list(tmp_path.glob("comet/*.zip"))) == 1
