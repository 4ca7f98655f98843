"""BackboneFinetuning: trains a module's head first, then its backbone too."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from drivetrain.base.errors import ModuleError
from drivetrain.callbacks.base_finetuning import BaseFinetuning
from drivetrain.callbacks.refusal import bad_argument, check_flag
from drivetrain.callbacks.say import say
from drivetrain.modules import Module, Run


def multiplicative(epoch: int) -> float:  # noqa: ARG001 - what such functions get
    """Double the backbone's learning rate each epoch."""
    return 2.0


class BackboneFinetuning(BaseFinetuning):
    """Freeze ``module.backbone``, and train it from epoch ``unfreeze_backbone_at_epoch`` on.

    Its parameters become a group of the first optimizer. Their learning rate begins with
    ``backbone_initial_lr``, or with the first group's times ``backbone_initial_ratio_lr``, and is multiplied
    with ``lambda_func(epoch + 1)`` each epoch after; ``should_align`` keeps it from exceeding the first
    group's. ``train_bn`` trains its batch norm from the beginning. ``verbose`` prints the rates of each
    epoch, to ``rounding`` digits.

    Raises:
        ModuleError [callback.bad-argument]: an argument has a value that it cannot have.
        ModuleError [callback.no-backbone]: the module has no ``backbone`` that is a torch module.
    """

    def __init__(  # noqa: PLR0917 - the order that users of such callbacks know
        self,
        unfreeze_backbone_at_epoch: int = 10,
        lambda_func: Callable[[int], float] = multiplicative,
        backbone_initial_ratio_lr: float = 0.1,
        backbone_initial_lr: float | None = None,
        should_align: bool = True,
        initial_denom_lr: float = 10.0,
        train_bn: bool = True,
        verbose: bool = False,
        rounding: int = 12,
    ) -> None:
        for name, value in (
            ("unfreeze_backbone_at_epoch", unfreeze_backbone_at_epoch),
            ("rounding", rounding),
        ):
            if type(value) is not int or value < 0:
                raise bad_argument(self, name, value, "an int of 0 or more")
        if not callable(lambda_func):
            raise bad_argument(self, "lambda_func", lambda_func, "a function of the epoch")
        for name, number in (
            ("backbone_initial_ratio_lr", backbone_initial_ratio_lr),
            ("backbone_initial_lr", backbone_initial_lr),
            ("initial_denom_lr", initial_denom_lr),
        ):
            _check_rate(self, name, number)
        self.unfreeze_backbone_at_epoch, self.rounding = unfreeze_backbone_at_epoch, rounding
        self.lambda_func = lambda_func
        self.backbone_initial_ratio_lr = backbone_initial_ratio_lr
        self.backbone_initial_lr = backbone_initial_lr
        self.initial_denom_lr = initial_denom_lr
        self.should_align = check_flag(self, "should_align", should_align)
        self.train_bn = check_flag(self, "train_bn", train_bn)
        self.verbose = check_flag(self, "verbose", verbose)
        self._forget()

    def _forget(self) -> None:
        self.previous_backbone_lr: float | None = None
        """The backbone's learning rate of this epoch; None while it is frozen."""
        self._group: int | None = None
        """The number of its group; None where the optimizer had its parameters already."""

    def state_dict(self) -> dict[str, Any]:
        """Return the groups, and the backbone's learning rate."""
        return {
            **super().state_dict(),
            "previous_backbone_lr": self.previous_backbone_lr,
            "group": self._group,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on with them."""
        self.previous_backbone_lr, self._group = state_dict["previous_backbone_lr"], state_dict["group"]
        super().load_state_dict(state_dict)

    def setup(self, trainer: Run, module: Module, stage: str) -> None:
        """A fit begins anew, unless a checkpoint has a backbone that is trained."""
        if stage == "fit":
            self._forget()
        super().setup(trainer, module, stage)

    def freeze_before_training(self, pl_module: Module) -> None:
        """Freeze the backbone."""
        self.freeze(_backbone(pl_module), train_bn=self.train_bn)

    def finetune_function(self, pl_module: Module, epoch: int, optimizer: torch.optim.Optimizer) -> None:
        """Unfreeze the backbone, or move its learning rate."""
        trainer = pl_module.trainer
        if optimizer is not trainer.optimizers[0]:
            return
        current = float(optimizer.param_groups[0]["lr"])
        if epoch == self.unfreeze_backbone_at_epoch:
            initial, count = self.backbone_initial_lr, len(optimizer.param_groups)
            rate = current * self.backbone_initial_ratio_lr if initial is None else initial
            self.unfreeze_and_add_param_group(
                _backbone(pl_module),
                optimizer,
                rate,
                initial_denom_lr=self.initial_denom_lr,
                train_bn=self.train_bn,
            )
            self._group = count if len(optimizer.param_groups) > count else None
        elif epoch > self.unfreeze_backbone_at_epoch and self.previous_backbone_lr is not None:
            rate = self.lambda_func(epoch + 1) * self.previous_backbone_lr
            rate = min(rate, current) if self.should_align else rate
            if self._group is not None:
                optimizer.param_groups[self._group]["lr"] = rate
        else:
            return
        self.previous_backbone_lr = rate
        if self.verbose:
            shown = round(current, self.rounding), round(rate, self.rounding)
            say(trainer, f"epoch {epoch}: learning rate {shown[0]}, backbone {shown[1]}")


def _backbone(module: Module) -> torch.nn.Module:
    found = getattr(module, "backbone", None)
    if isinstance(found, torch.nn.Module):
        return found
    raise ModuleError(
        "callback.no-backbone",
        f"{type(module).__name__} has no backbone for BackboneFinetuning",
        values={"class": type(module).__qualname__, "backbone": found},
        because="it freezes module.backbone, a torch.nn.Module that is there before the fit",
        hint="name the part self.backbone, or subclass BaseFinetuning for other parts",
    )


def _check_rate(owner: object, name: str, value: Any) -> None:
    if value is None and name == "backbone_initial_lr":
        return
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value <= 0:
        raise bad_argument(owner, name, value, "a number above 0")
