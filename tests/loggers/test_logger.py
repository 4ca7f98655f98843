from __future__ import annotations

import copy
import functools
import os
import pickle
from pathlib import Path

import pytest

import drivetrain as dt
from drivetrain.loggers.logger import DummyLogger
from drivetrain.modules.run import Logs
from tests.loggers.test_rank import TORCHRUN
from tests.loggers.told import begun, on_rank_one


class Lines(dt.Logger):
    """A user's logger, as they would write it: no word about ranks."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def version(self) -> str:
        return f"process {os.getpid()}"

    @property
    def log_dir(self) -> str:
        return str(self.path.parent)

    @property
    def experiment(self):
        if self._experiment is None:
            self._experiment = self.path.open("a")
        return self._experiment

    def log_metrics(self, metrics, step=None):
        for name, value in metrics.items():
            print(step, name, value, file=self.experiment)

    def log_hyperparams(self, params, metrics=None):
        print(dict(params), file=self.experiment)

    def log_text(self, text):
        print(text, file=self.experiment)

    def save(self):
        self.experiment.flush()


class Twice(Lines):
    def log_metrics(self, metrics, step=None):
        super().log_metrics(metrics, step)
        super().log_metrics(metrics, step)


def use(logger: Lines) -> None:
    logger.log_metrics({"loss": 0.5}, 3)
    logger.log_hyperparams({"lr": 0.1})
    logger.log_text("hello")
    logger.experiment.write("raw\n")
    logger.save()
    logger.finalize("success")


def test_a_users_logger_writes_on_rank_0_without_asking_for_the_rank(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    logger = Lines(path)
    other = on_rank_one(logger)
    use(other)
    assert not path.exists()
    use(logger)
    assert path.read_text().splitlines() == ["3 loss 0.5", "{'lr': 0.1}", "hello", "raw"]
    logger.experiment.close()


def test_super_calls_go_through(tmp_path: Path) -> None:
    logger = begun(Twice(tmp_path / "lines"))
    use(logger)
    assert (tmp_path / "lines").read_text().count("loss") == 2
    logger.experiment.close()


def test_properties_are_on_every_rank_what_rank_0_says(tmp_path: Path) -> None:
    logger = Lines(tmp_path / "lines")
    other = on_rank_one(logger)
    other.path = Path("elsewhere/lines")
    assert other.log_dir == str(tmp_path)
    assert (other.name, other.version) == ("Lines", f"process {os.getpid()}")


def test_what_is_open_stays_in_its_process(tmp_path: Path) -> None:
    logger = begun(Lines(tmp_path / "lines"))
    use(logger)
    twin = pickle.loads(pickle.dumps(logger))  # noqa: S301 - our own bytes
    assert twin._experiment is None
    assert not logger.experiment.closed
    logger.experiment.close()


def test_a_copy_in_this_process_still_writes(tmp_path: Path) -> None:
    logger = begun(Lines(tmp_path / "lines"))
    twin = copy.deepcopy(logger)
    use(twin)
    assert "3 loss 0.5" in (tmp_path / "lines").read_text()
    twin.experiment.close()


@pytest.mark.parametrize("rank", [0, 1])
def test_before_a_run_the_clusters_variables_say_who_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rank: int
) -> None:
    for name, value in {**TORCHRUN, "RANK": str(rank)}.items():
        monkeypatch.setenv(name, value)
    logger = Lines(tmp_path / "lines")
    use(logger)
    assert (tmp_path / "lines").exists() is (rank == 0)
    assert (logger.version is not None) is (rank == 0), "what rank 0 finds out is not known elsewhere"
    assert logger.name == "Lines"
    if rank == 0:
        logger.experiment.close()


def test_an_experiment_may_be_a_cached_property(tmp_path: Path) -> None:
    class Cached(Lines):
        @functools.cached_property
        def experiment(self):
            return self.path.open("a")

    logger = begun(Cached(tmp_path / "lines"))
    use(logger)
    assert logger.experiment is logger.experiment
    other = on_rank_one(logger)
    use(other)
    assert (tmp_path / "lines").read_text().count("loss") == 1
    logger.experiment.close()


def test_an_abstract_logger_cannot_be_made() -> None:
    with pytest.raises(TypeError, match="log_hyperparams"):
        dt.Logger()


def test_a_logger_needs_no_more_than_two_methods() -> None:
    class Least(dt.Logger):
        def log_metrics(self, metrics, step=None):
            self.got = (dict(metrics), self._at(step))

        def log_hyperparams(self, params, metrics=None):
            pass

    logger: Logs = Least()
    begun(logger)
    logger.log_metrics({"a": 1.0}, 7)
    logger.log_metrics({"b": 2.0})
    assert logger.got == ({"b": 2.0}, 7), "without a step, the newest one"
    logger.save()
    logger.finalize("success")
    logger.log_graph(None)
    logger.after_save_checkpoint(None)
    assert (logger.name, logger.version, logger.save_dir, logger.root_dir, logger.log_dir) == (
        "Least",
        None,
        None,
        None,
        None,
    )


def test_a_dummy_takes_what_loggers_have_besides() -> None:
    logger = begun(DummyLogger())
    logger.log_metrics({"a": 1.0}, 1)
    logger.log_hyperparams({"a": 1})
    logger.experiment.add_image("x", None)
    logger.watch(None)
    assert (logger.name, logger.version) == ("", "")
    assert pickle.loads(pickle.dumps(logger)).name == ""  # noqa: S301 - our own bytes
