"""The error for a callback's argument."""

from __future__ import annotations

import math
from typing import Any

from drivetrain.base.errors import ModuleError
from drivetrain.modules import Run


def bad_argument(owner: object, name: str, value: object, because: str, hint: str = "") -> ModuleError:
    """Return the error for a value that an argument of a callback cannot have."""
    kind = owner if isinstance(owner, str) else type(owner).__name__
    return ModuleError(
        "callback.bad-argument",
        f"{kind}({name}={value!r})",
        values={name: value},
        because=f"{name} is {because}",
        hint=hint or f"leave {name} out for its default",
    )


def check_flag(owner: object, name: str, value: object) -> bool:
    """Return a switch.

    Raises:
        ModuleError [callback.bad-argument]: it is not True or False.
    """
    if not isinstance(value, bool):
        raise bad_argument(owner, name, value, "True or False")
    return value


def check_number(owner: object, name: str, value: Any, *, least: float = -math.inf) -> float:
    """Return a finite number.

    Raises:
        ModuleError [callback.bad-argument]: it is none, or less than ``least``.
    """
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        rule = "a finite number" + (f" of {least:g} or more" if math.isfinite(least) else "")
        raise bad_argument(owner, name, value, rule)
    return float(value)


def check_text(owner: object, name: str, value: object, because: str) -> str:
    """Return a text that is not empty.

    Raises:
        ModuleError [callback.bad-argument]: it is none.
    """
    if not isinstance(value, str) or not value:
        raise bad_argument(owner, name, value, because)
    return value


def check_loggers(owner: object, trainer: Run) -> None:
    """Refuse a run that has no logger to write to.

    Raises:
        ModuleError [callback.no-logger]: it has none.
    """
    if not trainer.loggers:
        raise ModuleError(
            "callback.no-logger",
            f"{type(owner).__name__} in a run without a logger",
            values={"callback": type(owner).__name__, "loggers": []},
            because="it only writes to loggers, so it would do nothing",
            hint="pass logger=True, which writes a CSV file",
        )


def check_mode(owner: object, mode: object) -> str:
    """Return ``min`` or ``max``.

    Raises:
        ModuleError [callback.bad-argument]: it is neither.
    """
    if mode not in ("min", "max"):
        raise bad_argument(
            owner, "mode", mode, "'min' (lower is better) or 'max' (higher is better)", "pass mode='min'"
        )
    return str(mode)
