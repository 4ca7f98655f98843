"""A terminal that keeps what is drawn on it."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Any


class Screen(io.StringIO):
    """Stands in for standard error where a person watches."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError


def watched(act: Callable[[], Any]) -> str:
    """Return what an act draws on standard error where a person watches."""
    screen = Screen()
    with contextlib.redirect_stderr(screen):
        act()
    return screen.getvalue()
