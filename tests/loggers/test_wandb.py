"""Offline runs of W&B, read back with its own reader and its own records."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import wandb
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore

import drivetrain as dt
from tests.loggers.told import begun, on_rank_one

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # wandb leaves files to the collector


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Nothing of this is sent anywhere, and no run stays open."""
    for name, value in (("SILENT", "true"), ("ERROR_REPORTING", "false"), ("CACHE_DIR", str(tmp_path / "c"))):
        monkeypatch.setenv(f"WANDB_{name}", value)
    yield
    while wandb.run is not None:
        wandb.run.finish()


def records(folder: Path, run_id: str) -> list[Any]:
    """Return what an offline run holds; its end reaches the disk shortly after ``finish`` returns."""
    until = time.monotonic() + 20
    while True:
        found = scanned(folder, run_id)
        if any(record.HasField("exit") for record in found) or time.monotonic() > until:
            return found
        time.sleep(0.05)


def scanned(folder: Path, run_id: str) -> list[Any]:
    (path,) = folder.glob(f"wandb/offline-run-*/run-{run_id}.wandb")
    store = DataStore()
    store.open_for_scan(str(path))
    found = []
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        found.append(record)
    return found


def history(found: list[Any]) -> list[dict[str, Any]]:
    """Return the rows of the run's history, without wandb's own columns."""
    rows = []
    for record in found:
        if record.WhichOneof("record_type") == "history":
            items = {
                "/".join(one.nested_key) or one.key: json.loads(one.value_json) for one in record.history.item
            }
            rows.append({name: value for name, value in items.items() if not name.startswith("_")})
    return rows


def config(found: list[Any]) -> dict[str, Any]:
    """Return the run's config as it was at the end."""
    values: dict[str, Any] = {}
    for record in found:
        for part in (record.run.config, record.config):
            values |= {"/".join(one.nested_key) or one.key: json.loads(one.value_json) for one in part.update}
    return values


def offline(folder: Path, **kwargs: Any) -> dt.WandbLogger:
    return dt.WandbLogger(save_dir=folder, offline=True, **kwargs)


def test_a_run_holds_what_was_logged(tmp_path: Path) -> None:
    logger = begun(offline(tmp_path, name="first", project="digits", prefix="a", tags=["t"]))
    logger.log_hyperparams({"lr": 0.1, "net": {"act": torch.nn.ReLU}}, {"best": 0.5})
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 10)
    logger.log_metrics({"loss": 0.25, "epoch": 1}, 20)
    logger.log_metrics({"late": 1.0})
    logger.save()
    logger.finalize("success")
    run = logger.experiment
    assert (logger.name, logger.version, logger.save_dir) == ("digits", run.id, str(tmp_path))
    assert run.summary["a-best"] == 0.5
    run.finish()
    found = records(tmp_path, run.id)
    step = "trainer/global_step"
    assert history(found) == [
        {"a-loss": 0.5, "epoch": 0, step: 10},
        {"a-loss": 0.25, "epoch": 1, step: 20},
        {"a-late": 1.0, step: 20},
    ]
    kept = config(found)
    assert kept["lr"] == 0.1
    assert kept["net"] == {"act": "torch.nn.modules.activation.ReLU"}
    (first,) = [record.run for record in found if record.run.run_id]
    assert (first.display_name, first.project, list(first.tags)) == ("first", "digits", ["t"])
    axes = {record.metric.name or record.metric.glob_name: record.metric.step_metric for record in found}
    assert axes["*"] == step


def test_media_tables_and_watching(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logger = begun(offline(tmp_path))
    net = torch.nn.Linear(2, 1)
    logger.watch(net, log_freq=1, log_graph=False)
    net(torch.ones(1, 2)).sum().backward()
    logger.log_metrics({"loss": 1.0}, 1)
    logger.unwatch(net)
    logger.log_image("pictures", [np.zeros((4, 4, 3), dtype=np.uint8)] * 2, step=2, caption=["one", "two"])
    logger.log_text("texts", ["a", "b"], [["1", "2"]], step=2)
    (tmp_path / "a.mp4").write_bytes(b"data")
    logger.log_video("films", [str(tmp_path / "a.mp4")], step=3)
    # Its sounds want another package, which reads the file; what is ours is the list of them.
    monkeypatch.setattr(wandb, "Audio", lambda item, caption: wandb.Html(f"{item} {caption}"))
    logger.log_audio("sounds", ["a.wav"], step=3, caption=["noise"])
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument.*caption"):
        logger.log_image("pictures", [np.zeros((4, 4, 3), dtype=np.uint8)], caption=["one", "two"])
    run = logger.experiment
    run.finish()
    rows = history(records(tmp_path, run.id))
    assert rows[0]["gradients/weight/_type"] == "histogram"
    assert rows[1]["pictures/captions"] == ["one", "two"]
    assert (rows[2]["texts/_type"], rows[2]["texts/nrows"]) == ("table-file", 1)
    assert (rows[3]["films/_type"], rows[4]["sounds/_type"]) == ("videos", "html")
    assert [row["trainer/global_step"] for row in rows] == [1, 2, 2, 3, 3]


def test_the_users_own_run_is_used(tmp_path: Path) -> None:
    run = wandb.init(dir=tmp_path, mode="offline", project="mine")
    logger = begun(dt.WandbLogger())
    given = begun(dt.WandbLogger(experiment=run))
    assert logger.experiment is given.experiment is run
    assert logger.version == given.version == run.id
    logger.log_metrics({"a": 1.0}, 1)
    given.log_metrics({"b": 2.0}, 1)
    run.finish()
    step = {"trainer/global_step": 1}
    assert history(records(tmp_path, run.id)) == [{"a": 1.0, **step}, {"b": 2.0, **step}]


def test_two_loggers_have_two_runs(tmp_path: Path) -> None:
    loggers = [begun(offline(tmp_path, project=name)) for name in ("one", "two")]
    for number, logger in enumerate(loggers):
        logger.log_metrics({"number": float(number)}, 1)
    same = begun(offline(tmp_path, id=loggers[0].version))
    assert same.experiment is loggers[0].experiment
    for logger in loggers:
        logger.experiment.finish()
    found = [history(records(tmp_path, logger.version))[0]["number"] for logger in loggers]
    assert found == [0.0, 1.0]


def test_an_id_names_the_run(tmp_path: Path) -> None:
    logger = offline(tmp_path, version="mine")
    assert logger.version == "mine"
    assert begun(logger).experiment.id == "mine"


def artifacts(found: list[Any]) -> list[Any]:
    return [
        record.request.log_artifact.artifact if record.request.HasField("log_artifact") else record.artifact
        for record in found
        if record.HasField("artifact") or record.request.HasField("log_artifact")
    ]


@pytest.mark.parametrize(("log_model", "counts"), [(False, [0, 0, 0]), (True, [0, 0, 2]), ("all", [1, 2, 2])])
def test_checkpoints_are_uploaded_when_asked_for(tmp_path: Path, log_model: Any, counts: list[int]) -> None:
    logger = begun(offline(tmp_path, log_model=log_model))
    uploaded = []
    kept = logger.experiment.log_artifact
    logger.experiment.log_artifact = lambda *args, **kwargs: (uploaded.append(kwargs), kept(*args, **kwargs))
    callback = SimpleNamespace(
        best_k_models={}, best_model_path="", last_model_path="", best_model_score=None
    )
    found = []
    for name, score in (("a.ckpt", 0.5), ("b.ckpt", 0.7)):
        path = str(tmp_path / name)
        Path(path).write_text(name)
        callback.best_k_models[path] = torch.tensor(score)
        callback.last_model_path = path
        callback.best_model_path = str(tmp_path / "a.ckpt")
        logger.after_save_checkpoint(callback)
        found.append(len(uploaded))
    logger.finalize("success")
    assert [*found, len(uploaded)] == counts
    run = logger.experiment
    run.finish()
    there = artifacts(records(tmp_path, run.id))
    assert len(there) == counts[-1]
    if there:
        assert {one.name for one in there} == {f"model-{run.id}"}
        assert json.loads(there[0].metadata)["original_filename"] == "a.ckpt"
        assert json.loads(there[0].metadata)["score"] == 0.5
        assert list(there[-1].aliases) == ["latest"]
        assert there[0].manifest.contents[0].path == "model.ckpt"


def test_another_rank_opens_nothing_and_knows_the_run(tmp_path: Path) -> None:
    logger = offline(tmp_path)
    other = on_rank_one(logger)
    other.log_metrics({"loss": 1.0}, 1)
    other.watch(torch.nn.Linear(1, 1))
    other.experiment.config.update({"a": 1})
    assert other.version == logger.version == logger.experiment.id
    logger.experiment.finish()
    assert history(records(tmp_path, logger.version)) == []
    assert len(list(tmp_path.glob("wandb/offline-run-*"))) == 1


@pytest.mark.parametrize("given", [{"log_model": "some"}, {"version": "a", "id": "b"}])
def test_other_arguments_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument"):
        dt.WandbLogger(**given)
