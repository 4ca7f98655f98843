"""Who called the library: the user's file and line, for errors and warnings."""

from __future__ import annotations

import os.path
import sys
from typing import Any

_PACKAGE = __name__.partition(".")[0]
_PROGRAMS = (f"{_PACKAGE}.demo",)
"""Parts of the package that use it as a user does."""


def caller() -> tuple[str, int]:
    """Return ``train.py:12`` of the nearest frame outside of this package, and its stack level.

    The level is that of ``warnings.warn(..., stacklevel=...)`` in the function that calls this one.
    """
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller's line
    level = 1
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    if frame is None:
        return "", 2
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}", level  # noqa: PTH119 - a name, no file


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == _PACKAGE and not module.startswith(_PROGRAMS)
