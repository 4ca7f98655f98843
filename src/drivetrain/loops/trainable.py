"""Whether a module can be trained as the Trainer is told to."""

from __future__ import annotations

from typing import Any

from drivetrain.base.errors import ModuleError
from drivetrain.base.quantity import Quantity
from drivetrain.events import is_unused
from drivetrain.loops.settings import Settings
from drivetrain.modules.tokens import check_counts_tokens


def check_module(module: Any, settings: Settings) -> None:
    """Refuse a module that cannot be trained as it is told to.

    Raises:
        ModuleError [module.no-step]: it has no training_step, or no configure_optimizers.
        ModuleError [module.manual]: what the Trainer would do in the steps, with manual optimization.
    """
    for name, what in (("training_step", "the loss of a batch"), ("configure_optimizers", "the optimizer")):
        if is_unused(getattr(module, name)) and (name == "training_step" or module.automatic_optimization):
            raise ModuleError(
                "module.no-step",
                f"{type(module).__name__} has no {name}",
                values={"class": type(module).__qualname__},
                because=f"fit needs {what}",
                hint=f"write def {name}(self{', batch, batch_idx' if name == 'training_step' else ''})",
            )
    said = {
        "gradient_clip_val": settings.clipping.val,
        "accumulate_grad_batches": None
        if settings.accumulation.by_epoch == {0: 1}
        else dict(settings.accumulation.by_epoch),
    }
    if settings.bounds.max_tokens is not None:
        check_counts_tokens(module, "max_steps", f"{settings.bounds.max_tokens} tokens")
    intervals = {
        "val_check_interval": settings.validation.interval,
        "log_every_n_steps": settings.log_every_n_steps,
    }
    for name, interval in intervals.items():
        if isinstance(interval, Quantity) and interval.unit == "tokens":
            check_counts_tokens(module, name, interval)
    wrong = {name: value for name, value in said.items() if value is not None}
    if not module.automatic_optimization and wrong:
        raise ModuleError(
            "module.manual",
            f"{type(module).__name__} optimizes by hand, and the Trainer is told {', '.join(wrong)}",
            values={"automatic_optimization": False, **wrong},
            because="in manual optimization training_step decides when gradients are clipped and used",
            hint="leave them out, and call self.clip_gradients and optimizer.step in training_step",
        )
