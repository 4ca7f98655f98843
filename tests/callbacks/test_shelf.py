from __future__ import annotations

from pathlib import Path

from drivetrain.callbacks.shelf import Shelf
from drivetrain.checkpoint_io.local import LocalCheckpointIO
from tests.callbacks.scripted import names


def saved(shelf: Shelf, folder: Path, step: int, score: float, name: str, last: str = "") -> str:
    """Do what a save does, with empty files; return the ranked path's name."""

    def named(base: str):
        return lambda version: str(folder / (base if version is None else f"{base}-v{version}"))

    path = shelf.place(step, score, named(name), 1)
    last = shelf.place_last(named(last), 1) if last else ""
    shelf.take(step, path, score, last)
    for one in filter(None, (path, last)):
        with shelf.files.writing(one):
            Path(one).write_text(f"step {step}")
    shelf.claims.release()
    shelf.files.sweep(LocalCheckpointIO(), shelf.newest)
    return Path(path).name if path else ""


def test_a_taken_name_gets_a_number_and_strangers_stay(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("stranger")
    (tmp_path / "a-v1").write_text("stranger")
    shelf = Shelf(1, "min")
    assert saved(shelf, tmp_path, 1, 3.0, "a") == "a-v2"
    assert saved(shelf, tmp_path, 2, 4.0, "a") == ""
    assert saved(shelf, tmp_path, 3, 2.0, "b") == "b"
    assert names(tmp_path) == ["a", "a-v1", "b"]


def test_one_name_for_all_is_replaced_where_it_goes_anyway(tmp_path: Path) -> None:
    one, two = Shelf(1, "min"), Shelf(2, "min")
    for step, score in enumerate([3.0, 2.0, 1.0]):
        assert saved(one, tmp_path, step, score, "best") == "best"
    found = [saved(two, tmp_path, step, score, "top") for step, score in enumerate([3.0, 2.0, 1.0, 0.0])]
    assert found == ["top", "top-v1", "top", "top-v1"]
    assert {Path(path).name: score for path, score in two.ranking.scores.items()} == {
        "top": 1.0,
        "top-v1": 0.0,
    }
    assert names(tmp_path) == ["best", "top", "top-v1"]


def test_a_second_save_at_one_step_replaces_the_first(tmp_path: Path) -> None:
    shelf = Shelf(2, "min")
    saved(shelf, tmp_path, 1, 1.0, "a")
    saved(shelf, tmp_path, 2, 2.0, "b")
    assert saved(shelf, tmp_path, 2, 9.0, "b") == "b"
    assert saved(shelf, tmp_path, 2, 3.0, "c") == "c"
    assert names(tmp_path) == ["a", "c"]
    assert list(shelf.ranking.scores.values()) == [1.0, 3.0]


def test_last_is_one_file_under_any_name(tmp_path: Path) -> None:
    (tmp_path / "last").write_text("stranger")
    shelf = Shelf(0, "")
    saved(shelf, tmp_path, 1, 0.0, "a", "last")
    saved(shelf, tmp_path, 2, 0.0, "a", "last")
    assert {name: (tmp_path / name).read_text() for name in names(tmp_path)} == {
        "last": "stranger",
        "last-v1": "step 2",
    }
    saved(shelf, tmp_path, 3, 0.0, "a", "last at 3")
    assert names(tmp_path) == ["last", "last at 3"]


def test_after_a_resume_only_what_is_there_counts(tmp_path: Path) -> None:
    shelf = Shelf(3, "min")
    for step, name in enumerate(["a", "b", "c"]):
        saved(shelf, tmp_path, step, float(step), name, "last")
    state = shelf.state_dict()
    (tmp_path / "a").unlink()
    (tmp_path / "b").write_text("of another run by now")
    again = Shelf(3, "min")
    again.load_state_dict(state, owns=True)
    again.keep(again.look_again())
    assert [Path(path).name for path in again.ranking.scores] == ["c"]
    assert (Path(again.newest).name, Path(again.last).name, again.step) == ("c", "last", 2)

    elsewhere = Shelf(1, "min")
    elsewhere.load_state_dict(state, owns=False)
    elsewhere.keep(elsewhere.look_again())
    assert saved(elsewhere, tmp_path, 9, -1.0, "d") == "d"
    assert (tmp_path / "c").exists()
    assert list(elsewhere.ranking.scores.values()) == [-1.0]
