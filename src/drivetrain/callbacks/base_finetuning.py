"""BaseFinetuning: freezes parts of a module before the fit, and unfreezes them within it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from drivetrain.base.errors import DrivetrainWarning, Notice
from drivetrain.callbacks.callback import Callback
from drivetrain.callbacks.param_groups import follow, rates
from drivetrain.callbacks.pruned import plain_names
from drivetrain.modules import Module, Run

Modules: TypeAlias = "torch.nn.Module | Iterable[Modules]"
"""A module, or several, nested in any way."""


class BaseFinetuning(Callback):
    """Override `freeze_before_training` and `finetune_function`, with the static methods at hand.

    A fit that is resumed has the parameter groups, and what is frozen, of the run that it goes on from. Give
    the optimizer only what is trained at first: ``filter(lambda one: one.requires_grad, self.parameters())``.
    """

    acts_in_fit_only = True

    _place: tuple[Run, Module] | None = None
    """The fit that it is in."""

    def __getstate__(self) -> dict[str, Any]:
        """Travel to another rank without the run."""
        return {**vars(self), "_place": None}

    def freeze_before_training(self, pl_module: Module) -> None:
        """Freeze what is not trained at first; called before the optimizers are made."""
        raise NotImplementedError

    def finetune_function(self, pl_module: Module, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        """Unfreeze what is trained from this epoch on; called for each optimizer at each epoch's start."""
        raise NotImplementedError

    @staticmethod
    def flatten_modules(modules: Modules) -> list[torch.nn.Module]:
        """Return the modules that have parameters of their own, or no parts, each once."""
        if isinstance(modules, torch.nn.ModuleDict):
            modules = modules.values()
        if isinstance(modules, Iterable):
            found = [part for one in modules for part in BaseFinetuning.flatten_modules(one)]
        else:
            found = list(modules.modules())
        unique = {id(part): part for part in found}.values()
        return [
            part for part in unique if not any(part.children()) or any(True for _ in part.parameters(False))
        ]

    @staticmethod
    def filter_params(
        modules: Modules, train_bn: bool = True, requires_grad: bool = True
    ) -> Iterator[torch.nn.Parameter]:
        """Yield the parameters that are trained, or with ``requires_grad=False`` those that are not.

        ``train_bn=False`` leaves out those of batch norm.
        """
        for part in BaseFinetuning.flatten_modules(modules):
            if isinstance(part, _BatchNorm) and not train_bn:
                continue
            for one in part.parameters(recurse=False):
                if one.requires_grad == requires_grad:
                    yield one

    @staticmethod
    def freeze_module(module: torch.nn.Module) -> None:
        """Freeze a module's own parameters, not those of its parts, and its running statistics."""
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
        for one in module.parameters(recurse=False):
            one.requires_grad_(False)

    @staticmethod
    def freeze(modules: Modules, train_bn: bool = True) -> None:
        """Let no parameter take gradients; those of batch norm do, unless ``train_bn=False``."""
        for part in BaseFinetuning.flatten_modules(modules):
            if isinstance(part, _BatchNorm) and train_bn:
                BaseFinetuning.make_trainable(part)
            else:
                BaseFinetuning.freeze_module(part)

    @staticmethod
    def make_trainable(modules: Modules) -> None:
        """Let every parameter take gradients, and batch norm track its statistics."""
        for part in BaseFinetuning.flatten_modules(modules):
            if isinstance(part, _BatchNorm):
                part.track_running_stats = True
            for one in part.parameters(recurse=False):
                one.requires_grad_(True)

    @staticmethod
    def filter_on_optimizer(
        optimizer: torch.optim.Optimizer, params: Iterable[torch.nn.Parameter]
    ) -> list[torch.nn.Parameter]:
        """Return the parameters that the optimizer does not have; a warning tells if it has some."""
        known = {id(one) for group in optimizer.param_groups for one in group["params"]}
        unique = list({id(one): one for one in params}.values())
        found = [one for one in unique if id(one) not in known]
        if len(found) != len(unique):
            text = (
                f"{len(unique) - len(found)} of {len(unique)} parameters are in another group of the "
                "optimizer and stay there, with its learning rate; give it at first only those that take "
                "gradients: filter(lambda one: one.requires_grad, self.parameters())"
            )
            warnings.warn(str(Notice("callback.already-optimized", text)), DrivetrainWarning, stacklevel=2)
        return found

    @staticmethod
    def unfreeze_and_add_param_group(
        modules: Modules,
        optimizer: torch.optim.Optimizer,
        lr: float | None = None,
        initial_denom_lr: float = 10.0,
        train_bn: bool = True,
    ) -> None:
        """Make modules trainable, as a new group of the optimizer.

        Its learning rate is ``lr``; by default that of the first group divided by ``initial_denom_lr``.
        """
        parts = BaseFinetuning.flatten_modules(modules)
        frozen = {id(one) for one in BaseFinetuning.filter_params(parts, requires_grad=False)}
        BaseFinetuning.make_trainable(parts)
        known = {id(one) for group in optimizer.param_groups for one in group["params"]}
        first = optimizer.param_groups[0]["lr"]
        # What was trained all along, such as batch norm, is in a group of its own accord.
        wanted = [
            one
            for one in BaseFinetuning.filter_params(parts, train_bn=train_bn, requires_grad=True)
            if id(one) in frozen or id(one) not in known
        ]
        params = BaseFinetuning.filter_on_optimizer(optimizer, wanted)
        if params:
            rate = first / initial_denom_lr if lr is None else float(lr)
            optimizer.add_param_group({"params": params, "lr": rate})

    def state_dict(self) -> dict[str, Any]:
        """Return the optimizers' groups by the parameters' names, and what is frozen."""
        if self._place is None:
            return {}
        trainer, module = self._place
        named = plain_names(module)
        names = {id(one): name for name, one in named.items()}
        return {
            "param_groups": [
                [[names.get(id(one)) for one in group["params"]] for group in optimizer.param_groups]
                for optimizer in trainer.optimizers
            ],
            "trainable": {name: one.requires_grad for name, one in named.items()},
            "tracking": {
                name: part.track_running_stats
                for name, part in module.named_modules()
                if isinstance(part, _BatchNorm)
            },
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Make the groups anew, before the optimizers' own states are loaded into them."""
        if self._place is None or "param_groups" not in state_dict:
            return
        trainer, module = self._place
        named = plain_names(module)
        for optimizer, groups in zip(trainer.optimizers, state_dict["param_groups"], strict=False):
            before = rates(optimizer)
            for number, names in enumerate(groups):
                params = [named[name] for name in names if name in named]
                if len(params) != len(names):
                    continue  # of another module: loading the optimizer's state tells what is wrong
                if number < len(optimizer.param_groups):
                    optimizer.param_groups[number]["params"] = params
                else:
                    optimizer.add_param_group({"params": params})
            follow(trainer.lr_scheduler_configs, optimizer, before)
        for name, is_trained in state_dict["trainable"].items():
            if name in named and named[name].requires_grad != is_trained:
                named[name].requires_grad_(is_trained)
        parts = dict(module.named_modules())
        for name, tracks in state_dict["tracking"].items():
            part = parts.get(name)
            if isinstance(part, _BatchNorm):
                part.track_running_stats = tracks

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """Freeze, before a fit makes its optimizers."""
        if stage == "fit":
            self._place = (trainer, module)
            self.freeze_before_training(module)

    def on_train_epoch_start(self, trainer: Run, module: Module) -> None:
        """Unfreeze what is trained from now on, and let schedulers follow."""
        for optimizer in trainer.optimizers:
            before = rates(optimizer)
            self.finetune_function(module, trainer.current_epoch, optimizer)
            follow(trainer.lr_scheduler_configs, optimizer, before)
