"""The errors for a search's arguments."""

from __future__ import annotations

from drivetrain.base.errors import TrainerError


def bad(caller: str, name: str, value: object, because: str, example: str) -> TrainerError:
    """Return the error for a value that an argument cannot have."""
    return TrainerError(
        "trainer.bad-argument",
        f"{caller}({name}={value!r})",
        values={name: value},
        because=f"{name} is {because}",
        hint=f"pass {name}={example}",
    )


def check_count(caller: str, name: str, value: object, least: int, example: str) -> int:
    """Return a whole number.

    Raises:
        TrainerError [trainer.bad-argument]: it is none, or below ``least``.
    """
    if type(value) is not int or value < least:
        raise bad(caller, name, value, f"a whole number, {least} or more", example)
    return value
