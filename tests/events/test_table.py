"""docs/hooks.md is what a run really calls, on one process and on two."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from drivetrain.events import HOOKS

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script():
    sys.path.insert(0, str(ROOT / "scripts"))
    spec = importlib.util.spec_from_file_location("hooks_docs", ROOT / "scripts" / "generate_hooks_docs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.path.remove(str(ROOT / "scripts"))


def test_the_page_is_what_a_run_calls_today(script) -> None:
    assert (ROOT / "docs" / "hooks.md").read_text() == script.page()


def test_hooks_come_in_the_order_of_the_table(script) -> None:
    calls = script.record()
    fit = calls[: calls.index("# trainer.save_checkpoint")]
    last = sorted((name for name in HOOKS if name in fit), key=lambda name: len(fit) - fit[::-1].index(name))
    assert last == [name for name in HOOKS if name in fit]
    assert {name for name in HOOKS if name not in calls} == {"on_exception"}


@pytest.mark.ranks
def test_two_processes_call_the_same(script) -> None:
    assert script.record(devices=2) == script.record()
