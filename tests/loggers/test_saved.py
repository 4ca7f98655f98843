from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import fsspec
import torch

import drivetrain as dt
from drivetrain.loggers.saved import Saved, new_checkpoints, on_disk
from tests.loops.models import Regression, loader, quiet


def test_a_callbacks_files_are_found_once_each_time_they_change(tmp_path: Path) -> None:
    first, second = str(tmp_path / "a.ckpt"), str(tmp_path / "b.ckpt")
    for age, path in enumerate((second, first)):
        Path(path).write_text("x")
        os.utime(path, (100 - age, 100 - age))
    callback = SimpleNamespace(
        best_k_models={first: torch.tensor(0.5), second: torch.tensor(0.25), "gone.ckpt": 1.0},
        best_model_path=first,
        last_model_path=second,
    )
    seen: dict[str, float] = {}
    assert new_checkpoints(callback, seen) == [
        Saved(first, ("best",), 0.5),
        Saved(second, ("latest",), 0.25),
    ]
    assert new_checkpoints(callback, seen) == []
    os.utime(first, (200, 200))
    assert [one.path for one in new_checkpoints(callback, seen)] == [first]


def test_the_newest_of_our_model_checkpoint_is_found(tmp_path: Path) -> None:
    saves = dt.ModelCheckpoint(tmp_path)
    quiet(max_epochs=1, callbacks=[saves]).fit(Regression(), loader())
    (found,) = new_checkpoints(saves, {})
    assert (found.path, found.name, found.aliases) == (
        saves.last_model_path,
        "epoch=0-step=10.ckpt",
        ("latest", "best"),
    )


def test_a_remote_file_is_copied_for_the_upload() -> None:
    path = "memory://saved-test/a.ckpt"
    with fsspec.open(path, "wb") as file:
        file.write(b"weights")
    callback = SimpleNamespace(last_model_path=path)
    (found,) = new_checkpoints(callback, {})
    with on_disk(found) as copy:
        assert (Path(copy).name, Path(copy).read_bytes()) == ("a.ckpt", b"weights")
    assert not Path(copy).exists()


def test_nothing_saved_is_nothing() -> None:
    assert new_checkpoints(SimpleNamespace(), {}) == []
