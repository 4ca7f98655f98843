"""Loggers under the folder names that Lightning's users look for."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from drivetrain.loggers.csv import CSVLogger as OurCSVLogger
from drivetrain.loggers.logger import DummyLogger
from drivetrain.loggers.rank import is_rank_zero
from drivetrain.loggers.silence import SILENCE
from drivetrain.loggers.tensorboard import TensorBoardLogger as OurTensorBoardLogger
from drivetrain.machine import installed

__all__ = [
    "CSVLogger",
    "DummyLogger",
    "FabricCSVLogger",
    "FabricTensorBoardLogger",
    "TensorBoardLogger",
    "default_logger",
    "merge_dicts",
    "rank_zero_experiment",
]


class CSVLogger(OurCSVLogger):
    """`drivetrain.CSVLogger` that writes to ``save_dir/lightning_logs/version_N``."""

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        prefix: str = "",
        flush_logs_every_n_steps: int = 100,
    ) -> None:
        super().__init__(save_dir, name, version, prefix, flush_logs_every_n_steps)


class FabricCSVLogger(CSVLogger):
    """The same, with the name that Fabric's users give its first argument."""

    def __init__(
        self,
        root_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        prefix: str = "",
        flush_logs_every_n_steps: int = 100,
    ) -> None:
        super().__init__(root_dir, name, version, prefix, flush_logs_every_n_steps)


class TensorBoardLogger(OurTensorBoardLogger):
    """`drivetrain.TensorBoardLogger` that writes to ``save_dir/lightning_logs/version_N``."""

    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        log_graph: bool = False,
        default_hp_metric: bool = True,
        prefix: str = "",
        sub_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(save_dir, name, version, log_graph, default_hp_metric, prefix, sub_dir, **kwargs)


class FabricTensorBoardLogger(TensorBoardLogger):
    """The same, with the name that Fabric's users give its first argument."""

    def __init__(
        self,
        root_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        default_hp_metric: bool = True,
        prefix: str = "",
        sub_dir: str | os.PathLike[str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(root_dir, name, version, False, default_hp_metric, prefix, sub_dir, **kwargs)


def default_logger(save_dir: str) -> CSVLogger | TensorBoardLogger:
    """Return the logger of a run that names none: TensorBoard's where it is installed."""
    is_there = any(installed.version(name) is not None for name in ("tensorboard", "tensorboardX"))
    return TensorBoardLogger(save_dir) if is_there else CSVLogger(save_dir)


def rank_zero_experiment(read: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``experiment`` of a logger be an object whose methods do nothing, on other ranks than 0."""

    @functools.wraps(read)
    def experiment(self: Any) -> Any:
        speaks = self._speaks() if hasattr(self, "_speaks") else is_rank_zero()
        return read(self) if speaks else SILENCE

    return experiment


def merge_dicts(
    dicts: Sequence[Mapping[str, Any]],
    agg_key_funcs: Mapping[str, Callable[[Sequence[float]], float]] | None = None,
    default_func: Callable[[Sequence[float]], float] = lambda values: sum(values) / len(values),
) -> dict[str, Any]:
    """Make one of several dicts of numbers: of each name, what its function makes of all its values."""
    names = dict.fromkeys(name for one in dicts for name in one)
    merged: dict[str, Any] = {}
    for name in names:
        values = [one[name] for one in dicts if name in one]
        function = (agg_key_funcs or {}).get(name, default_func)
        merged[name] = (
            merge_dicts(values, None, default_func) if isinstance(values[0], Mapping) else function(values)
        )
    return merged
