"""Whatever is logged, however often it is flushed, cut off and resumed: the file holds just that."""

from __future__ import annotations

import csv
import io
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import drivetrain as dt
from drivetrain.loggers.folder import Folder
from drivetrain.loggers.table import Table

NAME = "metrics.csv"

row = st.dictionaries(
    st.sampled_from(["epoch", "loss", "val", "acc", 'a "b",c']), st.sampled_from([0.5, 1.0])
)
action = st.one_of(st.tuples(st.integers(0, 2), row.filter(bool)), st.just("flush"))


def read(folder: Folder) -> list[dict[str, Any]]:
    text = (folder.read(NAME) or b"").decode()
    rows = csv.DictReader(io.StringIO(text))
    return [{name: float(value) for name, value in one.items() if value} for one in rows]


class Model:
    """What the file should hold, in the simplest way."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def add(self, step: int, values: dict[str, float]) -> None:
        last = self.rows[-1] if self.rows else {"step": None}
        if last["step"] == step and all(last.get(name, value) == value for name, value in values.items()):
            last.update(values)
        else:
            self.rows.append({"step": step, **values})


def play(table: Table, model: Model, actions: list[Any], step: int = 0) -> int:
    for one in actions:
        if one == "flush":
            table.flush()
            assert read(table._folder) == model.rows
        else:
            step += one[0]
            table.add(step, one[1])
            model.add(step, one[1])
    table.flush()
    assert read(table._folder) == model.rows
    return step


@pytest.mark.parametrize("kind", ["disk", "memory"])
@settings(max_examples=60, deadline=None)
@given(first=st.lists(action, max_size=12), then=st.lists(action, max_size=8), resumed=st.integers(0, 8))
def test_the_file_holds_what_was_logged(tmp_path_factory, kind, first, then, resumed) -> None:
    where = str(tmp_path_factory.mktemp("t")) if kind == "disk" else f"memory://{uuid.uuid4().hex}"
    model = Model()
    play(Table(Folder(where), NAME), model, first)
    again = Table(Folder(where), NAME)
    again.go_on(resumed)
    assert read(Folder(where)) == model.rows, "until something is written, nothing changes"
    again.add(resumed + 1, {"loss": 0.25})
    again.flush()
    model.rows = [one for one in model.rows if one["step"] <= resumed]
    model.add(resumed + 1, {"loss": 0.25})
    assert read(Folder(where)) == model.rows
    play(again, model, then, resumed + 1)


def test_a_file_grows_at_its_end(tmp_path) -> None:
    table = Table(Folder(str(tmp_path)), NAME)
    table.add(1, {"loss": 0.5})
    table.flush()
    inode = (tmp_path / NAME).stat().st_ino
    for step in range(2, 6):
        table.add(step, {"loss": 0.5})
        table.flush()
    assert (tmp_path / NAME).stat().st_ino == inode, "rows with known columns are appended"
    table.add(6, {"new": 0.5})
    table.flush()
    assert (tmp_path / NAME).stat().st_ino != inode, "a wider file takes its place whole"
    assert [one["step"] for one in read(Folder(str(tmp_path)))] == [1, 2, 3, 4, 5, 6]


def test_the_step_of_the_checkpoint_may_come_again(tmp_path) -> None:
    table = Table(Folder(str(tmp_path)), NAME)
    table.add(3, {"loss": 0.5})
    table.flush()
    again = Table(Folder(str(tmp_path)), NAME)
    again.go_on(3)
    again.add(3, {"loss": 0.5, "val": 1.0})
    again.flush()
    assert read(Folder(str(tmp_path))) == [{"step": 3, "loss": 0.5, "val": 1.0}]


def test_a_file_without_steps_is_refused(tmp_path) -> None:
    (tmp_path / NAME).write_text("a,b\n1,2\n")
    with pytest.raises(dt.LoggerError, match=r"logger.not-a-table.*line 2"):
        Table(Folder(str(tmp_path)), NAME).go_on(1)
