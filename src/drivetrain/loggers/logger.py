"""Logger: where logged values go; the base of ours and of a user's own."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, final

import torch

from drivetrain.collectives.collectives import Collectives
from drivetrain.loggers.rank import is_rank_zero
from drivetrain.loggers.silence import SILENCE

_FACTS = ("name", "version", "save_dir", "root_dir", "log_dir")
"""Properties that are on every rank what rank 0 says."""
_DECIDED = ("version", "log_dir")
"""Those of them that rank 0 finds out; before it did, other ranks know nothing."""
_WRITES = ("after_save_checkpoint", "finalize", "prepare", "save")
"""Methods that do nothing on other ranks, and so does every ``log_*``."""
_PROCESS = ("_experiment", "_is_zero")
"""What stays in the process that has it."""


class Logger(ABC):
    """Takes logged values and hyperparameters of runs; subclass it to send them elsewhere.

    Write no ``if rank``: on ranks other than 0 `save`, `finalize`, `after_save_checkpoint` and every
    ``log_*`` method do nothing, whatever a subclass makes of them, `experiment` is an object whose every
    method does nothing, and the properties are what rank 0 says. Keep what you open in
    ``self._experiment``: it stays in its process, the rest of the logger travels to the other ranks.
    """

    _experiment: Any = None
    """What is open, made by `experiment` when it is first asked for."""
    _is_zero: bool | None = None
    _facts: Mapping[str, Any] = MappingProxyType({})
    _newest_step = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Put the question for the rank around what the subclass defines."""
        super().__init_subclass__(**kwargs)
        for name, value in [*vars(cls).items()]:
            if name in _FACTS and isinstance(value, property):
                setattr(cls, name, _as_rank_zero_says(name, value))
            elif name == "experiment" and isinstance(value, (property, functools.cached_property)):
                setattr(cls, name, _silenced(value))
            elif (name in _WRITES or name.startswith("log_")) and inspect.isfunction(value):
                setattr(cls, name, _on_rank_zero(value))

    @final
    def begin(self, collectives: Collectives, *, stage: str = "fit", resumed_step: int | None = None) -> None:
        """Take up a run: the Trainer calls it on every rank before anything is logged.

        ``resumed_step`` is the optimizer step of the checkpoint that a fit goes on from, else None.

        Collectives:
            one broadcast_object of some words; every rank must call.
        """
        self._is_zero = collectives.rank == 0
        if self._is_zero:
            self.prepare(stage, resumed_step)
        facts = {name: getattr(self, name) for name in _FACTS} if self._is_zero else {}
        self._facts = collectives.broadcast_object(facts)

    def prepare(self, stage: str, resumed_step: int | None) -> None:  # noqa: B027 - most have nothing to do
        """Find the place to write to; on rank 0, at the beginning of each run.

        Afterwards `version` and `log_dir` are known. ``resumed_step`` is that of `begin`.
        """

    @property
    def name(self) -> str | None:
        """The experiment's name: a folder or project of many runs."""
        return type(self).__name__

    @property
    def version(self) -> int | str | None:
        """The run's number or name in the experiment."""
        return None

    @property
    def save_dir(self) -> str | None:
        """The folder of all experiments, or None."""
        return None

    @property
    def root_dir(self) -> str | None:
        """The folder of the experiment's versions, or None."""
        return None

    @property
    def log_dir(self) -> str | None:
        """The folder of this version, or None."""
        return None

    @property
    def experiment(self) -> Any:
        """What does the writing, for what is not in this interface; None where there is nothing."""
        return None

    @abstractmethod
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Write numbers; ``step`` counts optimizer steps taken, None is the newest step that was given.

        Runs also put ``epoch`` among the metrics.
        """

    @abstractmethod
    def log_hyperparams(self, params: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """Write the arguments that a run was made with; ``metrics`` are results to show beside them."""

    def log_graph(self, model: torch.nn.Module, input_array: Any = None) -> None:  # noqa: B027 - few can
        """Write the model's graph, where the logger can and was told to."""

    def save(self) -> None:  # noqa: B027 - many write at once
        """Bring what was written to the disk or the server."""

    def finalize(self, status: str) -> None:
        """End a run: ``success``, ``failed`` or ``interrupted``; a later write opens it again."""
        self.save()

    def after_save_checkpoint(self, checkpoint_callback: Any) -> None:
        """Notice that the callback saved a checkpoint: a run that goes on from it lacks nothing before it."""
        self.save()

    def _at(self, step: int | None) -> int:
        """Return the step, or the newest one for None."""
        if step is not None:
            self._newest_step = step
        return self._newest_step

    def _speaks(self) -> bool:
        """Whether this process writes."""
        if self._is_zero is None:
            self._is_zero = is_rank_zero()
        return self._is_zero

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without what is open here."""
        return {name: value for name, value in self.__dict__.items() if name not in _PROCESS}


def _on_rank_zero(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(self: Logger, *args: Any, **kwargs: Any) -> Any:
        return method(self, *args, **kwargs) if self._speaks() else None

    return guarded


def _as_rank_zero_says(name: str, found: property) -> property:
    read = found.fget
    assert read is not None  # noqa: S101 - a property that nobody can read is none

    @functools.wraps(read)
    def guarded(self: Logger) -> Any:
        if self._speaks():
            return read(self)
        if name in self._facts or name in _DECIDED:
            return self._facts.get(name)
        return read(self)

    return property(guarded, found.fset, found.fdel, found.__doc__)


def _silenced(found: property | functools.cached_property[Any]) -> property:
    # A cached one is cached here: up to Python 3.11 it holds a lock, which goes to no other rank.
    is_cached = isinstance(found, functools.cached_property)
    read = found.func if isinstance(found, functools.cached_property) else found.fget
    assert read is not None  # noqa: S101 - as above

    @functools.wraps(read)
    def guarded(self: Logger) -> Any:
        if not self._speaks():
            return SILENCE
        if not is_cached:
            return read(self)
        if self._experiment is None:
            self._experiment = read(self)
        return self._experiment

    return property(guarded, doc=found.__doc__)


@final
class DummyLogger(Logger):
    """Stands in where a run writes nothing but user code asks for ``self.logger.experiment``."""

    @property
    def name(self) -> str:
        """Empty."""
        return ""

    @property
    def version(self) -> str:
        """Empty."""
        return ""

    @property
    def experiment(self) -> Any:
        """An object whose every method does nothing."""
        return SILENCE

    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Do nothing."""

    def log_hyperparams(self, params: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Any:
        """Stand in for what other loggers have besides: ``watch``, ``log_image``, ``run_id``."""
        return getattr(SILENCE, name)


def with_prefix(prefix: str, metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metrics as ``<prefix>-<name>``; the epoch belongs to the run and stays as it is.

    Users may call with tensors or numpy's scalars: they become Python's numbers.
    """
    before = f"{prefix}-" if prefix else ""
    return {
        name if name == "epoch" else before + name: value.item() if getattr(value, "ndim", 1) == 0 else value
        for name, value in metrics.items()
    }
