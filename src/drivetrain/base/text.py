"""Values, names and calls as text that is safe to print in an error."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping

_LONGEST = 120


class Code(str):
    """A piece of Python that is printed as it stands, not quoted, when a call is written out."""

    __slots__ = ()


_NAME = type.__dict__["__name__"]


def kind_name(value: object) -> str:
    """Return the name of a value's type, whatever its metaclass says of it."""
    return str(_NAME.__get__(type(value)))


def show(value: object) -> str:
    """Return ``repr(value)``, shortened, and never an exception from a hostile ``__repr__``."""
    try:
        # The default repr tells an address, which is of no use and differs from run to run.
        is_bare = type(value).__repr__ is object.__repr__
        text = f"{kind_name(value)}(...)" if is_bare else repr(value)
        text = str(value) if issubclass(type(value), Code) else text
        text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    except Exception as error:  # noqa: BLE001 - a repr may raise anything; an error message must not
        text = f"<{kind_name(value)} object, repr failed with {kind_name(error)}>"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 20]}... ({len(text)} characters)"


def literal(value: object) -> str:
    """Return the value as a user would write it in a call, strings in double quotes."""
    kind = type(value)
    if issubclass(kind, str) and not issubclass(kind, Code):
        return json.dumps(value, ensure_ascii=False)
    if (
        issubclass(kind, list)
        and isinstance(value, list)
        and not any(issubclass(type(item), list) for item in value)
    ):
        return "[" + ", ".join(map(literal, value)) + "]"
    return show(value)


def arguments(values: Mapping[str, object]) -> str:
    """Write keyword arguments out: ``accelerator="gpu", devices=2``."""
    return ", ".join(f"{name}={literal(value)}" for name, value in values.items())


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the valid name that is closest to what was received, or None."""
    lower = {known.lower(): known for known in names}
    found = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=0.6) if len(name) < _LONGEST else []
    return lower[found[0]] if found else None


def listed(names: Iterable[object]) -> str:
    """Join names for a sentence: ``cpu, cuda, mps``; ``nothing`` for none."""
    return ", ".join(map(str, names)) or "nothing"
