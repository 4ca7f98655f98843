"""Each test starts with nothing noted: a fit that failed elsewhere leaves where it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drivetrain.base.where import HERE


@pytest.fixture(autouse=True)
def nothing_noted() -> Iterator[None]:
    HERE.clear()
    yield
    HERE.clear()
