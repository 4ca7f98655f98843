"""LightningModule and LightningDataModule: Module and DataModule with that library's defaults."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Callable
from typing import Any

import torch
from typing_extensions import Self

from drivetrain.base.tree import map_leaves
from drivetrain.compat.gathering import gathered
from drivetrain.compat.known_errors import PossibleUserWarning
from drivetrain.events import is_unused, unused
from drivetrain.modules import DataModule, Module
from drivetrain.modules.hyperparameters import WithHyperparameters as HyperparametersMixin

__all__ = ["HyperparametersMixin", "LightningDataModule", "LightningModule"]


class LightningModule(Module):
    """A `Module` that logs, gathers and steps by hand as Lightning's users know it."""

    _fabric: Any = None
    _hook_names_are_free = True
    """A method of one's own may be called ``val_step``: it is only warned of."""

    @property
    def trainer(self) -> Any:
        """The trainer of the run that this module is in.

        Raises:
            ModuleError [module.no-trainer]: it is in none.
        """
        return super().trainer

    @trainer.setter
    def trainer(self, trainer: Any) -> None:
        # Tests of others put a trainer, or what stands in for one, here.
        self._run = trainer

    @property
    def fabric(self) -> Any:
        """The `Fabric` that this module was set up with, or None; then `log` and `print` are its own."""
        return self._fabric

    @fabric.setter
    def fabric(self, fabric: Any) -> None:
        self._fabric = fabric

    def print(self, *values: object, **options: Any) -> None:
        """Print on rank 0 only, with the options of Python's own."""
        if self._run is None and self._fabric is not None:
            self._fabric.print(*values, **options)
        else:
            super().print(*values, **options)

    def log(  # noqa: PLR0917 - the order that users of such modules know
        self,
        name: str,
        value: Any,
        prog_bar: bool = False,
        logger: bool | None = None,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        reduce_fx: Any = "mean",
        enable_graph: bool = False,
        sync_dist: bool = False,
        sync_dist_group: Any = None,
        add_dataloader_idx: bool = True,
        batch_size: int | None = None,
        metric_attribute: str | None = None,
        rank_zero_only: bool = False,
        **more: Any,
    ) -> None:
        """Note a value, as `Module.log` does.

        Each rank's own unless ``sync_dist``: ranks may log different names, and rank 0's value is written.
        Outside of a run it warns and does nothing, so that a step can be called by itself.
        """
        if self._run is None and self._fabric is not None:
            if logger is not False:
                self._fabric.log(name, value)
            return
        if self._run is None and self._recorder is None:
            text = f"self.log({name!r}, ...) of {type(self).__name__} outside of a run does nothing"
            warnings.warn(text, PossibleUserWarning, stacklevel=2)
            return
        super().log(
            name,
            value,
            prog_bar,
            True if logger is None else logger,
            on_step,
            on_epoch,
            reduce_fx,
            enable_graph,
            sync_dist,
            None,  # groups of ranks are not there; one value over all ranks is the nearest
            add_dataloader_idx,
            batch_size,
            metric_attribute,
            rank_zero_only,
            **more,
        )

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every rank's tensors, stacked in a new first dimension; one rank's own as they are.

        Shapes:
            data: tensors of any one shape, the same on each rank.
            returns: [world_size, *shape]; with one rank, [*shape].
        Collectives:
            one all_gather a tensor; every rank must call.
        """
        if self.trainer.world_size == 1:
            return data
        if not sync_grads:
            return super().all_gather(data, group)
        collectives = self.trainer.collectives
        return map_leaves(
            data, lambda leaf: gathered(leaf, collectives) if isinstance(leaf, torch.Tensor) else leaf
        )

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """Return what `forward` makes of the whole batch."""
        return self(kwargs.get("batch", args[0] if args else None))

    def manual_backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients in manual optimization; arguments go to ``loss.backward``.

        Collectives:
            one all_reduce of the gradients; every rank must call.
        """
        if not args and not kwargs:
            super().manual_backward(loss)
            return
        own: Callable[..., Any] | None = None if is_unused(self.backward) else self.backward
        run = torch.Tensor.backward if own is None else own
        # Only for this call; an attribute of the object hides the class's method.
        vars(self)["backward"] = lambda scaled: run(scaled, *args, **kwargs)
        try:
            super().manual_backward(loss)
        finally:
            del vars(self)["backward"]

    @unused
    def backward(self, loss: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients; the loss is divided by the accumulation window already."""
        loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]  # torch's own

    def on_validation_model_zero_grad(self) -> None:
        """Before a validation within the fit, unless a window of accumulation is open: gradients go."""
        self.zero_grad()

    @unused
    def optimizer_step(
        self,
        epoch: int,
        batch_idx: int,
        optimizer: torch.optim.Optimizer,
        optimizer_closure: Callable[[], Any] | None = None,
    ) -> None:
        """Change the parameters; must call the closure, which runs the step and computes the gradients."""
        optimizer.step(closure=optimizer_closure)

    def save_hyperparameters(
        self, *args: Any, ignore: Any = None, frame: Any = None, logger: bool = True
    ) -> None:
        """Keep the arguments of ``__init__`` in `hparams`, and the plain ones of them in checkpoints."""
        here = inspect.currentframe()
        super().save_hyperparameters(
            *args, ignore=ignore, frame=frame or (here.f_back if here else None), logger=logger
        )

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | os.PathLike[str],
        map_location: Any = None,
        hparams_file: str | os.PathLike[str] | None = None,
        strict: bool | None = None,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a module from a checkpoint's hyperparameters and weights; ``kwargs`` win over them."""
        return super().load_from_checkpoint(
            checkpoint_path,
            map_location,
            hparams_file,
            strict,
            weights_only=weights_only is not False,
            **kwargs,
        )


LightningModule.__jit_unused_properties__ = [*Module.__jit_unused_properties__, "fabric"]  # type: ignore[attr-defined]  # as Module's


class LightningDataModule(DataModule):
    """A `DataModule` with the switches that Lightning's users know."""

    name: str | None = None
    prepare_data_per_node = True
    """Here one process prepares; a shared or local disk is the same to it."""
    allow_zero_length_dataloader_with_multiple_devices = False

    def __init__(self) -> None:
        super().__init__()
        self.trainer = None

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]  # the order that users know
        cls,
        checkpoint_path: str | os.PathLike[str],
        map_location: Any = None,
        hparams_file: str | os.PathLike[str] | None = None,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a data module from a checkpoint's arguments and state; ``kwargs`` win over them."""
        return super().load_from_checkpoint(
            checkpoint_path, hparams_file, weights_only=weights_only is not False, **kwargs
        )
