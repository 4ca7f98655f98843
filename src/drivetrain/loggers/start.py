"""Loggers at the beginning of a run: on every rank, then what the run was made with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from drivetrain.base.errors import LoggerError
from drivetrain.collectives.collectives import Collectives
from drivetrain.loggers.logger import Logger
from drivetrain.modules.run import Logs


def begin_loggers(
    loggers: Sequence[Logs], collectives: Collectives, stage: str, resumed_step: int | None
) -> None:
    """Tell each logger that a run begins; one that is no `Logger` sees to its ranks itself.

    Collectives:
        one broadcast_object a logger; every rank must call.
    """
    for logger in loggers:
        if isinstance(logger, Logger):
            logger.begin(collectives, stage=stage, resumed_step=resumed_step)


def log_hyperparameters(loggers: Sequence[Logs], module: Any, datamodule: Any = None) -> None:
    """Hand what ``save_hyperparameters`` kept, and the model, to each logger; rank 0 writes.

    Raises:
        LoggerError [logger.name-clash]: module and data module have one name with two values.
    """
    mine, of_data = _kept(module), _kept(datamodule)
    for name in mine.keys() & of_data.keys():
        if not _is_same(mine[name], of_data[name]):
            raise LoggerError(
                "logger.name-clash",
                f"module and data module have the hyperparameter {name!r} with two values",
                values={"module": mine[name], "data module": of_data[name]},
                because="a run's hyperparameters are logged under one name each",
                hint=f"rename one, or leave it out of one: save_hyperparameters(ignore=[{name!r}])",
            )
    for logger in loggers:
        if params := of_data | mine:
            logger.log_hyperparams(params)
        if isinstance(logger, Logger):
            logger.log_graph(module)
        logger.save()


def _kept(thing: Any) -> dict[str, Any]:
    """Return an object's hyperparameters, without those of ``save_hyperparameters(logger=False)``."""
    unlogged = getattr(thing, "_unlogged_hparams", ())
    found: Mapping[str, Any] = getattr(thing, "hparams", None) or {}
    return {name: value for name, value in found.items() if name not in unlogged}


def _is_same(one: Any, other: Any) -> bool:
    try:
        return one is other or bool(one == other)
    except (TypeError, ValueError, RuntimeError):  # arrays and tensors have no single answer
        return False
