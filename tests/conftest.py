"""What every test shares."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def few_objects() -> Iterator[None]:
    """Let full collections, one of which ends each fit on several ranks, pass over what other tests left."""
    yield
    gc.collect()
    gc.freeze()
