"""A value travels with where it came from, and with a sentence why."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Generic, TypeVar

from drivetrain.base.text import show

T_co = TypeVar("T_co", covariant=True)


class Origin(enum.IntEnum):
    """Where a value came from, most explicit first: the smaller one wins."""

    ARGUMENT = 1
    """Said in the call: ``Trainer(devices=2)``."""
    OBJECT = 2
    """Held by an object that the user passed: ``DDPStrategy(precision="bf16-mixed")``."""
    LEGACY = 3
    """Translated from an old spelling: ``gpus=2``."""
    VARIABLE = 4
    """Read from an environment variable: ``DRIVETRAIN_DEVICES=2``, ``SLURM_NTASKS=4``."""
    MACHINE = 5
    """Follows from what the machine has."""
    DEFAULT = 6
    """Nobody said anything; the library's default."""

    @property
    def word(self) -> str:
        """The origin as it is printed, for example ``environment variable``."""
        return _WORDS[self]

    @property
    def is_said(self) -> bool:
        """Whether a person asked for the value; such a value is never changed."""
        return self <= Origin.VARIABLE


_WORDS = {
    Origin.ARGUMENT: "argument",
    Origin.OBJECT: "object",
    Origin.LEGACY: "old spelling",
    Origin.VARIABLE: "environment variable",
    Origin.MACHINE: "machine",
    Origin.DEFAULT: "default",
}


@dataclass(frozen=True)
class Sourced(Generic[T_co]):
    """A value, where it came from, and why it is what it is."""

    value: T_co
    origin: Origin
    reason: str = ""

    def __str__(self) -> str:
        """Render as ``'ddp' from argument: Trainer(strategy='ddp'), train.py:12``."""
        return f"{show(self.value)} from {self.origin.word}" + (f": {self.reason}" if self.reason else "")


class Default:
    """Marks a parameter's default, so that "not said" and "said the default" stay two things."""


class DefaultText(Default, str):
    """A text that stands in a signature as the default; equal to its text."""

    __slots__ = ()


class DefaultInt(Default, int):
    """A number that stands in a signature as the default; equal to its number."""


class DefaultSwitch(Default, int):
    """A switch that stands in a signature as the default; equal to False or True."""

    def __repr__(self) -> str:
        """Look like the switch it stands for."""
        return repr(bool(self))


class _Unset(Default):
    """No value at all, where None would be a value."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        """Pickle and copy as a name: there is one, and it is compared by identity."""
        return "UNSET"


UNSET = _Unset()
AUTO = DefaultText("auto")
ONE = DefaultInt(1)
OFF = DefaultSwitch(0)


def is_said(value: object) -> bool:
    """Whether the user gave this argument: None and a parameter's default are "not said"."""
    # The type itself is asked: a foreign object's __class__ may raise anything.
    return value is not None and not issubclass(type(value), Default)
