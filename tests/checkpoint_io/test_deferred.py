from __future__ import annotations

import copy
import pickle
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch

import drivetrain as dt
from tests.callbacks.scripted import names
from tests.loops.models import Regression, loader, quiet


class Slow(dt.WrappingCheckpointIO):
    """Writes when it is let, and fails when it is told to; notes what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.done: list[str] = []
        self.failing = ""

    def save(self, checkpoint: dict[str, Any], path: Any) -> None:
        assert self.may_write.wait(10)
        if self.failing:
            raise dt.CheckpointError("checkpoint.write", self.failing)
        super().save(checkpoint, path)
        self.done.append(f"saved {Path(path).name}")

    def remove(self, path: Any) -> None:
        super().remove(path)
        self.done.append(f"removed {Path(path).name}")


@pytest.fixture
def slow():
    one = Slow()
    yield one
    one.may_write.set()


def test_what_is_written_is_what_there_was(tmp_path: Path, slow: Slow) -> None:
    storage, weight, seen = dt.AsyncCheckpointIO(slow), torch.zeros(3), [1, {"x": [2]}]
    storage.save({"w": weight, "seen": seen}, tmp_path / "a.ckpt")
    weight += 1
    seen[1]["x"].append(3)
    assert not names(tmp_path)
    slow.may_write.set()
    assert torch.equal(storage.load(tmp_path / "a.ckpt")["w"], torch.zeros(3))
    assert storage.load(tmp_path / "a.ckpt")["seen"] == [1, {"x": [2]}]


def test_the_next_save_waits(tmp_path: Path, slow: Slow) -> None:
    storage = dt.AsyncCheckpointIO(slow)
    storage.save({"n": 1}, tmp_path / "a.ckpt")
    threading.Timer(0.1, slow.may_write.set).start()
    storage.save({"n": 2}, tmp_path / "b.ckpt")
    assert slow.done[0] == "saved a.ckpt"
    storage.teardown()
    assert slow.done == ["saved a.ckpt", "saved b.ckpt"]
    storage.save({"n": 3}, tmp_path / "c.ckpt")  # it may be used again
    storage.wait()
    assert storage.load(tmp_path / "c.ckpt") == {"n": 3}


@pytest.mark.parametrize("later", ["save", "load", "wait", "teardown"])
def test_a_failed_write_is_raised_once_by_what_comes_next(tmp_path: Path, slow: Slow, later: str) -> None:
    storage = dt.AsyncCheckpointIO(slow)
    slow.failing = "no room"
    slow.may_write.set()
    storage.save({"n": 1}, tmp_path / "a.ckpt")
    slow_call = {
        "save": lambda: storage.save({"n": 2}, tmp_path / "b.ckpt"),
        "load": lambda: storage.load(tmp_path / "b.ckpt"),
        "wait": storage.wait,
        "teardown": storage.teardown,
    }[later]
    with pytest.raises(dt.CheckpointError, match="no room"):
        slow_call()
    slow.failing = ""
    storage.save({"n": 3}, tmp_path / "c.ckpt")
    storage.wait()
    assert names(tmp_path) == ["c.ckpt"]


def test_what_cannot_be_written_is_said_at_once(tmp_path: Path) -> None:
    storage = dt.AsyncCheckpointIO()
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.not-plain"):
        storage.save({"mine": object()}, tmp_path / "a.ckpt")
    storage.wait()


def test_a_file_is_removed_after_what_is_being_written(tmp_path: Path, slow: Slow) -> None:
    storage = dt.AsyncCheckpointIO(slow)
    slow.may_write.set()
    storage.save({"n": 1}, tmp_path / "a.ckpt")
    storage.wait()
    slow.may_write.clear()
    storage.save({"n": 2}, tmp_path / "b.ckpt")
    storage.remove(tmp_path / "a.ckpt")
    storage.remove(tmp_path / "b.ckpt")  # the one that is being written
    assert names(tmp_path) == ["a.ckpt"]
    slow.may_write.set()
    storage.wait()
    assert slow.done[1:] == ["saved b.ckpt", "removed a.ckpt", "removed b.ckpt"]


def test_a_file_stays_if_the_next_could_not_be_written(tmp_path: Path, slow: Slow) -> None:
    storage = dt.AsyncCheckpointIO(slow)
    slow.may_write.set()
    storage.save({"n": 1}, tmp_path / "a.ckpt")
    storage.wait()
    slow.failing = "no room"
    slow.may_write.clear()
    storage.save({"n": 2}, tmp_path / "b.ckpt")
    storage.remove(tmp_path / "a.ckpt")
    slow.may_write.set()
    with pytest.raises(dt.CheckpointError, match="no room"):
        storage.wait()
    assert names(tmp_path) == ["a.ckpt"]
    storage.remove(tmp_path / "a.ckpt")
    assert not names(tmp_path)


def test_tensors_are_copied_as_they_are(tmp_path: Path) -> None:
    tied, weight = torch.zeros(1000), torch.nn.Parameter(torch.ones(2))
    given = {"a": tied, "b": tied.detach(), "part": tied[:2], "p": weight, "s": torch.eye(3).to_sparse()}
    given |= {"conj": torch.ones(2, dtype=torch.complex64).conj(), "empty": torch.zeros(0, 3)}
    storage = dt.AsyncCheckpointIO()
    storage.save(given, tmp_path / "a.ckpt")
    found = storage.load(tmp_path / "a.ckpt")
    assert found["a"].data_ptr() == found["b"].data_ptr() != tied.data_ptr()
    assert isinstance(found["p"], torch.nn.Parameter)
    assert torch.equal(found["s"].to_dense(), torch.eye(3))
    assert torch.equal(found["conj"], given["conj"])
    assert (tmp_path / "a.ckpt").stat().st_size < 12_000


def test_a_copy_of_it_has_nothing_to_write(tmp_path: Path, slow: Slow) -> None:
    storage = dt.AsyncCheckpointIO()
    storage.save({"n": 1}, tmp_path / "a.ckpt")
    for other in (copy.deepcopy(storage), pickle.loads(pickle.dumps(storage))):  # noqa: S301 - its own bytes
        other.save({"n": 2}, tmp_path / "b.ckpt")
        other.teardown()
    storage.teardown()
    assert names(tmp_path) == ["a.ckpt", "b.ckpt"]


@pytest.mark.parametrize("plugin", [dt.AsyncCheckpointIO(), dt.AsyncCheckpointIO(dt.WrappingCheckpointIO())])
def test_a_fit_saves_by_it_and_keeps_the_best(tmp_path: Path, plugin: dt.AsyncCheckpointIO) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", save_top_k=2, save_last="link", mode="max")
    trainer = quiet(max_epochs=5, callbacks=[saves], plugins=[plugin])
    assert trainer.plan.checkpoint_io == "async"
    trainer.fit(Regression(), loader(12), loader(8))
    assert len(saves.best_k_models) == 2
    assert names(tmp_path) == sorted([*(Path(path).name for path in saves.best_k_models), "last.ckpt"])
    assert dt.LocalCheckpointIO().load(tmp_path / "last.ckpt")["epoch"] in (4, 5)
    again = quiet(max_epochs=6, callbacks=[saves], plugins=[plugin])
    assert again.fit(Regression(), loader(12), loader(8), ckpt_path=saves.last_model_path).steps_here == 3


class Late(dt.WrappingCheckpointIO):
    """Writes the second epoch's file slowly, so that the third's save waits for it."""

    def save(self, checkpoint: dict[str, Any], path: Any) -> None:
        if checkpoint["global_step"] == 4:
            time.sleep(0.2)
        super().save(checkpoint, path)


class Unhurried(dt.Callback):
    def on_train_epoch_start(self, trainer, module):
        time.sleep(0.05)


def test_a_last_file_that_came_late_is_replaced(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path, monitor="val", mode="max", save_top_k=1, save_last=True)
    trainer = quiet(max_epochs=5, callbacks=[saves, Unhurried()], plugins=[dt.AsyncCheckpointIO(Late())])
    trainer.fit(Regression(), loader(8), loader(8))
    assert names(tmp_path) == ["epoch=0-step=2.ckpt", "last.ckpt"]
    assert dt.LocalCheckpointIO().load(tmp_path / "last.ckpt")["global_step"] == 10


def test_two_files_of_one_name_are_two(tmp_path: Path, slow: Slow) -> None:
    saves = dt.ModelCheckpoint(tmp_path, filename="same", save_top_k=2)
    threading.Timer(0.3, slow.may_write.set).start()
    trainer = quiet(max_epochs=2, callbacks=[saves], plugins=[dt.AsyncCheckpointIO(slow)])
    trainer.fit(Regression(), loader(8))
    assert names(tmp_path) == ["same-v1.ckpt", "same.ckpt"]


def test_a_failure_of_the_last_write_ends_the_fit(tmp_path: Path, slow: Slow, capsys) -> None:
    slow.failing = "no room"
    slow.may_write.set()
    saves = dt.ModelCheckpoint(tmp_path)
    trainer = quiet(max_epochs=1, callbacks=[saves], plugins=[dt.AsyncCheckpointIO(slow)])
    with pytest.raises(dt.CheckpointError, match="no room"):
        trainer.fit(Regression(), loader(8))
    slow.failing = ""
    trainer.fit(Regression(), loader(8))
    trainer.save_checkpoint(tmp_path / "after.ckpt")
    assert "after.ckpt" in names(tmp_path)


class Fails(Regression):
    def on_train_epoch_start(self):
        if self.current_epoch == 1:
            raise ValueError("the user's own")


def test_a_failed_write_does_not_hide_why_a_run_stopped(tmp_path: Path, slow: Slow, capfd) -> None:
    slow.failing = "no room"
    slow.may_write.set()
    trainer = quiet(
        max_epochs=2, callbacks=[dt.ModelCheckpoint(tmp_path)], plugins=[dt.AsyncCheckpointIO(slow)]
    )
    with pytest.raises(ValueError, match="the user's own"):
        trainer.fit(Fails(), loader(8))
    assert "a checkpoint was not written: [checkpoint.write] no room" in capfd.readouterr().err


def test_an_engine_waits_for_its_last_save(tmp_path: Path, slow: Slow) -> None:
    engine = dt.Engine(accelerator="cpu", devices=1, plugins=[dt.AsyncCheckpointIO(slow)])
    threading.Timer(0.1, slow.may_write.set).start()
    engine.launch(lambda engine: engine.save(tmp_path / "a.ckpt", {"n": 1}))
    assert names(tmp_path) == ["a.ckpt"]
    slow.failing = "no room"
    with pytest.raises(dt.CheckpointError, match="no room"):
        engine.launch(lambda engine: engine.save(tmp_path / "b.ckpt", {"n": 1}))
