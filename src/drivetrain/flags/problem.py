"""What a grammar raises when a value cannot be read."""

from __future__ import annotations

from collections.abc import Mapping


class Problem(Exception):  # noqa: N818 - never leaves resolver/fill.py, which turns it into a Conflict
    """A value that breaks its grammar: what is wrong, the rule, and changes of flags that may help."""

    def __init__(self, message: str, because: str, *fixes: Mapping[str, object]) -> None:
        super().__init__(message)
        self.message = message
        self.because = because
        self.fixes = fixes
