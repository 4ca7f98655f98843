"""CLI: a program's fit, validate, test and predict, from its command line and YAML files."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MethodType
from typing import TYPE_CHECKING, Any

import jsonargparse

from drivetrain import callbacks, loggers, profilers
from drivetrain.base.errors import (
    BuildError,
    CheckpointError,
    DrivetrainError,
    DrivetrainWarning,
    Notice,
    PlanError,
    TrainerError,
)
from drivetrain.base.loading import Later
from drivetrain.base.origin import Default
from drivetrain.callbacks.callback import Callback
from drivetrain.data.seeds import seed_everything
from drivetrain.events import is_unused
from drivetrain.modules import DataModule, Module
from drivetrain.program.optimizing import configured, instantiate_class, trained_by
from drivetrain.program.saved_config import SaveConfigCallback
from drivetrain.trainer import Trainer

if TYPE_CHECKING:
    from drivetrain.program import parser as parsing
else:
    parsing = Later("drivetrain.program.parser")

_TEXTS = (str, int, float, bool)
_SAYABLE = (*_TEXTS, dict)
Kind = type | Callable[..., Any]


class CLI:
    """Read the command line, make trainer, module and data of it, and run the verb that it names.

    ``python train.py fit --config run.yaml --trainer.devices 2 --model.width 64``: every argument of the
    Trainer, the module and the data module is an argument, from the type hints of ``__init__``; so are the
    optimizer and its schedule, where ``configure_optimizers`` is not overridden. ``--print_config`` shows a
    whole file to begin with, and each run leaves one beside its logs. Without ``model_class`` the command
    line chooses a `Module` by ``class_path``; without ``datamodule_class`` it may choose a `DataModule`.

    ``run=False`` makes the objects and runs nothing: then there are no subcommands. ``args`` is read in place
    of the command line. ``trainer_defaults`` changes the Trainer's defaults; its callbacks are in every run.
    ``seed_everything_default`` is what ``--seed_everything`` is when it is not said: a number, True for 0,
    False for leaving the random state alone. ``parser_kwargs`` goes to `Parser`, for one subcommand under its
    name. What a verb returned is in ``result``.

    Raises:
        SystemExit: 2, with the message on standard error, for a command line that is wrong; where ``args``
            is not given, also for flags that do not fit together, checkpoints that are not there, and
            objects that cannot be made.
    """

    trainer_base: type = Trainer
    module_base: type = Module
    datamodule_base: type = DataModule
    exits = True
    """Whether an error of the library ends the program with its message in place of a traceback."""

    def __init__(
        self,
        model_class: Kind | None = None,
        datamodule_class: Kind | None = None,
        save_config_callback: type[SaveConfigCallback] | None = SaveConfigCallback,
        save_config_kwargs: Mapping[str, Any] | None = None,
        trainer_class: Kind | None = None,
        trainer_defaults: Mapping[str, Any] | None = None,
        seed_everything_default: bool | int = True,
        parser_kwargs: Mapping[str, Any] | None = None,
        parser_class: type[parsing.Parser] | None = None,
        subclass_mode_model: bool = False,
        subclass_mode_data: bool = False,
        args: Sequence[str] | Mapping[str, Any] | jsonargparse.Namespace | None = None,
        run: bool = True,
        auto_configure_optimizers: bool = True,
    ) -> None:
        self.save_config_callback = save_config_callback
        self.save_config_kwargs = dict(save_config_kwargs or {})
        self.trainer_class = trainer_class or self.trainer_base
        self.trainer_defaults = dict(trainer_defaults or {})
        self.seed_everything_default = seed_everything_default
        self.parser_class = parser_class or parsing.Parser
        self.auto_configure_optimizers = auto_configure_optimizers
        self.model_class = model_class
        self.datamodule_class = datamodule_class
        self._model = (model_class or self.module_base, model_class is None or subclass_mode_model)
        self._data = (
            datamodule_class or self.datamodule_base,
            datamodule_class is None or subclass_mode_data,
        )
        self._subparsers: dict[str, parsing.Parser] = {}
        self.result: Any = None

        _know_classes()
        self.parser = self._make_parser(dict(parser_kwargs or {}), run=run)
        self.config = self.parse_arguments(self.parser, args)
        self.subcommand: str | None = self.config.get("subcommand") if run else None
        self._set_seed()
        with self._said_plainly(wanted=self.exits and args is None):
            self.before_instantiate_classes()
            self.instantiate_classes()
            self.after_instantiate_classes()
        if self.subcommand is not None:
            self._run(self.subcommand, is_plain=self.exits and args is None)

    # What a subclass overrides.

    def add_arguments_to_parser(self, parser: Any) -> None:
        """Add arguments of one's own, links (``parser.link_arguments``) and defaults (``set_defaults``)."""

    def before_instantiate_classes(self) -> None:
        """Before anything is made; ``self.config`` is what was said."""

    def after_instantiate_classes(self) -> None:
        """After all is made, before the verb runs."""

    @staticmethod
    def seed_everything(seed: int | None) -> int:
        """Seed what is random before anything is made; return the seed. None: ``--seed_everything=true``."""
        return seed_everything(seed or 0)

    @staticmethod
    def configure_optimizers(lightning_module: Any, optimizer: Any, lr_scheduler: Any = None) -> Any:
        """Return what the module's configure_optimizers returns, of what the command line chose."""
        del lightning_module
        return configured(optimizer, lr_scheduler)

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Return the verbs, each with the arguments that the command line does not have."""
        loaders = {"model", "dataloaders", "datamodule", "flags"}
        return {
            "fit": {"model", "train_dataloaders", "val_dataloaders", "datamodule", "flags"},
            "validate": loaders,
            "test": loaders,
            "predict": loaders,
        }

    def init_parser(self, **kwargs: Any) -> Any:
        """Make a parser without arguments."""
        return self.parser_class(**kwargs)

    def add_default_arguments_to_parser(self, parser: Any) -> None:
        """Add ``--seed_everything``."""
        parser.add_argument(
            "--seed_everything",
            type=bool | int,
            default=self.seed_everything_default,
            help="seed of python, numpy and torch before anything is made; True for 0, False for none",
        )

    def add_core_arguments_to_parser(self, parser: Any) -> None:
        """Add those of the trainer, the module and the data module."""
        parser.add_class_args(self.trainer_class, "trainer")
        # Objects have no text that a file could hold: they stand in where nothing is said.
        sayable = {name: one for name, one in self.trainer_defaults.items() if isinstance(one, _SAYABLE)}
        parser.set_defaults({f"trainer.{name}": one for name, one in sayable.items()})
        parser.add_class_args(self._model[0], "model", subclass_mode=self._model[1])
        if self.datamodule_class is not None:
            parser.add_class_args(self._data[0], "data", subclass_mode=self._data[1])
        else:
            parser.add_class_args(self._data[0], "data", subclass_mode=True, required=False)

    def parse_arguments(self, parser: Any, args: Any) -> Any:
        """Read ``args``, or the command line."""
        if isinstance(args, (Mapping, jsonargparse.Namespace)):
            return parser.parse_object(args)
        return parser.parse_args(args)

    def instantiate_classes(self) -> None:
        """Make the objects: ``self.model``, ``self.datamodule``, ``self.trainer``; `configure_optimizers`."""
        make = getattr(self.parser, "instantiate", None)  # its name in recent releases
        self.config_init = (make or self.parser.instantiate_classes)(self.config)
        self.datamodule = self._get(self.config_init, "data")
        self.model = self._get(self.config_init, "model")
        self._give_optimizers()
        self.trainer = self.instantiate_trainer()

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """Make the trainer of what was said; ``kwargs`` win."""
        own = [self._get(self.config_init, key) for key in self._parser().callback_keys]
        found = self._get(self.config_init, "trainer", {})
        said = {**(found if isinstance(found, Mapping) else vars(found)), **kwargs}
        takes = parsing.takes_of(self.trainer_class)
        objects = {name: one for name, one in self.trainer_defaults.items() if not isinstance(one, _SAYABLE)}
        wanted = [*_listed(said.pop("callbacks", None)), *own, *_listed(objects.pop("callbacks", None))]
        said |= {name: one for name, one in objects.items() if _is_default(said.get(name), takes.get(name))}
        if self.save_config_callback and not said.get("fast_dev_run"):
            told = self._get(self.config, None)
            wanted.append(self.save_config_callback(self._parser(), told, **self.save_config_kwargs))
        # What is the Trainer's default was not asked for, and may be decided by something else.
        given = {
            name: _made(value)
            for name, value in said.items()
            if name in kwargs or name not in takes or not _is_default(value, takes[name])
        }
        return self.trainer_class(**given, **({"callbacks": wanted} if wanted else {}))

    # How it is done.

    def _make_parser(self, options: dict[str, Any], *, run: bool) -> Any:
        verbs = self.subcommands()
        of_verbs = {name: options.pop(name) for name in [*options] if name in verbs and run}
        parser = self.init_parser(**options)
        if not run:
            self._add_arguments(parser)
            return parser
        several = parser.add_subcommands()
        shared = {
            name: options[name] for name in ("env_prefix", "default_env", "parser_mode") if name in options
        }
        for name, skipped in verbs.items():
            about = getattr(self.trainer_class, name, getattr(self.trainer_base, name))
            summary = (about.__doc__ or name).strip().splitlines()[0]
            one = self.init_parser(**{**shared, "description": summary, **of_verbs.get(name, {})})
            self._add_arguments(one)
            kind = self.trainer_class if isinstance(self.trainer_class, type) else self.trainer_base
            one.add_method_arguments(kind, name, skip=skipped, fail_untyped=False)
            several.add_subcommand(name, one, help=summary)
            self._subparsers[name] = one
        return parser

    def _add_arguments(self, parser: Any) -> None:
        self.add_default_arguments_to_parser(parser)
        self.add_core_arguments_to_parser(parser)
        self.add_arguments_to_parser(parser)
        if self.auto_configure_optimizers:
            if not parser.optimizers:
                parser.add_optimizer_args()
            if not parser.schedulers:
                parser.add_lr_scheduler_args()
        parser.complete()

    def _parser(self, subcommand: str | None = None) -> Any:
        """Return the parser that has the arguments: the verb's, where there are verbs."""
        name = subcommand or self.subcommand
        return self.parser if name is None else self._subparsers[name]

    def _get(self, config: Any, key: str | None, default: Any = None) -> Any:
        """Return what was said, of the verb that runs."""
        inner = config if self.subcommand is None else config.get(self.subcommand)
        return inner if key is None else inner.get(key, default)

    def _set_seed(self) -> None:
        seed = self._get(self.config, "seed_everything")
        if seed is False or seed is None:
            return
        found = self.seed_everything(None if seed is True else int(seed))
        where = self.config if self.subcommand is None else self.config[self.subcommand]
        where["seed_everything"] = found

    def _give_optimizers(self) -> None:
        """Make configure_optimizers of the module what the command line chose, if it did."""
        if not self.auto_configure_optimizers:
            return
        parser, config = self._parser(), self._get(self.config, None)
        optimizers, schedulers = parser.own(config)
        if not optimizers:
            return
        if len(optimizers) > 1 or len(schedulers) > 1:
            raise TrainerError(
                "trainer.bad-argument",
                f"{len(optimizers)} optimizers and {len(schedulers)} schedulers are the module's own",
                values={"optimizers": [*parser.optimizers], "schedulers": [*parser.schedulers]},
                because="one optimizer and one scheduler are put together without being told how",
                hint="pass link_to='model.<argument>' and make them in the module, by instantiate_class",
            )
        if not is_unused(self.model.configure_optimizers):
            text = (
                f"the command line's optimizer replaces {type(self.model).__name__}.configure_optimizers; "
                "leave --optimizer out for the module's own"
            )
            warnings.warn(str(Notice("cli.optimizer-replaced", text)), DrivetrainWarning, stacklevel=2)

        put_together = self.configure_optimizers  # and not self, which would go to the other ranks

        def configure(module: Any) -> Any:
            made = trained_by(module.parameters(), optimizers[0])
            schedule = instantiate_class(made, schedulers[0]) if schedulers else None
            return put_together(module, made, schedule)

        self.model.configure_optimizers = MethodType(configure, self.model)

    def _run(self, subcommand: str, *, is_plain: bool) -> None:
        config = self._get(self.config_init, None)
        skipped = self.subcommands()[subcommand]
        takes = parsing.takes(getattr(self.trainer, subcommand))
        given = {name: config[name] for name in takes if name in config and name not in skipped}
        given["model"] = self.model
        if self.datamodule is not None:
            given["datamodule"] = self.datamodule
        self._call(f"before_{subcommand}")
        with self._said_plainly(wanted=is_plain):
            self.result = getattr(self.trainer, subcommand)(**given)
        self._call(f"after_{subcommand}")

    def _call(self, name: str) -> None:
        """Call a subclass's ``before_fit``, ``after_test``, ..., where there is one."""
        method = getattr(self, name, None)
        if callable(method):
            method()

    @staticmethod
    @contextlib.contextmanager
    def _said_plainly(*, wanted: bool) -> Iterator[None]:
        """End the program with the message of what the command line is to blame for.

        Errors that a line of the user's code causes are raised: their traceback names the line.
        """
        try:
            yield
        except (PlanError, BuildError, CheckpointError, TrainerError, ValueError) as error:
            # Where an object that was said cannot be made, jsonargparse tells why in an error of its own.
            if not wanted or not (isinstance(error, DrivetrainError) or "Given value" in str(error)):
                raise
            sys.stderr.write(f"{error}\n")
            raise SystemExit(2) from error


def _know_classes() -> None:
    """Load our callbacks, loggers and profilers, so that the command line may name them without a module."""
    for package in (callbacks, loggers, profilers):
        for name in dir(package):
            getattr(package, name)


def _listed(value: Any) -> list[Callback]:
    return [] if value is None else [*value] if isinstance(value, (list, tuple)) else [value]


def _is_default(value: Any, default: Any) -> bool:
    """Whether a value is what the Trainer has anyway; one batch is not all of them: 1 is not 1.0."""
    plain = parsing.plain(default) if isinstance(default, Default) else default
    return plain is value or (type(plain) is type(value) and type(value) in _TEXTS and bool(plain == value))


def _made(value: Any) -> Any:
    """Make the objects that flags hold as ``class_path`` and ``init_args``."""
    if isinstance(value, jsonargparse.Namespace):
        value = value.as_dict()
    if isinstance(value, (list, tuple)):
        return [_made(one) for one in value]
    if isinstance(value, Mapping) and "class_path" in value:
        found = {name: _made(one) for name, one in value.get("init_args", {}).items()}
        return instantiate_class((), {"class_path": value["class_path"], "init_args": found})
    return value
