from __future__ import annotations

import os
from pathlib import Path

import fsspec

from drivetrain.checkpoint_io.newest import newest_of


def write(path: Path, seconds: int) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("")
    os.utime(path, (seconds, seconds))
    return str(path)


def test_the_file_that_was_written_last_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a" / "epoch=1.ckpt", 10)
    newest = write(tmp_path / "b" / "last.ckpt", 30)
    write(tmp_path / "b" / ".last.ckpt.0a.tmp", 40)
    write(tmp_path / "b" / ".hidden.ckpt", 40)
    write(tmp_path / "b" / "notes.txt", 40)
    (tmp_path / "b" / "folder.ckpt").mkdir()
    signalled = write(tmp_path / "signal.ckpt", 20)
    folders = [str(tmp_path / name) for name in ("a", "b", "a", "missing")]
    assert newest_of(folders, [signalled]) == newest
    assert newest_of(folders[:1], [signalled]) == signalled
    assert newest_of([str(tmp_path / "missing")], [str(tmp_path / "missing.ckpt")]) is None


def test_a_file_is_looked_for_where_it_is_said_to_be(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "signal.ckpt", 10)
    assert newest_of([], ["/signal.ckpt"]) is None
    assert newest_of([], ["signal.ckpt"]) == newest_of(["."], []) == "signal.ckpt"
    bracketed = write(tmp_path / "run[1].ckpt", 20)
    assert newest_of([], [bracketed]) == bracketed


def test_a_store_is_asked_when_its_files_were_written() -> None:
    for name in ("one", "two", "three"):
        with fsspec.open(f"memory://newest/of/{name}.ckpt", "wb") as file:
            file.write(b"")
    fsspec.filesystem("memory").pipe("/newest/of/note.txt", b"")
    assert newest_of(["memory://newest/of"], []) == "memory://newest/of/three.ckpt"
    assert (
        newest_of([], ["memory://newest/of/two.ckpt", "memory://newest/none.ckpt"])
        == "memory://newest/of/two.ckpt"
    )
    assert newest_of(["memory://newest/nowhere"], []) is None
