"""Quantity: a number with its unit, such as ``"500 steps"``, ``"0.5 epochs"``, ``"30 min"``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from fractions import Fraction
from typing import Literal, TypeAlias, cast, get_args

from drivetrain.base.text import listed, nearest

Unit: TypeAlias = Literal["steps", "epochs", "samples", "tokens", "seconds"]
UNITS: tuple[Unit, ...] = get_args(Unit)

_SECONDS = {
    "s": 1,
    "sec": 1,
    "second": 1,
    "seconds": 1,
    "min": 60,
    "mins": 60,
    "minute": 60,
    "minutes": 60,
    "h": 3600,
    "hour": 3600,
    "hours": 3600,
    "d": 86400,
    "day": 86400,
    "days": 86400,
}
_COUNTED: dict[str, Unit] = {
    spelling: unit for unit in UNITS if unit != "seconds" for spelling in (unit, unit[:-1])
}
_TEXT = re.compile(r"\s*([+-]?[\d._]+(?:e[+-]?\d+)?)\s*([a-z]*)\s*", re.IGNORECASE)
_RULE = "a number and a unit: steps, epochs, samples, tokens, or a time in s, min, h or d"
_EXAMPLES: dict[Unit, str] = {
    "steps": "'500 steps'",
    "epochs": "'0.5 epochs'",
    "samples": "'1e6 samples'",
    "tokens": "'2e7 tokens'",
    "seconds": "'30 min'",
}


class QuantityProblem(ValueError):  # noqa: N818 - never reaches a user: who reads an argument names it in its own error
    """A value that is no quantity: what is wrong, the rule, and a way out."""

    def __init__(self, message: str, because: str, hint: str) -> None:
        super().__init__(message)
        self.because = because
        self.hint = hint


@dataclass(frozen=True)
class Quantity:
    """How much of what. Times are in seconds, whatever unit they were said in.

    Steps, samples and tokens are whole numbers; epochs and seconds may be fractions. All are positive.

    Raises:
        QuantityProblem: the unit is none of them, or the value cannot be counted in it.
    """

    unit: Unit
    value: float

    def __post_init__(self) -> None:
        """Refuse what cannot be counted."""
        if self.unit not in UNITS:
            raise _no_unit(str(self.unit), UNITS)
        value: object = self.value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise QuantityProblem(f"{value!r} {self.unit}", "a quantity is a finite number", _say(UNITS))
        if value <= 0:
            raise QuantityProblem(f"{value!r} {self.unit}", "a quantity is more than 0", _say(UNITS))
        is_whole = value == int(value)
        if not is_whole and self.unit not in ("epochs", "seconds"):
            raise QuantityProblem(
                f"{value!r} {self.unit}",
                f"{self.unit} are counted in whole numbers; epochs and times may be fractions",
                f"write '{max(1, round(value))} {self.unit}'",
            )
        object.__setattr__(self, "value", int(value) if is_whole else value)

    @property
    def exact(self) -> Fraction:
        """The value as it was written: a tenth is 1/10, not the nearest number of the processor's."""
        return Fraction(str(self.value))

    def __str__(self) -> str:
        """Render as it can be read back: ``500 steps``, ``1800 s``."""
        return f"{self.value} {'s' if self.unit == 'seconds' else self.unit}"


def parse(value: object, units: Iterable[Unit] = UNITS) -> Quantity:
    """Read a text, a Quantity or a timedelta; ``units`` are those that the reader can use.

    A number without a unit is no quantity: the reader knows what its plain numbers count.

    Raises:
        QuantityProblem: it is none, or has a unit that the reader cannot use; names the nearest.
    """
    known = tuple(units)
    found = _read(value, known)
    if found.unit not in known:
        raise QuantityProblem(
            f"{value!r} is in {found.unit}", f"here it can be in: {listed(known)}", _say(known)
        )
    return found


def _read(value: object, known: tuple[Unit, ...]) -> Quantity:
    if isinstance(value, Quantity):
        return value
    if isinstance(value, timedelta):
        return Quantity("seconds", value.total_seconds())
    if not isinstance(value, str):
        raise QuantityProblem(f"{value!r} has no unit", f"a quantity is {_RULE}", _say(known))
    match = _TEXT.fullmatch(value)
    if match is None:
        raise QuantityProblem(f"{value!r} cannot be read", f"a quantity is {_RULE}", _say(known))
    number, unit = match[1], match[2].lower()
    try:
        amount = float(number)
    except ValueError:
        raise QuantityProblem(
            f"{number!r} in {value!r} is no number", f"a quantity is {_RULE}", _say(known)
        ) from None
    if unit in _COUNTED:
        return Quantity(_COUNTED[unit], amount)
    if unit in _SECONDS:
        return Quantity("seconds", float(Fraction(str(amount)) * _SECONDS[unit]))
    raise _no_unit(match[2], known)


def _no_unit(unit: str, known: tuple[Unit, ...]) -> QuantityProblem:
    spellings = [*(_COUNTED if set(known) & set(_COUNTED.values()) else ())]
    spellings = [one for one in spellings if _COUNTED[one] in known]
    spellings += _SECONDS if "seconds" in known else []
    close = nearest(unit, spellings) if unit else None
    return QuantityProblem(
        f"unknown unit {unit!r}" if unit else "a number without a unit",
        f"a quantity is {_RULE}",
        f"did you mean {close!r}?" if close else _say(known),
    )


def _say(known: Iterable[str]) -> str:
    return "write " + " or ".join(_EXAMPLES[cast("Unit", unit)] for unit in known)
