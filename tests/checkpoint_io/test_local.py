from __future__ import annotations

import os
import pickle
import resource
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

import drivetrain as dt
from drivetrain.checkpoint_io.local import LocalCheckpointIO

GOOD = {"w": torch.arange(6.0), "nested": {"a": [1, 2.5, None, "x", (True, b"y")], "o": OrderedDict(k=1)}}


@pytest.mark.parametrize("place", ["{}/new/a.ckpt", "memory://folder/a.ckpt"])
def test_what_is_saved_is_loaded_and_removed(tmp_path: Path, place: str) -> None:
    storage, path = LocalCheckpointIO(), place.format(tmp_path)
    storage.save(GOOD, path)
    found = storage.load(path)
    assert torch.equal(found["w"], GOOD["w"])
    assert found["nested"] == GOOD["nested"]
    storage.remove(path)
    storage.remove(path)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.missing"):
        storage.load(path)


def test_a_failed_save_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch) -> None:
    storage, path = LocalCheckpointIO(), tmp_path / "a.ckpt"
    storage.save(GOOD, path)
    before = path.read_bytes()
    real = torch.save

    def half(checkpoint, file):
        real(checkpoint, file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.write.*No space left"):
        storage.save({"w": torch.zeros(1)}, path)
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.ckpt"]


def test_a_disk_that_is_full_within_a_tensor_is_told_in_the_systems_words(tmp_path: Path) -> None:
    storage, path = LocalCheckpointIO(), tmp_path / "a.ckpt"
    storage.save(GOOD, path)
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.write.*File too large"):
            storage.save({"w": torch.zeros(100_000)}, path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [found.name for found in tmp_path.iterdir()] == ["a.ckpt"]


class Bomb:
    def __reduce__(self):
        return os.mkdir, ("exploded",)


def test_an_error_that_the_caller_handles_is_not_the_reason(tmp_path: Path, monkeypatch) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the writer is broken")

    monkeypatch.setattr(torch, "save", fails)
    try:
        (tmp_path / "missing").read_text()
    except OSError:
        with pytest.raises(dt.CheckpointError, match="the writer is broken") as caught:
            LocalCheckpointIO().save(dict(GOOD), tmp_path / "a.ckpt")
    assert "No such file" not in str(caught.value)


def test_a_hostile_file_runs_nothing(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"state_dict": Bomb()}, "bomb.ckpt")
    Path("raw.ckpt").write_bytes(pickle.dumps(Bomb()))
    for name in ("bomb.ckpt", "raw.ckpt"):
        with pytest.raises(
            dt.CheckpointError, match=r"nothing in it was run|not a whole checkpoint"
        ) as caught:
            LocalCheckpointIO().load(name)
        assert name in str(caught.value)
    assert not Path("exploded").exists()
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.unsafe"):
        LocalCheckpointIO().load("bomb.ckpt")


def test_a_torn_file_is_never_taken_for_a_good_one(tmp_path: Path) -> None:
    storage, path = LocalCheckpointIO(), tmp_path / "a.ckpt"
    storage.save(GOOD, path)
    whole = path.read_bytes()
    for size in (0, 1, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(dt.CheckpointError, match=r"checkpoint.torn") as caught:
            storage.load(path)
        assert str(path) in str(caught.value)
    torch.save([1], path)
    with pytest.raises(dt.CheckpointError, match=r"holds a list"):
        storage.load(path)


def test_what_could_not_be_read_back_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.not-plain\] .* callbacks\.Mine\[1\] is a set"):
        LocalCheckpointIO().save({"callbacks": {"Mine": [0, {1}]}}, tmp_path / "a.ckpt")
    assert not list(tmp_path.iterdir())


def test_a_missing_file_lists_its_neighbours(tmp_path: Path) -> None:
    LocalCheckpointIO().save(GOOD, tmp_path / "other.ckpt")
    with pytest.raises(dt.CheckpointError, match=r"holds other\.ckpt"):
        LocalCheckpointIO().load(tmp_path / "a.ckpt")
