"""Hook: one row of the table of hooks, and the mark of a method that does nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])
_MARK = "_drivetrain_unused"


@dataclass(frozen=True)
class Hook:
    """One moment of a run that user code can act on."""

    name: str
    when: str
    """One sentence: the moment, and what is true then."""
    arguments: tuple[str, ...] = ()
    """What a module's method gets; a callback's gets ``trainer`` and ``module`` before them."""
    on_module: bool = True
    on_callback: bool = True
    module_first: bool = False
    """Whether the module comes before the callbacks."""


def unused(method: Method) -> Method:
    """Mark a method that documents a hook and does nothing, so that no loop ever calls it."""
    setattr(method, _MARK, True)
    return method


def is_unused(method: object) -> bool:
    """Whether a (bound) method is one of those that do nothing."""
    return bool(getattr(method, _MARK, False))
