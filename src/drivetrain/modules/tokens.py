"""What counts in tokens needs a module that counts them."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import ModuleError
from drivetrain.events import is_unused


def check_counts_tokens(module: Any, name: str, wanted: object) -> None:
    """Refuse a bound or an interval in tokens of a module that does not count them.

    Raises:
        ModuleError [module.tokens]: it does not.
    """
    if is_unused(module.count_tokens):
        raise ModuleError(
            "module.tokens",
            f"{name} is {str(wanted)!r}, and {type(module).__name__} counts no tokens",
            values={name: wanted, "class": type(module).__qualname__},
            because="only the module knows what in a batch is a token",
            hint="write def count_tokens(self, batch): return batch.numel(), or count samples",
        )
