"""Offline experiments of Comet, read back from the zip file that its upload would send."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.loggers.told import begun, on_rank_one

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # comet leaves a socket to the collector
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # as above
]
QUIET = {
    "log_code": False,
    "log_git_metadata": False,
    "log_git_patch": False,
    "log_env_details": False,
    "auto_output_logging": "",
    "display_summary_level": 0,
}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No account, no settings of whoever runs the tests."""
    for name, value in (("CONFIG", str(tmp_path / "none")), ("LOGGING_CONSOLE", "ERROR")):
        monkeypatch.setenv(f"COMET_{name}", value)
    monkeypatch.delenv("COMET_API_KEY", raising=False)


def offline(folder: Path, **kwargs: Any) -> dt.CometLogger:
    return dt.CometLogger(online=False, offline_directory=str(folder), **QUIET, **kwargs)


def messages(folder: Path) -> list[dict[str, Any]]:
    """Return what an upload of the only experiment would send."""
    (path,) = folder.glob("*.zip")
    with zipfile.ZipFile(path) as archive:
        lines = archive.read("messages.json").decode().splitlines()
    return [json.loads(line) for line in lines]


def test_an_experiment_holds_what_was_logged(tmp_path: Path) -> None:
    logger = begun(offline(tmp_path, project="digits", prefix="a", tags=["t"]))
    logger.log_hyperparams({"lr": 0.1, "net": {"sizes": [1, 2]}}, {"best": 0.5})
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 10)
    logger.log_metrics({"loss": 0.25, "epoch": 1}, 20)
    logger.log_graph(torch.nn.Linear(2, 1))
    logger.save()
    logger.finalize("success")
    assert (logger.name, logger.save_dir) == ("digits", str(tmp_path))
    assert logger.version == logger.experiment.get_key()
    logger.experiment.end()
    found = messages(tmp_path)
    metrics = [one["payload"]["metric"] for one in found if one["type"] == "metric_msg"]
    points = {(one["metricName"], one["metricValue"], one["step"], one["epoch"]) for one in metrics}
    assert points == {("a-best", 0.5, 0, None), ("a-loss", 0.5, 10, 0), ("a-loss", 0.25, 20, 1)}
    text = json.dumps(found)
    for part in ('"net/sizes"', '"[1, 2]"', "Linear(in_features=2", '"drivetrain"', '"success"'):
        assert part in text, part


def test_another_rank_opens_nothing_and_knows_the_experiment(tmp_path: Path) -> None:
    logger = offline(tmp_path)
    other = on_rank_one(logger)
    other.log_metrics({"other": 1.0}, 1)
    other.log_graph(torch.nn.Linear(2, 1))
    other.experiment.log_other("other", 1)
    assert other.version == logger.version
    logger.experiment.end()
    assert '"other"' not in json.dumps([one for one in messages(tmp_path) if one["type"] != "ws_msg"])


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(dt.LoggerError, match=r"logger.bad-argument"):
        dt.CometLogger(mode="some")
