"""Table: a CSV file that grows in rows and in columns."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any, final

from drivetrain.base.errors import LoggerError
from drivetrain.loggers.folder import Folder

_STEP = "step"

Row = dict[str, Any]


@final
class Table:
    """One row a step; what is logged at one step joins its row, unless a name comes with another value.

    Rows are kept until `flush`. The last one stays open, since more may come at its step; it is on the
    disk all the same, and is replaced there. A name that is new makes the file anew, with a wider header.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._columns: list[str] = []
        self._pending: list[Row] = []
        """The open row and those after it."""
        self._before: list[Row] | None = None
        """Rows of an earlier run that are kept, until the first flush."""
        self._num_written = 0
        """Rows on the disk before the open one."""
        self._offset = 0
        """Where the open row begins on the disk."""
        self._is_stale = False
        """Whether the disk's header, or a row before the open one, is not what it should be."""
        self._is_dirty = False
        self._replaces_at: int | None = None

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Take the values of a step.

        Raises:
            LoggerError [logger.name-clash]: one is called ``step``.
        """
        if _STEP in values:
            raise LoggerError(
                "logger.name-clash",
                f"a metric is called {_STEP!r}",
                values={_STEP: values[_STEP]},
                because="a row's step stands in the column of that name",
                hint="log it under another name",
            )
        self._is_dirty = True
        for name in (_STEP, *sorted(values, key=lambda one: one != "epoch")):
            if name not in self._columns:
                self._columns.append(name)
                self._is_stale = True
        last = self._pending[-1] if self._pending else None
        if last is not None and last[_STEP] == step and self._joins(last, step, values):
            last.update(values)
        else:
            self._pending.append({_STEP: step, **values})

    def _joins(self, row: Row, step: int, values: Mapping[str, float]) -> bool:
        # What was read back from the disk is text.
        return step == self._replaces_at or not any(
            name in row and str(row[name]) != str(value) for name, value in values.items()
        )

    def go_on(self, resumed_step: int | None) -> None:
        """Take up the file of an earlier run; rows after ``resumed_step`` will come again, and are left out.

        The disk changes with the first flush: a run that ends before has changed nothing.
        """
        data = self._folder.read(self._name)
        if data is None:
            return
        columns = next(csv.reader(io.StringIO(data.decode())), [])
        rows = _parsed(data)
        kept = [row for row in rows if resumed_step is None or row[_STEP] <= resumed_step]
        self._columns = columns + [name for name in self._columns if name not in columns]
        mine, self._pending = self._pending, kept[-1:]
        self._replaces_at = resumed_step
        self._before, self._is_stale = kept[:-1], True
        for row in mine:
            self.add(row.pop(_STEP), row)

    def flush(self) -> None:
        """Bring all rows to the file."""
        if not self._is_dirty:
            return
        if self._is_stale or self._folder.is_remote:
            before = self._before if self._before is not None else self._rows_before()
            head = self._lines([dict.fromkeys(self._columns)], is_header=True) + self._lines(before)
            self._num_written, self._offset = len(before), len(head)
            self._folder.write(self._name, head + self._lines(self._pending))
        else:
            self._folder.write_at(self._name, self._offset, self._lines(self._pending))
        done = self._pending[:-1]
        self._num_written += len(done)
        self._offset += len(self._lines(done))
        del self._pending[:-1]
        self._before, self._is_stale, self._is_dirty = None, False, False

    def _rows_before(self) -> list[Row]:
        data = self._folder.read(self._name)
        return [] if data is None else _parsed(data)[: self._num_written]

    def _lines(self, rows: Iterable[Row], *, is_header: bool = False) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        for row in rows:
            writer.writerow(row if is_header else [row.get(name, "") for name in self._columns])
        return text.getvalue().encode()


def _parsed(data: bytes) -> list[Row]:
    whole, _, torn = data.decode().rpartition("\n")
    del torn  # a process that was killed left it; its step comes again
    rows: list[Row] = list(csv.DictReader(io.StringIO(whole)))
    for number, row in enumerate(rows, 2):
        text = row.get(_STEP) or ""
        if not text.isdecimal():
            raise LoggerError(
                "logger.not-a-table",
                f"line {number} of the file to go on with has no step",
                values={"line": row},
                because="rows of a resumed run are told apart by the column 'step', a whole number",
                hint="repair the file, or log to another version",
            )
        row[_STEP] = int(text)
    return [{name: value for name, value in row.items() if value not in (None, "")} for row in rows]
