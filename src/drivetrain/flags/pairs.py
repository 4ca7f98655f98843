"""Pairs on the command line: ``cuda=8,tpu=0`` and ``NAME=VALUE``."""

from __future__ import annotations

from collections.abc import Iterable

from drivetrain.base.text import show
from drivetrain.flags.problem import Problem


def parse_counts(text: str) -> dict[str, int]:
    """Read ``cuda=8,tpu=0`` as counts by kind; an empty text or ``cpu`` alone is a machine with nothing."""
    counts: dict[str, int] = {}
    for piece in filter(None, (piece.strip() for piece in text.split(","))):
        kind, _, number = piece.partition("=")
        kind, number = kind.strip(), number.strip()
        if piece == "cpu":
            continue
        if not kind or kind in {"cpu", *counts} or not number.isdecimal() or len(number) > len("65536"):
            raise Problem(
                f"machine {show(text)} cannot be read at {show(piece)}",
                "a machine is written as cuda=8,tpu=0, each kind once; cpu alone is one without devices",
            )
        counts[kind] = int(number)
    return counts


def parse_variables(pairs: Iterable[str]) -> dict[str, str]:
    """Read ``NAME=VALUE`` pairs."""
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise Problem(
                f"variable {show(pair)} has no name and value", "a variable is written as NAME=VALUE"
            )
        found[name] = value
    return found
