"""LightningCLI: the command line under Lightning's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jsonargparse
import torch
from torch.optim.lr_scheduler import LRScheduler

from drivetrain.compat.module import LightningDataModule, LightningModule
from drivetrain.compat.tools import seed_everything
from drivetrain.compat.trainer import Trainer
from drivetrain.program.cli import CLI
from drivetrain.program.optimizing import ReduceLROnPlateau
from drivetrain.program.parser import Parser
from drivetrain.program.saved_config import SaveConfigCallback

ArgsType: TypeAlias = "list[str] | dict[str, Any] | jsonargparse.Namespace | None"
OptimizerCallable = Callable[[Iterable[Any]], torch.optim.Optimizer]
LRSchedulerCallable = Callable[[torch.optim.Optimizer], LRScheduler | ReduceLROnPlateau]


class LightningArgumentParser(Parser):
    """`Parser`; variables of the environment begin with ``PL_``, where ``default_env`` reads them."""

    def __init__(self, *args: Any, env_prefix: str = "PL", **kwargs: Any) -> None:
        super().__init__(*args, env_prefix=env_prefix, **kwargs)

    def add_lightning_class_args(
        self,
        lightning_class: Callable[..., Any],
        nested_key: str,
        subclass_mode: bool = False,
        required: bool = True,
    ) -> list[str]:
        """Do what `add_class_args` does."""
        return self.add_class_args(lightning_class, nested_key, subclass_mode, required)


class LightningCLI(CLI):
    """`drivetrain.CLI` with the mirror's Trainer, modules and parser; errors are raised, not printed.

    ``load_from_checkpoint_support`` says nothing here: a checkpoint holds plain hyperparameters, and names no
    class that loading would import.
    """

    trainer_base = Trainer
    module_base = LightningModule
    datamodule_base = LightningDataModule
    exits = False

    @staticmethod
    def seed_everything(seed: int | None) -> int:
        """Seed the order of the data too, as the mirror's function does; None is ``PL_GLOBAL_SEED``, or 0."""
        return seed_everything(seed)

    def __init__(  # noqa: PLR0917 - that library's own order
        self,
        model_class: Callable[..., Any] | None = None,
        datamodule_class: Callable[..., Any] | None = None,
        save_config_callback: type[SaveConfigCallback] | None = SaveConfigCallback,
        save_config_kwargs: Mapping[str, Any] | None = None,
        trainer_class: Callable[..., Any] = Trainer,
        trainer_defaults: Mapping[str, Any] | None = None,
        seed_everything_default: bool | int = True,
        parser_kwargs: Mapping[str, Any] | None = None,
        parser_class: type[Parser] = LightningArgumentParser,
        subclass_mode_model: bool = False,
        subclass_mode_data: bool = False,
        args: Sequence[str] | Mapping[str, Any] | jsonargparse.Namespace | None = None,
        run: bool = True,
        auto_configure_optimizers: bool = True,
        load_from_checkpoint_support: bool = True,
    ) -> None:
        super().__init__(
            model_class,
            datamodule_class,
            save_config_callback,
            save_config_kwargs,
            trainer_class,
            trainer_defaults,
            seed_everything_default,
            parser_kwargs,
            parser_class,
            subclass_mode_model,
            subclass_mode_data,
            args,
            run,
            auto_configure_optimizers,
        )
