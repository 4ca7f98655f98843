from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams import plugin_data_pb2

import drivetrain as dt
from tests.loggers.told import begun, names, on_rank_one


def read(path: str) -> EventAccumulator:
    found = EventAccumulator(path)
    found.Reload()
    return found


def scalars(path: str) -> dict[str, list[tuple[int, float]]]:
    events = read(path)
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def hparams(path: str) -> tuple[dict[str, Any], list[str]]:
    """Return the values and the columns that TensorBoard's HPARAMS tab reads."""
    found = read(path).summary_metadata
    values: dict[str, Any] = {}
    columns = []
    for metadata in found.values():
        data = plugin_data_pb2.HParamsPluginData.FromString(metadata.plugin_data.content)
        for name, value in data.session_start_info.hparams.items():
            values[name] = getattr(value, value.WhichOneof("kind"))
        columns += [one.name.tag for one in data.experiment.metric_infos]
    return values, columns


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_tensorboard_reads_what_was_logged(tmp_path: Path, kind: str) -> None:
    root = str(tmp_path) if kind == "disk" else f"memory://{uuid.uuid4().hex}"
    logger = begun(dt.TensorBoardLogger(root))
    for step in (10, 20):
        logger.log_metrics({"loss": step / 8, "epoch": 0}, step)
    logger.save()
    assert logger.log_dir == f"{root}/drivetrain_logs/version_0"
    assert scalars(logger.log_dir) == {"loss": [(10, 1.25), (20, 2.5)], "epoch": [(10, 0), (20, 0)]}
    logger.finalize("success")


def test_a_write_after_the_end_goes_on(tmp_path: Path) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path))
    logger.log_metrics({"loss": 1.0}, 1)
    logger.finalize("success")
    begun(logger, "test")
    logger.log_metrics({"test": 2.0}, 1)
    logger.finalize("success")
    assert scalars(logger.log_dir) == {"loss": [(1, 1.0)], "test": [(1, 2.0)]}


def test_hyperparameters_are_on_their_tab_and_in_a_file(tmp_path: Path) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path))
    logger.log_hyperparams({"lr": 0.1, "net": {"act": torch.nn.ReLU, "bias": True, "init": None}})
    logger.finalize("success")
    values, columns = hparams(logger.log_dir)
    assert values == {
        "lr": 0.1,
        "net/act": "torch.nn.modules.activation.ReLU",
        "net/bias": True,
        "net/init": "None",
    }
    assert columns == ["hp_metric"]
    assert scalars(logger.log_dir) == {}, "no value is made up"
    assert yaml.safe_load(Path(logger.log_dir, "hparams.yaml").read_text())["net"]["init"] is None


@pytest.mark.parametrize(
    ("metrics", "columns"),
    [({"score": 0.5, "other": 1.0}, {"score": 0.5, "other": 1.0}), (0.5, {"hp_metric": 0.5})],
)
def test_results_stand_beside_hyperparameters(
    tmp_path: Path, metrics: Any, columns: dict[str, float]
) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path, prefix="a"))
    logger.log_hyperparams({"lr": 0.1}, metrics, step=3)
    logger.finalize("success")
    named = {f"a-{name}": [(3, value)] for name, value in columns.items()}
    assert scalars(logger.log_dir) == named
    assert sorted(hparams(logger.log_dir)[1]) == sorted(named)


def test_no_column_is_made_without_the_default_metric(tmp_path: Path) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path, default_hp_metric=False))
    logger.log_hyperparams({"lr": 0.1})
    logger.finalize("success")
    assert hparams(logger.log_dir) == ({"lr": 0.1}, [])


def test_all_of_a_run_is_in_one_file(tmp_path: Path) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path, sub_dir="sub", filename_suffix=".mine"))
    logger.log_hyperparams({"lr": 0.1}, {"score": 0.5})
    logger.log_metrics({"loss": 1.0}, 1)
    logger.finalize("success")
    assert logger.log_dir == str(tmp_path / "drivetrain_logs" / "version_0" / "sub")
    (events,) = [name for name in names(logger.log_dir) if name.startswith("events")]
    assert events.endswith(".mine")


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
        self.dropout = torch.nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.layer(x))


def test_the_graph_is_written_on_request(tmp_path: Path) -> None:
    net = Net()
    net.layer.eval()
    net.example_input_array = torch.zeros(1, 3)
    logger = begun(dt.TensorBoardLogger(tmp_path, log_graph=True))
    logger.log_graph(net)
    logger.finalize("success")
    assert any("layer" in node.name for node in read(logger.log_dir).Graph().node)
    assert (net.training, net.layer.training, net.dropout.training) == (True, False, True)

    other = begun(dt.TensorBoardLogger(tmp_path))
    other.log_graph(net)
    other.log_metrics({"a": 1.0}, 1)
    other.finalize("success")
    assert not read(other.log_dir).Tags()["graph"]


def test_a_graph_needs_an_example(tmp_path: Path) -> None:
    logger = begun(dt.TensorBoardLogger(tmp_path, log_graph=True))
    with pytest.raises(dt.LoggerError, match=r"logger.no-example"):
        logger.log_graph(Net())
    logger.log_graph(Net(), torch.zeros(2, 3))
    logger.finalize("success")


def written(tmp_path: Path) -> dt.TensorBoardLogger:
    logger = begun(dt.TensorBoardLogger(tmp_path, "n", "mine"))
    for step in range(1, 6):
        logger.log_metrics({"loss": float(step)}, step)
    logger.finalize("failed")
    return logger


def test_a_resumed_run_hides_what_comes_again(tmp_path: Path) -> None:
    written(tmp_path)
    logger = begun(dt.TensorBoardLogger(tmp_path, "n", "mine"), resumed_step=3)
    for step in range(4, 8):
        logger.log_metrics({"loss": step + 0.5}, step)
    logger.finalize("success")
    found = scalars(logger.log_dir)["loss"]
    assert found == [(1, 1.0), (2, 2.0), (3, 3.0), (4, 4.5), (5, 5.5), (6, 6.5), (7, 7.5)]


def test_a_new_fit_never_mixes_with_another_run(tmp_path: Path) -> None:
    path = written(tmp_path).log_dir
    before = names(path)
    with pytest.raises(dt.LoggerError, match=r"logger.version-exists"):
        begun(dt.TensorBoardLogger(tmp_path, "n", "mine"))
    assert names(path) == before
    early = dt.TensorBoardLogger(tmp_path, "n", "mine")
    early.experiment.add_text("note", "before the run begins")
    with pytest.raises(dt.LoggerError, match=r"logger.version-exists"):
        begun(early)
    early.finalize("failed")


def test_an_evaluation_adds_to_a_named_version(tmp_path: Path) -> None:
    written(tmp_path)
    logger = begun(dt.TensorBoardLogger(tmp_path, "n", "mine"), stage="test")
    logger.log_metrics({"test": 0.5}, 5)
    logger.finalize("success")
    assert scalars(logger.log_dir)["test"] == [(5, 0.5)]
    assert len(scalars(logger.log_dir)["loss"]) == 5


def test_two_loggers_may_share_a_folder(tmp_path: Path) -> None:
    loggers = [begun(kind(tmp_path, "n", "mine")) for kind in (dt.TensorBoardLogger, dt.CSVLogger)]
    for logger in loggers:
        logger.log_metrics({"loss": 1.0}, 1)
        logger.finalize("success")
    assert {name.split(".")[0] for name in names(loggers[0].log_dir)} == {"events", "metrics"}


def test_another_rank_makes_no_file(tmp_path: Path) -> None:
    logger = dt.TensorBoardLogger(tmp_path)
    logger.experiment.add_scalar("before", 1.0, 1)  # a writer is open when the logger travels
    other = on_rank_one(logger)
    other.experiment.add_scalar("other", 1.0, 1)
    other.log_metrics({"other": 1.0}, 1)
    other.finalize("success")
    logger.finalize("success")
    assert list(scalars(logger.log_dir)) == ["before"]
    assert other.log_dir == logger.log_dir
