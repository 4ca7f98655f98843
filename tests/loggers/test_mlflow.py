"""Runs of MLflow in its file store, read back with its own client."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fsspec
import mlflow
import pytest

import drivetrain as dt
from tests.loggers.told import begun, on_rank_one


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow uses a folder only when told so, and counts its users unless told not to."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")


def client(folder: Path) -> mlflow.MlflowClient:
    return mlflow.MlflowClient(tracking_uri=folder.as_uri())


def points(folder: Path, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(one.step, one.value) for one in client(folder).get_metric_history(run_id, name)]


def test_a_run_holds_what_was_logged(tmp_path: Path) -> None:
    logger = begun(
        dt.MLFlowLogger("digits", run_name="first", save_dir=tmp_path, tags={"kind": "test"}, prefix="a")
    )
    logger.log_hyperparams({"lr": 0.1, "net": {"sizes": [1, 2]}, "none": None}, {"best": 0.5})
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 10)
    logger.log_metrics({"loss": math.nan, "val/acc@1": 1.0}, 20)
    assert client(tmp_path).get_run(logger.run_id).info.status == "RUNNING"
    logger.finalize("success")
    run = client(tmp_path).get_run(logger.version)
    assert run.data.params == {"lr": "0.1", "net/sizes": "[1, 2]", "none": "None"}
    assert (run.data.tags["kind"], run.info.run_name, run.info.status) == ("test", "first", "FINISHED")
    assert client(tmp_path).get_experiment(logger.experiment_id).name == logger.name == "digits"
    loss = points(tmp_path, logger.run_id, "a-loss")
    assert loss[0] == (10, 0.5)
    assert loss[1][0] == 20
    assert math.isnan(loss[1][1])
    assert points(tmp_path, logger.run_id, "epoch") == [(10, 0.0)]
    assert points(tmp_path, logger.run_id, "a-val/acc_1") == [(20, 1.0)]
    assert points(tmp_path, logger.run_id, "a-best") == [(0, 0.5)]


@pytest.mark.parametrize(("status", "told"), [("failed", "FAILED"), ("interrupted", "KILLED")])
def test_the_end_is_told_and_a_later_write_opens_the_run_again(
    tmp_path: Path, status: str, told: str
) -> None:
    logger = begun(dt.MLFlowLogger(save_dir=tmp_path))
    logger.log_metrics({"a": 1.0}, 1)
    logger.finalize(status)
    logger.finalize(status)
    assert client(tmp_path).get_run(logger.run_id).info.status == told
    again = begun(dt.MLFlowLogger(save_dir=tmp_path, run_id=logger.run_id), resumed_step=1)
    assert client(tmp_path).get_run(logger.run_id).info.status == told
    again.log_metrics({"a": 2.0}, 2)
    assert client(tmp_path).get_run(logger.run_id).info.status == "RUNNING"
    again.finalize("success")
    assert client(tmp_path).get_run(logger.run_id).info.status == "FINISHED"
    assert points(tmp_path, logger.run_id, "a") == [(1, 1.0), (2, 2.0)]
    assert again.experiment_id == logger.experiment_id


def test_runs_of_one_experiment_stand_beside_each_other(tmp_path: Path) -> None:
    loggers = [begun(dt.MLFlowLogger("same", tracking_uri=tmp_path.as_uri())) for _ in range(2)]
    assert loggers[0].experiment_id == loggers[1].experiment_id
    assert len(client(tmp_path).search_runs([loggers[0].experiment_id])) == 2


def test_more_than_a_call_takes_is_written_in_parts(tmp_path: Path) -> None:
    logger = begun(dt.MLFlowLogger(save_dir=tmp_path))
    logger.log_hyperparams({f"p{i}": i for i in range(150)})
    logger.log_metrics({f"m{i}": float(i) for i in range(1100)}, 1)
    run = client(tmp_path).get_run(logger.run_id)
    assert (len(run.data.params), len(run.data.metrics)) == (150, 1100)


def test_names_that_become_one_are_refused(tmp_path: Path) -> None:
    logger = begun(dt.MLFlowLogger(save_dir=tmp_path))
    logger.log_metrics({"f1@1": 1.0}, 1)
    logger.log_metrics({"f1@1": 1.0}, 2)
    with pytest.raises(dt.LoggerError, match=r"logger.name-clash"):
        logger.log_metrics({"f1#1": 1.0}, 1)


def test_what_is_written_in_the_background_is_there_after_save(tmp_path: Path) -> None:
    logger = begun(dt.MLFlowLogger(save_dir=tmp_path, synchronous=False))
    for step in range(5):
        logger.log_metrics({"a": float(step)}, step)
    logger.save()
    assert sorted(points(tmp_path, logger.run_id, "a")) == [(step, float(step)) for step in range(5)]
    assert logger._waiting == []
    logger.finalize("success")


@pytest.mark.parametrize(("log_model", "counts"), [(False, [0, 0, 0]), (True, [0, 0, 2]), ("all", [1, 2, 2])])
def test_checkpoints_are_uploaded_when_asked_for(tmp_path: Path, log_model: Any, counts: list[int]) -> None:
    logger = begun(dt.MLFlowLogger(save_dir=tmp_path / "store", log_model=log_model))
    callback = SimpleNamespace(best_k_models={}, best_model_path="", last_model_path="")
    found = []

    def uploaded() -> list[str]:
        listed = client(tmp_path / "store").list_artifacts(logger.run_id, "model/checkpoints")
        return sorted(Path(one.path).name for one in listed)

    for path in (str(tmp_path / "a.ckpt"), "memory://mlflow-test/b.ckpt"):
        with fsspec.open(path, "w") as file:
            file.write(path)
        callback.best_k_models[path] = 0.5
        callback.last_model_path = path
        logger.after_save_checkpoint(callback)
        found.append(len(uploaded()))
    logger.finalize("success")
    assert [*found, len(uploaded())] == counts
    if counts[-1]:
        assert uploaded() == ["a.ckpt", "b.ckpt"]
        local = client(tmp_path / "store").download_artifacts(
            logger.run_id, "model/checkpoints/b.ckpt", str(tmp_path)
        )
        assert Path(local).read_text() == "memory://mlflow-test/b.ckpt"


def test_another_rank_opens_nothing_and_knows_the_run(tmp_path: Path) -> None:
    logger = dt.MLFlowLogger(save_dir=tmp_path)
    other = on_rank_one(logger)
    other.log_metrics({"a": 1.0}, 1)
    other.experiment.log_metric(other.version, "a", 1.0)
    other.finalize("success")
    assert other.version == other.run_id == logger.run_id is not None
    assert client(tmp_path).get_run(logger.run_id).data.metrics == {}
    assert len(client(tmp_path).search_runs([logger.experiment_id])) == 1


DATABASE = """
import drivetrain as dt
from mlflow import MlflowClient
from tests.loggers.told import begun
logger = begun(dt.MLFlowLogger("digits"))
logger.log_metrics({"a": 1.5}, 3)
logger.finalize("success")
run = MlflowClient().get_run(logger.run_id)
print(run.data.metrics, run.info.status)
"""


@pytest.mark.slow
def test_the_stores_default_works_with_what_the_extra_installs(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", DATABASE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "{'a': 1.5} FINISHED"


def test_other_arguments_are_refused() -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument"):
        dt.MLFlowLogger(log_model="some")
