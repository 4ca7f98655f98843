from __future__ import annotations

import csv
import math
import uuid
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pytest
import torch
import yaml

import drivetrain as dt
from tests.loggers.told import begun, names, on_rank_one


def rows(path: str | Path) -> list[dict[str, str]]:
    with fsspec.open(str(path), "r", newline="") as file:
        return list(csv.DictReader(file))


def filled(path: str | Path) -> list[dict[str, str]]:
    return [{name: value for name, value in row.items() if value} for row in rows(path)]


def test_a_row_a_step_and_what_comes_at_one_step_joins_it(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 10)
    logger.log_metrics({"val": 0.25, "epoch": 0}, 10)
    logger.log_metrics({"loss": 0.1, "epoch": 1}, 20)
    logger.save()
    assert logger.log_dir == str(tmp_path / "drivetrain_logs" / "version_0")
    assert rows(Path(logger.log_dir, "metrics.csv")) == [
        {"step": "10", "epoch": "0", "loss": "0.5", "val": "0.25"},
        {"step": "20", "epoch": "1", "loss": "0.1", "val": ""},
    ]


def test_the_same_name_at_the_same_step_loses_nothing(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_metrics({"val": 0.5}, 10)
    logger.save()
    logger.log_metrics({"val": 0.25}, 10)
    logger.finalize("success")
    assert [row["val"] for row in rows(Path(logger.log_dir, "metrics.csv"))] == ["0.5", "0.25"]


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    values = {"a": 0.1 + 0.2, "b": 1e-300, "c": math.inf, "d": math.nan, "e": -0.0}
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_metrics({**values, 'odd, "name"\n': 1.0}, 1)
    logger.save()
    (row,) = rows(Path(logger.log_dir, "metrics.csv"))
    assert {name: repr(float(row[name])) for name in values} == {
        name: repr(value) for name, value in values.items()
    }
    assert row['odd, "name"\n'] == "1.0"


def folder_of(kind: str, tmp_path: Path) -> str:
    return str(tmp_path) if kind == "disk" else f"memory://{uuid.uuid4().hex}"


@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("every", [1, 3, 100])
def test_new_columns_widen_the_file_and_lose_nothing(tmp_path: Path, kind: str, every: int) -> None:
    logger = begun(dt.CSVLogger(folder_of(kind, tmp_path), flush_logs_every_n_steps=every))
    expected: list[dict[str, Any]] = []
    for step in range(12):
        values = {"loss": step / 8, f"column{step // 4}": float(step)}
        logger.log_metrics(values, step)
        expected.append({"step": step, **values})
        if step % 5 == 0:
            logger.log_metrics({"val": 1.5}, step)
            expected[-1]["val"] = 1.5
    logger.finalize("success")
    found = filled(f"{logger.log_dir}/metrics.csv")
    assert found == [{name: str(value) for name, value in row.items()} for row in expected]


def test_rows_reach_the_disk_every_n_steps(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path, flush_logs_every_n_steps=20))
    path = Path(logger.log_dir, "metrics.csv")
    counts = []
    for step in range(10, 70, 10):
        logger.log_metrics({"loss": 1.0}, step)
        counts.append(len(rows(path)) if path.exists() else 0)
    assert counts == [0, 0, 3, 3, 5, 5]
    logger.save()
    logger.save()
    assert len(rows(path)) == 6
    assert names(path.parent) == ["metrics.csv"]


def test_a_checkpoint_finds_all_that_was_logged_before_it_on_the_disk(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_metrics({"loss": 1.0}, 1)
    logger.after_save_checkpoint(None)
    assert len(rows(Path(logger.log_dir, "metrics.csv"))) == 1


def test_tensors_and_numpys_numbers_are_numbers(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_metrics({"a": torch.tensor(0.5), "b": np.float64(0.1), "c": np.int64(3)}, 1)
    logger.save()
    assert filled(Path(logger.log_dir, "metrics.csv")) == [{"step": "1", "a": "0.5", "b": "0.1", "c": "3"}]


def test_hyperparameters_are_a_yaml_file(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path))
    logger.log_hyperparams({"lr": 0.1, "net": {"sizes": (1, 2)}})
    logger.log_hyperparams({"batch": 4}, {"score": 0.5})
    logger.save()
    text = Path(logger.log_dir, "hparams.yaml").read_text()
    assert yaml.safe_load(text) == {"lr": 0.1, "net": {"sizes": [1, 2]}, "batch": 4}
    assert rows(Path(logger.log_dir, "metrics.csv"))[0]["score"] == "0.5"


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_every_run_has_its_own_version(tmp_path: Path, kind: str) -> None:
    root = folder_of(kind, tmp_path)
    found = []
    for number in range(3):
        logger = begun(dt.CSVLogger(root, "name"))
        logger.log_metrics({"run": float(number)}, 1)
        logger.finalize("success")
        found.append(logger)
    assert [logger.version for logger in found] == [0, 1, 2]
    assert [filled(f"{logger.log_dir}/metrics.csv")[0]["run"] for logger in found] == ["0.0", "1.0", "2.0"]
    assert found[2].root_dir == f"{root}/name"
    assert found[2].save_dir == root


def written(tmp_path: Path, *, steps: range, version: str | None = "mine") -> dt.CSVLogger:
    logger = begun(dt.CSVLogger(tmp_path, "n", version))
    for step in steps:
        logger.log_metrics({"loss": step / 8, "epoch": 0}, step)
    logger.log_hyperparams({"lr": 0.1})
    logger.finalize("failed")
    return logger


def test_a_new_fit_never_writes_into_another_runs_version(tmp_path: Path) -> None:
    path = Path(written(tmp_path, steps=range(3)).log_dir)
    before = {name: (path / name).read_bytes() for name in names(path)}
    logger = dt.CSVLogger(tmp_path, "n", "mine")
    with pytest.raises(dt.LoggerError, match=r"logger.version-exists.*'mine'"):
        begun(logger)
    by_hand = dt.CSVLogger(tmp_path, "n", "mine")
    by_hand.log_metrics({"loss": 9.0}, 9)
    with pytest.raises(dt.LoggerError, match=r"logger.version-exists"):
        by_hand.save()
    assert {name: (path / name).read_bytes() for name in names(path)} == before


@pytest.mark.parametrize("kind", ["disk", "memory"])
@pytest.mark.parametrize("resumed_step", [3, 0, 9])
def test_a_resumed_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, kind: str, resumed_step: int) -> None:
    root = folder_of(kind, tmp_path)

    def log(logger: dt.CSVLogger, steps: range) -> None:
        for step in steps:
            logger.log_metrics({"loss": step / 8, "epoch": 0}, step)
            if step % 3 == 0:
                logger.log_metrics({"val": step / 4, "epoch": 0}, step)
        logger.finalize("success")

    log(begun(dt.CSVLogger(root, "whole", "v")), range(1, 12))
    log(begun(dt.CSVLogger(root, "n", "v")), range(1, 6))
    again = dt.CSVLogger(root, "n", "v")
    again.log_hyperparams({"lr": 0.1})  # before the run begins
    begun(again, resumed_step=resumed_step)
    log(again, range(min(max(resumed_step, 1), 6), 12))  # the step of the checkpoint may be logged again
    assert filled(f"{root}/n/v/metrics.csv") == filled(f"{root}/whole/v/metrics.csv")


def test_a_resumed_run_that_dies_before_it_writes_has_changed_nothing(tmp_path: Path) -> None:
    path = Path(written(tmp_path, steps=range(5)).log_dir, "metrics.csv")
    before = path.read_bytes()
    logger = begun(dt.CSVLogger(tmp_path, "n", "mine"), resumed_step=2)
    logger.log_metrics({"loss": 1.0}, 3)
    assert path.read_bytes() == before


def test_without_a_name_a_resumed_run_takes_a_new_version(tmp_path: Path) -> None:
    first = written(tmp_path, steps=range(5), version=None)
    again = begun(dt.CSVLogger(tmp_path, "n"), resumed_step=2)
    again.log_metrics({"loss": 1.0}, 3)
    again.save()
    assert (first.version, again.version) == (0, 1)
    assert len(rows(Path(first.log_dir, "metrics.csv"))) == 5


def test_an_evaluation_adds_to_a_named_version(tmp_path: Path) -> None:
    path = Path(written(tmp_path, steps=range(3)).log_dir, "metrics.csv")
    logger = begun(dt.CSVLogger(tmp_path, "n", "mine"), stage="test")
    logger.log_metrics({"test": 0.5, "epoch": 0}, 2)
    logger.finalize("success")
    assert filled(path)[-1] == {"step": "2", "epoch": "0", "loss": "0.25", "test": "0.5"}
    assert len(rows(path)) == 3


def test_one_logger_serves_several_runs(tmp_path: Path) -> None:
    logger = dt.CSVLogger(tmp_path)
    for stage, step in (("fit", 1), ("test", 1), ("fit", 2)):
        begun(logger, stage, resumed_step=1 if step == 2 else None)
        logger.log_metrics({stage: float(step)}, step)
        logger.finalize("success")
    assert logger.version == 0
    assert filled(Path(logger.log_dir, "metrics.csv")) == [
        {"step": "1", "fit": "1.0", "test": "1.0"},
        {"step": "2", "fit": "2.0"},
    ]


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    path = Path(written(tmp_path, steps=range(4)).log_dir, "metrics.csv")
    path.write_bytes(path.read_bytes()[:-3])
    logger = begun(dt.CSVLogger(tmp_path, "n", "mine"), resumed_step=3)
    logger.log_metrics({"loss": 3 / 8, "epoch": 0}, 3)
    logger.save()
    assert [row["loss"] for row in rows(path)] == ["0.0", "0.125", "0.25", "0.375"]


def test_a_file_that_is_no_table_of_steps_is_refused(tmp_path: Path) -> None:
    (tmp_path / "n" / "mine").mkdir(parents=True)
    (tmp_path / "n" / "mine" / "metrics.csv").write_text("a,b\n1,2\n")
    with pytest.raises(dt.LoggerError, match=r"logger.not-a-table"):
        begun(dt.CSVLogger(tmp_path, "n", "mine"), resumed_step=1)


def test_a_prefix_goes_before_names_but_not_before_the_epoch(tmp_path: Path) -> None:
    logger = begun(dt.CSVLogger(tmp_path, prefix="a"))
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 1)
    logger.save()
    assert list(rows(Path(logger.log_dir, "metrics.csv"))[0]) == ["step", "epoch", "a-loss"]


def test_a_metric_called_step_is_refused(tmp_path: Path) -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.name-clash"):
        begun(dt.CSVLogger(tmp_path)).log_metrics({"step": 1.0}, 1)


@pytest.mark.parametrize(
    "given",
    [{"version": 1.5}, {"version": -1}, {"flush_logs_every_n_steps": 0}, {"flush_logs_every_n_steps": "1"}],
)
def test_other_arguments_are_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument"):
        dt.CSVLogger(tmp_path, **given)


def test_another_rank_makes_no_file_and_knows_the_folder(tmp_path: Path) -> None:
    logger = dt.CSVLogger(tmp_path)
    other = on_rank_one(logger)
    other.log_metrics({"loss": 1.0}, 1)
    other.log_hyperparams({"a": 1})
    other.finalize("success")
    assert other.log_dir == logger.log_dir
    assert other.version == 0
    assert names(logger.log_dir) == []
