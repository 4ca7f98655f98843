"""The grammar of ``devices``: how many, or which."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass

from drivetrain.base.text import show
from drivetrain.flags.problem import Problem

MOST = 65_536
"""No node has more devices or processes; a larger number is a slip."""

_RULE = 'devices is a count (2, "2"), "auto", -1 (all), indices ([0, 2], "0,2", "1,") or a range ("2-5")'
_INDEX = re.compile(r"\d{1,6}")
_RANGE = re.compile(r"(\d{1,6})\s*-\s*(\d{1,6})")


@dataclass(frozen=True)
class Devices:
    """What was asked for: exactly one of auto, all, a count, or indices."""

    count: int | None = None
    indices: tuple[int, ...] | None = None
    is_all: bool = False

    @property
    def is_auto(self) -> bool:
        """Whether the decision is left to the resolver."""
        return not self.is_all and self.count is None and self.indices is None


def parse_devices(value: object, flag: str = "devices") -> Devices:
    """Read a value of ``devices``; raise Problem for what is no count, index list or range.

    ``flag`` is what the user typed: ``gpus``. A problem's text speaks of it, its fixes are of ``devices``.
    """
    try:
        return _parse(value)
    except Problem as problem:
        message, because = (
            f"{flag}{text.removeprefix('devices')}" if text.startswith("devices") else text
            for text in (problem.message, problem.because)
        )
        raise Problem(message, because, *problem.fixes) from None


def _parse(value: object) -> Devices:
    if isinstance(value, (bool, float)):
        fix = max(int(value), 1) if math.isfinite(value) and abs(value) <= MOST else "auto"
        raise Problem(f"devices={show(value)} is a {type(value).__name__}", _RULE, {"devices": fix})
    if isinstance(value, str):
        return _parse_text(value.strip())
    if isinstance(value, (list, tuple, range)):
        return Devices(indices=_indices(value))
    number = _integer(value)
    if number is None:
        raise Problem(f"devices={show(value)} is a {type(value).__name__}", _RULE, {"devices": "auto"})
    return _count(number)


def _parse_text(text: str) -> Devices:
    if text.lower() == "auto":
        return Devices()
    if text == "-1":
        return Devices(is_all=True)
    if _INDEX.fullmatch(text):
        return _count(int(text))
    pieces = [piece.strip() for piece in text.removesuffix(",").split(",")]
    indices: list[int] = []
    for piece in pieces:
        span = _RANGE.fullmatch(piece)
        if span and int(span[1]) <= int(span[2]) <= MOST:
            indices += range(int(span[1]), int(span[2]) + 1)
        elif _INDEX.fullmatch(piece):
            indices.append(int(piece))
        else:
            raise Problem(f"devices={show(text)} cannot be read at {show(piece)}", _RULE, {"devices": "auto"})
    return Devices(indices=_indices(indices))


def _count(number: int) -> Devices:
    if number == -1:
        return Devices(is_all=True)
    if number == 0:
        raise Problem(
            "devices=0 asks for no device",
            "a run needs at least one device or process",
            {"devices": 1},
            {"accelerator": "cpu", "devices": 1},
        )
    if not 0 < number <= MOST:
        raise Problem(
            f"devices={show(number)} is out of range",
            f"a count is from 1 to {MOST}, or -1 for all",
            {"devices": "auto"},
        )
    return Devices(count=number)


def _indices(values: Sequence[object]) -> tuple[int, ...]:
    if values[MOST:]:  # not len(), which a range beyond the machine's integers does not have
        raise Problem(
            f"devices lists more than {MOST} indices",
            f"a node has at most {MOST} devices",
            {"devices": "auto"},
        )
    if not values:
        raise Problem(
            "devices is empty", "a run needs at least one device", {"devices": "auto"}, {"devices": 1}
        )
    numbers = [_integer(value) for value in values]
    for value, number in zip(values, numbers, strict=True):
        if number is None:
            raise Problem(
                f"devices holds {show(value)}, a {type(value).__name__}",
                "a list of devices holds only ints",
                *_repaired(values),
            )
        if not 0 <= number <= MOST:
            raise Problem(
                f"devices holds the index {show(number)}",
                "device indices start at 0; -1 (all) stands alone",
                {"devices": -1},
                {"devices": "auto"},
            )
    found = tuple(number for number in numbers if number is not None)
    if len(set(found)) < len(found):
        raise Problem(
            f"devices={show(list(found))} names a device twice",
            "each device belongs to one process",
            {"devices": sorted(set(found))},
        )
    return found


def _repaired(values: Sequence[object]) -> tuple[dict[str, object], ...]:
    texts = [
        value if type(value) is int else value.strip() if isinstance(value, str) else "" for value in values
    ]
    numbers = [int(text) for text in texts if isinstance(text, int) or _INDEX.fullmatch(text)]
    return ({"devices": numbers},) if len(numbers) == len(values) else ({"devices": "auto"},)


def _integer(value: object) -> int | None:
    """Return the int behind int-like values (numpy's too); None for bools, floats, texts and the rest."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    try:
        return operator.index(value)  # type: ignore[arg-type]  # asks any object
    except Exception:  # noqa: BLE001 - an object's __index__ may raise anything
        return None
