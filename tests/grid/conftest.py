from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-grid", action="store_true", help="write tests/grid/grid.txt anew")
