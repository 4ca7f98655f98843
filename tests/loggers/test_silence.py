from __future__ import annotations

import copy
import pickle

import pytest

from drivetrain.loggers.silence import Silence


def test_silence_takes_everything() -> None:
    experiment = Silence()
    experiment.config.update({"a": 1}, allow=True)
    experiment.log_artifact("x").wait()
    experiment["key"] = 1
    experiment.summary["best"] = experiment["last"]
    experiment.attribute = 2
    assert list(experiment.runs) == []
    with experiment.start_run() as run:
        run.log(1)
    assert pickle.loads(pickle.dumps(experiment)) is not None  # noqa: S301 - our own bytes
    assert copy.copy(experiment).anything() is not None
    with pytest.raises(AttributeError):
        experiment.__fspath__  # noqa: B018 - reading it is the test
