"""The arguments that a module was made with, as plain data."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Any, TypeVar

import torch

from drivetrain.base.errors import DrivetrainWarning, ModuleError, Notice
from drivetrain.checkpoint_io.entry import Entry

T = TypeVar("T")


class Hyperparameters(dict[str, Any]):
    """A dict whose entries are attributes too: ``self.hparams.learning_rate``."""

    def __getattr__(self, name: str) -> Any:
        """Return an entry."""
        try:
            return self[name]
        except KeyError:
            message = f"no hyperparameter {name!r}; there are: {', '.join(self) or 'none'}"
            raise AttributeError(message) from None

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an entry."""
        self[name] = value


def arguments_of_init(frame: FrameType | None, thing: object) -> dict[str, Any]:
    """Return the arguments of the ``__init__`` that a frame runs, and of those that called it by super().

    Raises:
        ModuleError [module.hyperparameters]: the frame is no ``__init__`` of the object.
    """
    found: dict[str, Any] = {}
    is_one = _is_init(frame, thing)
    while frame is not None and _is_init(frame, thing):
        info = inspect.getargvalues(frame)
        own = {name: info.locals[name] for name in info.args[1:]}
        own |= info.locals[info.keywords] if info.keywords else {}
        own.pop("__class__", None)
        found |= own  # an outer frame is the more derived class's __init__, which the user calls
        frame = frame.f_back
    if not is_one:
        raise ModuleError(
            "module.hyperparameters",
            f"save_hyperparameters() of {type(thing).__name__} finds no arguments",
            values={"class": type(thing).__qualname__},
            because="it saves the arguments of the __init__ that calls it",
            hint="call it in __init__, or pass the values: save_hyperparameters({'lr': 0.1})",
        )
    return found


def _is_init(frame: FrameType | None, thing: object) -> bool:
    return frame is not None and frame.f_code.co_name == "__init__" and _self_of(frame) is thing


def _argument_of(frame: FrameType | None, thing: object, given: object) -> str | None:
    """Return the argument of the ``__init__`` that a frame runs, which an object was given as."""
    if frame is None or not _is_init(frame, thing):
        return None
    info = inspect.getargvalues(frame)
    return next((name for name in info.args[1:] if info.locals.get(name) is given), None)


def _self_of(frame: FrameType) -> object:
    names = frame.f_code.co_varnames
    return frame.f_locals.get(names[0]) if names else None


def split_plain(values: Mapping[str, Any], ignored: Iterable[str]) -> tuple[dict[str, Any], list[str]]:
    """Return what is plain data, and the names of what is not; ignored ones are in neither."""
    skipped = set(ignored)
    kept = {name: value for name, value in values.items() if name not in skipped}
    plain = {name: value for name, value in kept.items() if _is_plain(value)}
    return plain, [name for name in kept if name not in plain]


def warn_left_out(thing: object, names: list[str]) -> None:
    """Say which arguments a checkpoint will lack."""
    quoted = ", ".join(map(repr, names))
    text = (
        f"{type(thing).__name__}: {quoted} is no plain data and stays out of checkpoints; "
        f"pass save_hyperparameters(ignore=[{quoted}]), and give it to load_from_checkpoint"
    )
    warnings.warn(str(Notice("module.hyperparameters", text)), DrivetrainWarning, stacklevel=4)


def _is_plain(value: object) -> bool:
    if isinstance(value, Mapping):
        return type(value) is dict and all(
            type(key) in (str, int) and _is_plain(kept) for key, kept in value.items()
        )
    if isinstance(value, (list, tuple)):
        return type(value) in (list, tuple) and all(map(_is_plain, value))
    return (
        value is None
        or type(value) in (bool, int, float, complex, str, bytes)
        or isinstance(value, (torch.Tensor, torch.dtype))
    )


class WithHyperparameters:
    """Keeps the arguments that an object was made with."""

    _hyperparameters: Hyperparameters | None = None
    _initial: Hyperparameters | None = None
    _unlogged_hparams: frozenset[str] = frozenset()
    _hparams_name: str | None = None
    """The argument of ``__init__`` that holds all of them, where it is one: ``hparams``, ``config``."""

    @property
    def hparams(self) -> Hyperparameters:
        """What `save_hyperparameters` kept; empty before."""
        if self._hyperparameters is None:
            self._hyperparameters = Hyperparameters()
        return self._hyperparameters

    @property
    def hparams_initial(self) -> Hyperparameters:
        """What `save_hyperparameters` kept, as it was then; later changes of `hparams` are not in it."""
        return Hyperparameters(copy.deepcopy(dict(self._initial or {})))

    def save_hyperparameters(
        self,
        *args: Any,
        ignore: str | Iterable[str] | None = None,
        frame: FrameType | None = None,
        logger: bool = True,
    ) -> None:
        """Keep the arguments of ``__init__`` in `hparams`, and the plain ones of them in checkpoints.

        ``args`` may name those to keep, or be one mapping, namespace or dataclass with values; without any,
        all are kept. ``frame`` is that of the ``__init__``, where another function calls this. With
        ``logger=False`` they are not given to loggers.
        """
        found = _values(args[0]) if len(args) == 1 else None
        here = inspect.currentframe()
        frame = frame or (here.f_back if here else None)
        if found is not None:
            values, self._hparams_name = found, _argument_of(frame, self, args[0])
        else:
            values, self._hparams_name = arguments_of_init(frame, self), None
            values = {name: values[name] for name in args} if args else values
        ignored = [ignore] if isinstance(ignore, str) else list(ignore or ())
        plain, others = split_plain(values, ignored)
        if others:
            warn_left_out(self, others)
        self.hparams.update(plain)
        self.hparams.update({name: values[name] for name in others})
        if not logger:
            self._unlogged_hparams |= values.keys()
        kept = {**plain, **{name: values[name] for name in others}}
        self._initial = Hyperparameters({**(self._initial or {}), **kept})


def _values(given: Any) -> dict[str, Any] | None:
    """Return what an object holds by name, or None for one that only names something."""
    if isinstance(given, Mapping):
        return dict(given)
    if isinstance(given, Namespace):
        return vars(given).copy()
    if dataclasses.is_dataclass(given) and not isinstance(given, type):
        return {one.name: getattr(given, one.name) for one in dataclasses.fields(given)}
    return None


def made_from(
    kind: Callable[..., T],
    kept: Entry | None,
    path: str | os.PathLike[str] | None,
    given: Mapping[str, Any],
    argument: object = None,
) -> T:
    """Make an object from a checkpoint's arguments, those of a YAML file over them, those given over both.

    ``argument`` names the one that takes all of them, where there is one.
    """
    values = {} if kept is None else {name: entry.value for name, entry in kept.named()}
    if path is not None:
        import fsspec
        import yaml

        with fsspec.open(os.fspath(path), "r") as file:
            values |= yaml.safe_load(file) or {}
    values |= given
    names = inspect.signature(kind).parameters
    takes_all = any(one.kind is one.VAR_KEYWORD for one in names.values())
    if isinstance(argument, str) and argument in names and argument not in given:
        own = {name: value for name, value in given.items() if takes_all or name in names}
        return kind(**{argument: Hyperparameters(values), **own})
    return kind(**{name: value for name, value in values.items() if takes_all or name in names})
