"""Arguments of a Trainer from the environment: ``PL_TRAINER_MAX_EPOCHS=3``."""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Callable
from typing import Any

from drivetrain.machine import probe

_PREFIX = "PL_TRAINER_"


def with_variables(init: Callable[..., None]) -> Callable[..., None]:
    """Let arguments that are not given come from variables; a value is read as Python, else it is a text."""
    names = [
        name
        for name, one in inspect.signature(init).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    ]

    @functools.wraps(init)
    def filled(self: Any, **given: Any) -> None:
        variables = probe.variables()
        said = {name: variables.get(f"{_PREFIX}{name.upper()}", "") for name in names if name not in given}
        init(self, **given, **{name: _value(text) for name, text in said.items() if text})

    return filled


def _value(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
