"""The kinds by which users of Lightning know errors and warnings: ours are of both kinds.

The messages are ours. ``except MisconfigurationException`` catches a `TrainerError`, and
``except drivetrain.TrainerError`` catches it too.
"""

from __future__ import annotations

from drivetrain.base.errors import (
    BuildError,
    DataError,
    DrivetrainDeprecationWarning,
    DrivetrainError,
    DrivetrainWarning,
    EngineError,
    LoggerError,
    ModuleError,
    PlanError,
    SpikeError,
    TrainerError,
    also_raise_as,
)


class MisconfigurationException(Exception):  # noqa: N818 - the name that is known
    """What was asked for cannot be done: with these flags, this module, this data."""


class SIGTERMException(SystemExit):
    """A signal asked the run to leave; code that catches SystemExit catches it."""


class TrainingSpikeException(RuntimeError):  # noqa: N818 - as above
    """The loss of a step jumped."""


PossibleUserWarning = DrivetrainWarning
LightningDeprecationWarning = DrivetrainDeprecationWarning

_BY_CLASS: dict[type[DrivetrainError], type[Exception]] = {
    BuildError: MisconfigurationException,
    DataError: MisconfigurationException,
    EngineError: MisconfigurationException,
    LoggerError: MisconfigurationException,
    ModuleError: MisconfigurationException,
    PlanError: MisconfigurationException,
    SpikeError: TrainingSpikeException,
    TrainerError: MisconfigurationException,
}
_BY_CODE: dict[str, type[Exception]] = {
    "checkpoint.no-weights": RuntimeError,
    "data.seed": ValueError,
    "engine.not-launched": RuntimeError,
    "module.hook-arguments": TypeError,
    "module.hook-name": NotImplementedError,
    "module.log-value": ValueError,
    "module.no-trainer": RuntimeError,
    "module.step-arguments": TypeError,
    "strategy.unused-parameters": RuntimeError,
    "trainer.not-a-datamodule": TypeError,
    "trainer.not-a-module": TypeError,
    "trainer.unknown-argument": TypeError,
    "trainer.bad-argument": ValueError,
    "trainer.no-best": ValueError,
}
"""What else an error with this code is known as."""


def learn_kinds() -> None:
    """Let every error be known by these kinds too, from now on."""
    if not _IS_LEARNT:
        _IS_LEARNT.append(True)
        also_raise_as(known_kind)


_IS_LEARNT: list[bool] = []


def known_kind(kind: type[DrivetrainError], code: str) -> type[DrivetrainError]:
    """Return a subclass of an error's class that is of the known kinds too; itself where there are none."""
    made = _MADE.get((kind, code))
    if made is None:
        made = _MADE[kind, code] = _made(kind, code)
    return made


_MADE: dict[tuple[type[DrivetrainError], str], type[DrivetrainError]] = {}


def _made(kind: type[DrivetrainError], code: str) -> type[DrivetrainError]:
    found = [known for ours, known in _BY_CLASS.items() if issubclass(kind, ours)]
    found += [_BY_CODE[code]] if code in _BY_CODE else []
    missing = tuple(known for known in found if not issubclass(kind, known))
    if not missing or hasattr(kind, "also_of"):
        return kind
    attributes = {
        "__module__": kind.__module__,
        "__qualname__": kind.__qualname__,
        "__doc__": kind.__doc__,
        "also_of": kind,
    }
    made: type[DrivetrainError] = type(kind.__name__, (kind, *missing), attributes)
    return made
