"""Parser: arguments made of the signatures of classes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jsonargparse
import torch
from jsonargparse import ActionConfigFile, set_parsing_settings  # type: ignore[attr-defined]  # theirs by a star import
from jsonargparse.typing import class_from_function
from torch.optim.lr_scheduler import LRScheduler

from drivetrain.base.errors import TrainerError
from drivetrain.base.origin import Default, DefaultSwitch, DefaultText
from drivetrain.callbacks.callback import Callback
from drivetrain.modules import DataModule, Module
from drivetrain.program.optimizing import ReduceLROnPlateau
from drivetrain.trainer import Trainer

AUTOMATIC = "AUTOMATIC"
"""Where an optimizer goes that `CLI` gives to the module itself."""
OPTIMIZERS = (torch.optim.Optimizer,)
SCHEDULERS = (LRScheduler, ReduceLROnPlateau)

_ANY = "instantiate_subclass_spec_in_any"
if _ANY in inspect.signature(set_parsing_settings).parameters:
    # What objects of flags are made by today, and is asked for in words in recent releases.
    set_parsing_settings(instantiate_subclass_spec_in_any=True)

_RENAMED = (4, 49)
"""The release of jsonargparse since which a value that is None is called unset."""
_RELEASE = tuple(int(part) for part in jsonargparse.__version__.split(".")[:2])
EVERYTHING = {"skip_unset" if _RELEASE >= _RENAMED else "skip_none": False}
"""What `save` and `dump` are told to write, None too: it may have been said in place of another default."""

Classes = type | tuple[type, ...]


class Parser(jsonargparse.ArgumentParser):
    """jsonargparse's parser, which knows trainers, modules, callbacks, optimizers and schedulers.

    ``--config`` reads a YAML file; what is said after it wins.
    """

    def __init__(
        self,
        *args: Any,
        description: str = "Train, evaluate and predict",
        env_prefix: str = "DT",
        default_env: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            *args, description=description, env_prefix=env_prefix, default_env=default_env, **kwargs
        )
        self.callback_keys: list[str] = []
        """Callbacks with arguments of their own, which every run has."""
        self.optimizers: dict[str, tuple[Classes, str]] = {}
        """By argument: the classes, and where they go."""
        self.schedulers: dict[str, tuple[Classes, str]] = {}
        self._flags: list[str] = []
        self.add_argument("-c", "--config", action=ActionConfigFile, help="a YAML or JSON file")

    def add_class_args(
        self, wanted: Callable[..., Any], nested_key: str, subclass_mode: bool = False, required: bool = True
    ) -> list[str]:
        """Add the arguments of a class, or of a function that returns one of its objects.

        ``subclass_mode`` lets the command line choose a subclass, by ``class_path`` and ``init_args``.

        Raises:
            TrainerError [trainer.bad-argument]: it is no trainer, module, data module or callback.
        """
        kind: Any = wanted
        if not isinstance(wanted, type) and callable(wanted):
            kind = class_from_function(wanted)
        if not isinstance(kind, type) or not issubclass(kind, (Trainer, Module, DataModule, Callback)):
            raise TrainerError(
                "trainer.bad-argument",
                f"arguments of {wanted!r} cannot be added",
                values={"class": wanted},
                because="it takes trainers, modules, data modules, callbacks, and functions that are "
                "annotated to return one",
                hint="use add_class_arguments for another class",
            )
        if issubclass(kind, Callback):
            self.callback_keys.append(nested_key)
        if subclass_mode:
            self.add_subclass_arguments(kind, nested_key, fail_untyped=False, required=required)
            return []
        found: list[str] = self.add_class_arguments(
            kind, nested_key, fail_untyped=False, instantiate=not issubclass(kind, Trainer)
        )
        if issubclass(kind, Trainer):
            self._flags += found
        return found

    def add_optimizer_args(
        self, optimizer_class: Classes = OPTIMIZERS, nested_key: str = "optimizer", link_to: str = AUTOMATIC
    ) -> None:
        """Add an optimizer: of one class its arguments, of several a choice of a subclass.

        ``link_to`` is an argument that gets it as ``class_path`` and ``init_args``, for
        `instantiate_class`; without it the optimizer is the module's own.
        """
        self._add_without(optimizer_class, nested_key, "params", OPTIMIZERS)
        self.optimizers[nested_key] = (optimizer_class, link_to)

    def add_lr_scheduler_args(
        self,
        lr_scheduler_class: Classes = SCHEDULERS,
        nested_key: str = "lr_scheduler",
        link_to: str = AUTOMATIC,
    ) -> None:
        """Add a scheduler, as `add_optimizer_args` adds an optimizer."""
        self._add_without(lr_scheduler_class, nested_key, "optimizer", SCHEDULERS)
        self.schedulers[nested_key] = (lr_scheduler_class, link_to)

    def _add_without(self, classes: Classes, key: str, skipped: str, bases: tuple[type, ...]) -> None:
        given = classes if isinstance(classes, tuple) else (classes,)
        if not given or not all(issubclass(one, bases) for one in given):
            raise TrainerError(
                "trainer.bad-argument",
                f"{key}: {classes!r}",
                values={key: classes},
                because=f"it is a class, or a tuple of classes, that derive from {bases[0].__name__}",
                hint=f"pass one of torch's, or leave it out for any {bases[0].__name__}",
            )
        options: dict[str, Any] = {"instantiate": False, "fail_untyped": False, "skip": {skipped}}
        if isinstance(classes, tuple):
            self.add_subclass_arguments(classes, key, required=False, **options)
        else:
            self.add_class_arguments(classes, key, sub_configs=True, **options)

    def complete(self) -> None:
        """After all arguments: give optimizers to what their ``link_to`` names, and make defaults plain."""
        for key, (classes, target) in {**self.optimizers, **self.schedulers}.items():
            if target != AUTOMATIC:
                self.link_arguments(key, target, compute_fn=_said_by(classes))
        # Defaults that stand for "not said" would be written as the names of constants.
        defaults = {name: self.get_default(name) for name in self._flags}
        marked = {name: one for name, one in defaults.items() if isinstance(one, Default)}
        self.set_defaults({name: plain(one) for name, one in marked.items()})

    def own(self, config: jsonargparse.Namespace) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the module's own optimizers and schedulers that were said: class_path and init_args."""
        optimizers, schedulers = (
            [
                _said_by(classes)(config[key])
                for key, (classes, target) in kind.items()
                if target == AUTOMATIC and config.get(key) is not None
            ]
            for kind in (self.optimizers, self.schedulers)
        )
        return optimizers, schedulers


def plain(default: Default) -> str | int | bool:
    """Return the text, number or switch that a flag's default equals."""
    if isinstance(default, DefaultSwitch):
        return bool(default)
    return str(default) if isinstance(default, DefaultText) else int(default)  # type: ignore[call-overload]  # the third kind


def _said_by(classes: Classes) -> Callable[[Any], dict[str, Any]]:
    """Return what makes of a parsed optimizer its ``class_path`` and ``init_args``."""

    def said(value: Any) -> dict[str, Any]:
        found = value.as_dict() if isinstance(value, jsonargparse.Namespace) else dict(value)
        if isinstance(classes, tuple):
            found.pop("__path__", None)
            return found
        return {"class_path": f"{classes.__module__}.{classes.__qualname__}", "init_args": found}

    return said


def takes(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the named arguments of a function, each with its default."""
    parameters = inspect.signature(function).parameters.values()
    unnamed = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return {one.name: one.default for one in parameters if one.kind not in unnamed}


def takes_of(kind: Callable[..., Any]) -> dict[str, Any]:
    """Return the named arguments of a class, or a function; also those that it hands on as ``**more``."""
    kinds = [one for one in reversed(getattr(kind, "__mro__", ())) if "__init__" in vars(one)]
    found: dict[str, Any] = {}
    for one in kinds:
        found |= takes(one.__init__)
    return found or takes(kind)
