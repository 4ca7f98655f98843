"""The grid is the one on record: a change of any decision or error shows in review, line by line."""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from drivetrain.resolver.catalogue import shipped
from drivetrain.resolver.collect import FLAGS
from drivetrain.resolver.legacy import LEGACY
from tests.grid import grid

RECORD = Path(__file__).with_name("grid.txt")


def test_the_grid_is_the_one_on_record(request: pytest.FixtureRequest) -> None:
    now = grid.text()
    if request.config.getoption("--update-grid", default=False):
        RECORD.write_text(now, encoding="utf-8")
    then = RECORD.read_text(encoding="utf-8")
    changes = difflib.unified_diff(then.splitlines(), now.splitlines(), "on record", "now", n=1, lineterm="")
    assert then == now, "renew with: pytest tests/grid --update-grid\n" + "\n".join(changes)


def test_the_grid_asks_for_every_flag_and_every_old_flag() -> None:
    assert set(grid.FLAGS) == set(FLAGS)
    assert set(grid.OLD) >= set(LEGACY)


@pytest.mark.parametrize(
    ("flag", "table"),
    [
        ("accelerator", "accelerators"),
        ("strategy", "strategies"),
        ("launcher", "launchers"),
        ("environment", "environments"),
        ("precision", "precisions"),
    ],
)
def test_every_shipped_name_can_be_had_on_a_machine_of_the_grid_or_is_refused_by_its_rule(
    flag: str, table: str
) -> None:
    """A name that ships is never unknown: `plan.<flag>-value` stands at none of them."""
    baselines = {title: grid.ask(machine, {}) for title, machine in grid.MACHINES.items()}
    for name in getattr(shipped(), table):
        for title, machine in grid.MACHINES.items():
            assert f"! plan.{flag}-value" not in grid.row({flag: name}, machine, baselines[title])
