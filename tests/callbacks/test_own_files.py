from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

import drivetrain as dt
from drivetrain.callbacks.own_files import OwnFiles, link
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from tests.callbacks.scripted import names

STORAGE = LocalCheckpointIO()


def written(files: OwnFiles, path: Path, text: str = "of this run") -> str:
    files.plan(str(path))
    with files.writing(str(path)):
        path.write_text(text)
    return str(path)


def test_only_what_this_run_wrote_is_removed(tmp_path: Path) -> None:
    files = OwnFiles()
    mine, taken = written(files, tmp_path / "mine"), written(files, tmp_path / "taken")
    newest = written(files, tmp_path / "newest")
    Path(taken).write_text("of another run, which came later")
    for path in (mine, taken, str(tmp_path / "never mine")):
        files.drop(path)
    files.sweep(STORAGE, newest)
    assert names(tmp_path) == ["newest", "taken"]
    assert not files.is_own(taken)
    assert files.is_own(newest)


def test_nothing_is_removed_before_the_next_file_is_whole(tmp_path: Path) -> None:
    files = OwnFiles()
    old = written(files, tmp_path / "old")
    files.drop(old)
    files.sweep(STORAGE, "")
    files.sweep(STORAGE, str(tmp_path / "new"))
    assert names(tmp_path) == ["old"]
    new = written(files, tmp_path / "new")
    files.sweep(STORAGE, new)
    assert names(tmp_path) == ["new"]


def test_what_is_written_later_by_another_thread_is_trusted(tmp_path: Path) -> None:
    files, path = OwnFiles(), tmp_path / "later"
    path.write_text("old")
    files.plan(str(path))
    with files.writing(str(path)):
        pass
    path.write_text("the new one is there")
    assert files.is_own(str(path))


def test_a_resumed_run_knows_its_files_by_their_traces(tmp_path: Path) -> None:
    files = OwnFiles()
    kept, changed, gone = (written(files, tmp_path / name) for name in ("kept", "changed", "gone"))
    doomed, freed = written(files, tmp_path / "doomed"), written(files, tmp_path / "freed")
    files.drop(doomed)
    files.drop(freed)
    files.plan(str(tmp_path / "itself"))
    state = files.state_dict()  # as the file "itself" holds it
    (tmp_path / "itself").write_text("")
    Path(changed).write_text("of another run")
    Path(gone).unlink()
    Path(freed).unlink()
    Path(freed).write_text("of another run that took the name")

    again = OwnFiles()
    again.load_state_dict(state)
    assert again.look_again() == [kept, str(tmp_path / "itself")]
    again.sweep(STORAGE, kept)
    assert names(tmp_path) == ["changed", "freed", "itself", "kept"]


class Alone:
    is_global_zero = True
    strategy = SimpleNamespace(checkpoint_io=STORAGE)

    @property
    def collectives(self):
        return self

    def broadcast_object(self, value):
        return value


def test_a_link_points_from_where_it_is_and_replaces_the_one_before(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    for name in ("one", "two"):
        (tmp_path / name).write_text(name)
        link(Alone(), str(tmp_path / name), str(tmp_path / "a" / "last"))
        assert (tmp_path / "a" / "last").read_text() == name
    assert (tmp_path / "a" / "last").readlink() == Path("../two")
    with pytest.raises(dt.CheckpointError, match=r"checkpoint.write"):
        link(Alone(), "target", str(tmp_path / "no folder" / "last"))
    assert names(tmp_path / "a") == ["last"]
