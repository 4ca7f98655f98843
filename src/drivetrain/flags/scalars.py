"""The grammars of counts, switches and names."""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Mapping

from drivetrain.base.text import listed, nearest, show
from drivetrain.flags.problem import Problem

_SWITCH = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}
_NUMBER = re.compile(r"\d{1,9}")


def parse_count(flag: str, value: object, most: int) -> int:
    """Read a count of at least 1: an int, or its digits as text."""
    number: int | None = None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        number = int(value)
    elif not isinstance(value, (bool, str, float)):
        try:
            number = operator.index(value)  # type: ignore[arg-type]  # asks any object, numpy's ints too
        except Exception:  # noqa: BLE001 - an object's __index__ may raise anything
            number = None
    if number is None:
        raise Problem(
            f"{flag}={show(value)} is a {type(value).__name__}", f"{flag} is an int of at least 1", {flag: 1}
        )
    if not 1 <= number <= most:
        raise Problem(f"{flag}={show(number)} is out of range", f"{flag} is from 1 to {most}", {flag: 1})
    return number


def parse_switch(flag: str, value: object) -> bool:
    """Read a switch: a bool, or true/false, 1/0, yes/no, on/off as text."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in _SWITCH:
        return _SWITCH[value.strip().lower()]
    raise Problem(
        f"{flag}={show(value)} is neither true nor false", f"{flag} is a switch", {flag: False}, {flag: True}
    )


def parse_name(flag: str, value: object, names: Collection[str], aliases: Mapping[str, str]) -> str:
    """Read one of the known names, or an alias of one."""
    if not isinstance(value, str):
        raise Problem(
            f"{flag}={show(value)} is a {type(value).__name__}",
            f"{flag} is a name or an object of the library",
            {flag: "auto"},
        )
    name = value.strip()
    name = aliases.get(name, name)
    if name in names:
        return name
    close = nearest(name, [*names, *aliases])
    raise Problem(
        f"{flag}={show(value)} is not known",
        f"{flag} is one of: {listed(names)}",
        *([{flag: aliases.get(close, close)}] if close else []),
        {flag: "auto"},
    )
