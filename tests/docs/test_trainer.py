"""docs/trainer.md names every argument of the Trainer, with its default."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import drivetrain as dt

ROW = re.compile(r"^\| `(\w+)` \| `(.+?)` \| (.+) \|$", re.MULTILINE)


def test_every_argument_has_a_row_with_its_default() -> None:
    rows = ROW.findall(Path("docs/trainer.md").read_text())
    found = {name: default for name, default, _ in rows}
    assert len(found) == len(rows)
    parameters = inspect.signature(dt.Trainer).parameters.values()
    said = {one.name: repr(one.default).replace("'", '"') for one in parameters if one.name != "legacy"}
    assert found == said
