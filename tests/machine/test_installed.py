"""The reader of installed packages."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from drivetrain.machine import installed


def test_an_installed_distribution_has_its_version_and_another_has_none() -> None:
    assert installed.version("pytest") == importlib.metadata.version("pytest")
    assert installed.version("no-such-distribution-anywhere") is None


def test_a_module_is_found_without_being_imported() -> None:
    assert installed.has_module("json")
    assert not installed.has_module("no_such_module_anywhere")


@pytest.fixture
def group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A distribution on the path that registers two entry points, not in order of name."""
    info = tmp_path / "somebody-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[drivetrain.testing]\nzeta = a:b\nalpha = c:d\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "drivetrain.testing"


def test_entry_points_come_in_order_of_name(group: str) -> None:
    found = installed.entry_points(group)
    assert [(point.name, point.value) for point in found] == [("alpha", "c:d"), ("zeta", "a:b")]
    assert installed.entry_points("drivetrain.nobody") == ()
