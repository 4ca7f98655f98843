"""Module: the model and its steps."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from typing_extensions import Self

from drivetrain.base.errors import CheckpointError, ModuleError
from drivetrain.base.loading import Later
from drivetrain.checkpoint_io.entry import Entry
from drivetrain.events import is_unused, unused
from drivetrain.modules.attached import outside
from drivetrain.modules.exporting import Exporting
from drivetrain.modules.hyperparameters import WithHyperparameters, made_from
from drivetrain.modules.optimizing import Optimizing
from drivetrain.modules.run import LogOptions

if TYPE_CHECKING:
    from drivetrain.checkpoint_io import local
else:
    local = Later("drivetrain.checkpoint_io.local")

ModuleT = TypeVar("ModuleT", bound="Module")


class Module(Optimizing, Exporting, WithHyperparameters):
    """A torch module that knows its training: override `training_step` and `configure_optimizers`.

    It stays the object that the user made: nothing is wrapped around it that remains after a run.
    """

    strict_loading: bool = True
    """Whether a checkpoint must have exactly this module's parameters."""

    @unused
    def training_step(self, batch: Any, batch_idx: int) -> Any:
        """Return the loss: a scalar tensor, or a dict with it under ``"loss"``.

        It is taken for the mean over the batch's samples. None leaves the step out; with several
        ranks that is an error, as the others would wait.
        """

    @unused
    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        """Evaluate a batch; what it logs is averaged over all samples."""

    @unused
    def test_step(self, batch: Any, batch_idx: int) -> Any:
        """Evaluate a batch; what it logs is averaged over all samples."""

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:  # noqa: ARG002 - the user's
        """Return the predictions for a batch; by default what `forward` makes of its inputs."""
        if type(self).forward is torch.nn.Module.forward and "forward" not in vars(self):
            raise ModuleError(
                "module.no-step",
                f"{type(self).__name__} has neither predict_step nor forward",
                values={"class": type(self).__qualname__},
                because="predict returns what predict_step, or else forward, makes of a batch",
                hint="write def predict_step(self, batch, batch_idx)",
            )
        return self(batch[0] if isinstance(batch, (list, tuple)) and batch else batch)

    @unused
    def configure_optimizers(self) -> Any:
        """Return an optimizer; ``(optimizers, schedulers)``; or a dict: ``optimizer``, ``lr_scheduler``."""

    @unused
    def train_dataloader(self) -> Any:
        """Return the training loader, where none is passed to fit."""

    @unused
    def val_dataloader(self) -> Any:
        """Return the validation loader, or a list of them."""

    @unused
    def test_dataloader(self) -> Any:
        """Return the test loader, or a list of them."""

    @unused
    def predict_dataloader(self) -> Any:
        """Return the loader to predict on, or a list of them."""

    def log(  # noqa: PLR0917 - the order that users of such modules know
        self,
        name: str,
        value: Any,
        prog_bar: bool = False,
        logger: bool = True,
        on_step: bool | None = None,
        on_epoch: bool | None = None,
        reduce_fx: Any = "mean",
        enable_graph: bool = False,
        sync_dist: bool = True,
        sync_dist_group: None = None,
        add_dataloader_idx: bool = True,
        batch_size: int | None = None,
        metric_attribute: str | None = None,
        rank_zero_only: bool = False,
        *,
        rank_fx: Any = None,
    ) -> None:
        """Note a value: a number, a tensor with one element, or a torchmetrics object.

        Nothing is computed, and nothing leaves the device, before someone reads it. In `training_step` the
        step's value is kept by default, elsewhere the epoch's; ``on_step`` and ``on_epoch`` say otherwise.
        Loggers get steps' values of training only.

        ``reduce_fx`` makes the epoch's value of the steps': ``mean`` (weighted by ``batch_size``, by default
        the batch's own), ``sum``, ``min``, ``max``, or a function of all values as one tensor. ``rank_fx``
        makes one value of the ranks'; by default the same operation over all steps of all ranks, exactly.
        ``sync_dist=False`` keeps each rank's own; with ``rank_zero_only`` only rank 0's counts.

        A graph of torch.compile does not break at it, also with ``fullgraph=True``; what is wrong with a
        value is then raised after the step.

        Collectives:
            none here: all names are reduced together, after the steps that are logged and after an epoch.

        Raises:
            ModuleError [module.log-outside]: no run is going on, or none of its steps and epochs.
            ModuleError [module.log-value]: none of the kinds of values.
            ModuleError [module.log-options]: with other options than before, or with none that keep it.
            ModuleError [module.log-reduction]: no such operation, or a group of ranks.
            CollectiveError [loop.logged-keys]: ranks log different names; raised by the loop, after the step.
        """
        recorder = self._recorder
        if recorder is None:
            raise outside(self, f"self.log({name!r}, ...)", "module.log-outside")
        if sync_dist_group is not None:
            raise ModuleError(
                "module.log-reduction",
                f"self.log({name!r}, ..., sync_dist_group={sync_dist_group!r})",
                values={"sync_dist_group": sync_dist_group},
                because="a logged value is one over all ranks, or each rank's own",
                hint="leave it out, or reduce the value over the group before it is logged",
            )
        options = LogOptions(
            prog_bar,
            logger,
            on_step,
            on_epoch,
            add_dataloader_idx,
            reduce_fx,
            rank_fx,
            sync_dist,
            rank_zero_only,
            enable_graph,
            batch_size,
            metric_attribute,
        )
        if torch.compiler.is_compiling():
            # All that stays in a compiled graph: an append, whose tensor is one of the graph's outputs.
            is_plain = isinstance(value, torch.Tensor) and not enable_graph
            recorder.noted.append((name, value.detach().clone() if is_plain else value, options))
            return
        recorder.log(name, value, options)

    def log_dict(self, dictionary: Mapping[str, Any], prog_bar: bool = False, **options: Any) -> None:
        """Note several values with the same options."""
        for name, value in dictionary.items():
            self.log(name, value, prog_bar, **options)

    def freeze(self) -> None:
        """Let no parameter take gradients, and go to eval mode."""
        self.requires_grad_(False)
        self.eval()

    def unfreeze(self) -> None:
        """Let every parameter take gradients, and go to train mode."""
        self.requires_grad_(True)
        self.train()

    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | os.PathLike[str],
        map_location: Any = None,
        hparams_file: str | os.PathLike[str] | None = None,
        strict: bool | None = None,
        weights_only: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Make a module from a checkpoint's hyperparameters and weights; ``kwargs`` win over them.

        ``hparams_file`` is a YAML file that wins over the checkpoint's; ``strict`` is by default the module's
        own ``strict_loading``.

        Raises:
            CheckpointError [checkpoint.no-weights]: the file has no ``state_dict``, or one of another module.
            CheckpointError [checkpoint.damaged]: its hyperparameters are no dict.
        """
        found = local.LocalCheckpointIO().load(checkpoint_path, weights_only=weights_only)
        kept = Entry(found, checkpoint_path)["hyper_parameters"] if "hyper_parameters" in found else None
        module = made_from(cls, kept, hparams_file, kwargs, found.get("hparams_name"))
        if not is_unused(module.configure_model):
            module.configure_model()
        on_load = module.on_load_checkpoint
        on_load(found)
        exact = module.strict_loading if strict is None else strict
        load_weights(
            module, found, checkpoint_path, lambda state: module.load_state_dict(state, strict=exact)
        )
        return module if map_location is None else module.to(map_location)


# TorchScript would compile a class's properties.
Module.__jit_unused_properties__ = [  # type: ignore[attr-defined]  # torch's own name
    name for name in dir(Module) if isinstance(inspect.getattr_static(Module, name), property)
]


def load_weights(
    module: torch.nn.Module,
    checkpoint: Mapping[str, Any],
    path: object,
    load: Callable[[Mapping[str, Any]], object],
) -> None:
    """Hand a checkpoint's ``state_dict`` to ``load``, and word what goes wrong.

    Raises:
        CheckpointError [checkpoint.no-weights]: there is none, or it belongs to another module.
    """
    state = checkpoint.get("state_dict")
    try:
        if not isinstance(state, Mapping):
            message = f"it holds: {', '.join(map(str, checkpoint)) or 'nothing'}"
            raise TypeError(message)  # noqa: TRY301 - one place that words the error
        load(state)
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise CheckpointError(
            "checkpoint.no-weights",
            f"{path} has no weights for {type(module).__name__} in its state_dict",
            values={"path": str(path), "module": type(module).__qualname__, "torch says": str(error)},
            because="names and shapes of the state_dict are those of the module that was saved",
            hint="make the module as it was when it was saved, or pass strict=False to load_from_checkpoint",
        ) from error
