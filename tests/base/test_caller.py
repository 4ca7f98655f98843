"""Who called the library."""

from __future__ import annotations

import types

from drivetrain.base import caller as module
from drivetrain.base.caller import caller


def test_the_place_is_the_file_and_line_outside_of_the_package() -> None:
    place, level = caller()
    assert place.startswith("test_caller.py:")
    assert level == 1  # the function that calls it is the user


def through(name: str) -> str:
    """Call `caller` from a module of this name, in a file of its own."""
    inside = types.ModuleType(name)
    inside.caller = caller  # type: ignore[attr-defined]  # what the code below calls
    exec(compile("place = caller()[0]", f"{name}.file", "exec"), vars(inside))  # noqa: S102 - our own line
    return inside.place  # type: ignore[attr-defined, no-any-return]  # set by that line


def test_the_packages_own_frames_are_passed_over_but_its_programs_are_users() -> None:
    assert through("drivetrain.resolver.x").startswith("test_caller.py:")
    assert through("drivetrain.demo.x").startswith("drivetrain.demo.x.file:")
    assert through("drivetrainer").startswith("drivetrainer.file:")
    assert module.__name__ == "drivetrain.base.caller"
