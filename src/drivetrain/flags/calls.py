"""The grammar of ``strategy``: ``fsdp(cpu_offload=true)+tp(size=2)``.

::

    calls   = call { "+" call }
    call    = name [ "(" [ option { "," option } ] ")" ]
    option  = name "=" value
    value   = true | false | none | number | text | "quoted text" | JSON list | JSON mapping
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from drivetrain.base.text import show
from drivetrain.flags.problem import Problem

Value: TypeAlias = "bool | int | float | str | list[Value] | dict[str, Value] | None"
"""What an option may hold: plain data, so that a plan can be written down and read back."""

_RULE = "a strategy is written as name, name(option=value, ...) or name+name"
_NAME = re.compile(r"[A-Za-z_][\w.\-]*")
_WORDS: Mapping[str, bool | None] = {"true": True, "false": False, "none": None, "null": None}
_PLAIN = re.compile(r"[A-Za-z_./][\w./:\-]*")
_INT = re.compile(r"[+-]?\d{1,4000}")  # int() reads no more than 4,300 digits
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_OPEN, _CLOSE = "([{", ")]}"
_LONGEST = 10_000


def parse_calls(text: str) -> list[tuple[str, dict[str, Value]]]:
    """Read a strategy's text as names with options; raise Problem where it cannot be read."""
    if len(text) > _LONGEST:
        raise Problem(f"strategy {show(text)} is too long", f"at most {_LONGEST} characters")
    return [_parse_call(text, piece.strip()) for piece in _split(text, text, "+")]


def write_call(name: str, options: Mapping[str, Value]) -> str:
    """Write a name and its options so that `parse_calls` reads the same back."""
    if not options:
        return name
    return f"{name}({', '.join(f'{key}={_write(value)}' for key, value in options.items())})"


def parse_value(text: str) -> Value:
    """Read one option's value."""
    text = text.strip()
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if text[:1] in {'"', "[", "{"}:
        try:
            value: Value = json.loads(text)
        except (ValueError, RecursionError):
            raise Problem(
                f"value {show(text)} is not JSON", "quoted texts, lists and mappings are written as JSON"
            ) from None
        return value
    if text[:1] == "'" and text[-1:] == "'" and len(text) > 1:
        return text[1:-1]
    if not text or any(mark in text for mark in "\"'()[]{},=+"):
        raise Problem(f"value {show(text)} cannot be read", 'write texts with signs in them in "quotes"')
    return text


def _write(value: Value) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and _means_itself(value):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    # What is no plain data is refused when the strategy is resolved; until then it is only shown.
    return json.dumps(value, default=show)


def _means_itself(text: str) -> bool:
    """Whether a text without quotes is read as a text: ``.5`` is a number, ``true`` is a switch."""
    return text.lower() not in _WORDS and not _FLOAT.fullmatch(text)


def _parse_call(whole: str, text: str) -> tuple[str, dict[str, Value]]:
    name = _NAME.match(text)
    if name is None:
        raise Problem(f"strategy={show(whole)} has no name at {show(text)}", _RULE)
    rest = text[name.end() :].strip()
    if not rest:
        return name[0], {}
    if not (rest.startswith("(") and rest.endswith(")")):
        raise Problem(f"strategy={show(whole)} cannot be read at {show(rest)}", _RULE)
    inside = rest[1:-1].strip().removesuffix(",")
    options: dict[str, Value] = {}
    for piece in _split(whole, inside, ",") if inside else []:
        key, equals, value = piece.partition("=")
        if not equals or not _NAME.fullmatch(key.strip()):
            raise Problem(
                f"strategy={show(whole)} has an option without a name: {show(piece.strip())}", _RULE
            )
        if key.strip() in options:
            raise Problem(f"strategy={show(whole)} gives {key.strip()!r} twice", "an option is given once")
        options[key.strip()] = parse_value(value)
    return name[0], options


def _split(whole: str, text: str, mark: str) -> Iterator[str]:
    """Split at marks that stand outside of quotes and brackets."""
    depth, quote, start, escaped = 0, "", 0, False
    for place, sign in enumerate(text):
        if escaped:
            escaped = False
        elif quote:
            escaped = sign == "\\" and quote == '"'
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign in _OPEN:
            depth += 1
        elif sign in _CLOSE:
            depth -= 1
        elif sign == mark and depth == 0:
            yield text[start:place]
            start = place + 1
    if depth or quote:
        raise Problem(f"strategy={show(whole)} does not close a bracket or quote", _RULE)
    yield text[start:]
