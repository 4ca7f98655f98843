"""File names of checkpoints: a template with ``{epoch}``, ``{step}`` and logged names in braces."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any

import torch

from drivetrain.callbacks.refusal import bad_argument

_FIELD = re.compile(r"\{([^{}:]+)(?::([^{}]*))?\}")
_COUNTERS = ("epoch", "step")


def fill(template: str, values: Mapping[str, Any], *, equals: str = "=", insert_names: bool = True) -> str:
    """Return the template with values in place of its fields.

    A name that was not logged (yet) gives ``nan``. A slash in a logged name becomes an underscore where the
    name is inserted, so that no folder comes of it.

    Raises:
        ModuleError [callback.bad-argument]: a value cannot be written in a field's format.
    """

    def one(match: re.Match[str]) -> str:
        name, form = match[1], match[2] or ""
        text = _written(template, name, form, values[name]) if name in values else "nan"
        return f"{name.replace('/', '_')}{equals}{text}" if insert_names else text

    return _FIELD.sub(one, template)


def check_template(owner: object, argument: str, template: object) -> str:
    """Return a template whose braces are whole and whose formats exist.

    Raises:
        ModuleError [callback.bad-argument]: it is not.
    """
    if not isinstance(template, str) or not template:
        raise bad_argument(owner, argument, template, "a text such as '{epoch}-{val_loss:.2f}'")
    if set("{}") & set(_FIELD.sub("", template)):
        raise bad_argument(owner, argument, template, "a text in which each brace is one of a pair")
    for match in _FIELD.finditer(template):
        name, form = match[1], match[2] or ""
        samples = (1,) if name in _COUNTERS else (1.0, 1)
        if not any(_can_write(form, sample) for sample in samples):
            raise bad_argument(
                owner,
                argument,
                template,
                f"a text whose formats can write their numbers, which {form!r} of {name} cannot",
                "write counters as {step:06d}, logged values as {val_loss:.3f}",
            )
    return template


def _can_write(form: str, sample: float) -> bool:
    try:
        format(sample, form)
    except ValueError:
        return False
    return True


def _written(template: str, name: str, form: str, value: Any) -> str:
    number = value.item() if isinstance(value, torch.Tensor) else value
    try:
        return format(number, form)
    except (ValueError, TypeError) as error:
        raise bad_argument(
            "ModelCheckpoint",
            "filename",
            template,
            f"a text whose formats can write their numbers; {name} is {number!r}: {error}",
            "write logged values as {val_loss:.3f}",
        ) from error


def joined(folder: str, name: str) -> str:
    """Return a path that may be remote."""
    return os.path.join(folder, name)  # noqa: PTH118 - Path would take the slashes of memory:// together
