from __future__ import annotations

import os
from pathlib import Path

import pytest

from drivetrain.checkpoint_io.local import LocalCheckpointIO
from drivetrain.checkpoint_io.trace import trace


@pytest.mark.parametrize("place", ["{}/a.ckpt", "memory://traced/a.ckpt"])
def test_a_file_that_is_written_anew_has_another_trace(tmp_path: Path, place: str) -> None:
    storage, path = LocalCheckpointIO(), place.format(tmp_path)
    assert trace(path) is None
    storage.save({"a": 1}, path)
    first = trace(path)
    assert first is not None
    assert trace(path) == first
    storage.save({"a": [1] * 100}, path)
    assert trace(path) not in (None, first)
    storage.remove(path)
    assert trace(path) is None


def test_time_tells_files_of_one_size_apart_and_a_link_is_itself(tmp_path: Path) -> None:
    path, link = tmp_path / "a.ckpt", tmp_path / "last.ckpt"
    path.write_bytes(b"same")
    link.symlink_to("a.ckpt")
    before, of_link = trace(path), trace(link)
    os.utime(path, ns=(0, 5))
    assert trace(path) != before
    assert trace(link) == of_link
    path.unlink()
    assert trace(link) == of_link
    assert trace(path / "below") is None
