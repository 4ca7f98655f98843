"""Fabric: `drivetrain.Engine` with the arguments and answers that Lightning's users know."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any

import torch

from drivetrain.base.errors import EngineError
from drivetrain.base.tree import map_leaves
from drivetrain.compat.gathering import gathered
from drivetrain.compat.module import LightningModule
from drivetrain.compat.tools import last_seed, seed_everything
from drivetrain.engine import Engine, EngineLoader, EngineModule
from drivetrain.strategies.clipping import total_norm

_NORM = 2.0
_BACKWARD = ("gradient", "retain_graph", "create_graph", "inputs")
"""The arguments of `torch.Tensor.backward`, in order."""


class Fabric(Engine):
    """`drivetrain.Engine` with Fabric's arguments and answers.

    Other than there:

    - `launch` may be called without a function where there is one rank, or somebody else started the ranks;
      and a subclass's `run` is launched by calling it.
    - the order of the data follows from the seed of `seed_everything`.
    - one rank's `all_gather` gives tensors as they are, without a new dimension.
    - `load` without ``state`` returns the file, else what no object took up.
    """

    def __init__(
        self,
        *,
        accelerator: Any = "auto",
        strategy: Any = "auto",
        devices: Any = "auto",
        num_nodes: int = 1,
        precision: Any = None,
        plugins: Any = None,
        callbacks: Any = None,
        loggers: Any = None,
        **more: Any,
    ) -> None:
        here = locals()
        unset = {name: one.default for name, one in inspect.signature(Fabric).parameters.items()}
        given = {name: here[name] for name in unset if name != "more" and here[name] is not unset[name]}
        super().__init__(**{"seed": last_seed(), **given, **more})

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let `run` of a subclass launch itself."""
        super().__init_subclass__(**kwargs)
        if "run" in vars(cls):
            run = cls.run
            cls.run = lambda self, *args, **named: Engine.launch(self, run, *args, **named)  # type: ignore[method-assign]  # the subclass's own run, on every rank

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Do everything; overridden by a subclass, and called on every rank.

        Raises:
            EngineError [engine.not-launched]: nobody overrode it.
        """
        raise EngineError(
            "engine.not-launched",
            f"{type(self).__name__} has no run",
            values={"class": type(self).__qualname__},
            because="run is what a subclass does on every rank",
            hint="write def run(self), or call fabric.launch(main)",
        )

    def launch(self, function: Callable[..., Any] | None = None, *args: Any, **kwargs: Any) -> Any:
        """Call ``function(fabric, ...)`` on every rank and return this process's result.

        Without a function the script itself is what every rank does: with one rank, or under torchrun.

        Raises:
            EngineError [engine.not-launched]: without a function, where the other ranks are ours to start.
        """
        if function is not None:
            return super().launch(function, *args, **kwargs)
        _ = self.strategy  # opens it, or says what is missing
        return None

    def setup(
        self,
        module: torch.nn.Module,
        *optimizers: torch.optim.Optimizer,
        scheduler: Any = None,
        move_to_device: bool = True,
        **_: Any,
    ) -> Any:
        """Make a module ready, with its optimizers and scheduler; return it, or a tuple with them."""
        if isinstance(module, LightningModule):
            module.fabric = self
        found = super().setup(module, *optimizers)
        if scheduler is None:
            return found
        return (*(found if isinstance(found, tuple) else (found,)), scheduler)

    def setup_module(self, module: torch.nn.Module, move_to_device: bool = True, **_: Any) -> EngineModule:
        """Make a module ready, without optimizers."""
        return super().setup_module(module)

    def backward(  # type: ignore[override]  # more arguments
        self, tensor: torch.Tensor, *args: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Compute gradients, of the mean of all ranks' losses; arguments go to ``tensor.backward``."""
        super().backward(tensor, **dict(zip(_BACKWARD, args, strict=False)), **kwargs)

    def clip_gradients(  # type: ignore[override]  # returns the norm
        self,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        clip_val: float | None = None,
        max_norm: float | None = None,
        norm_type: float | str = _NORM,
        error_if_nonfinite: bool = True,
    ) -> torch.Tensor | None:
        """Clip the gradients of an optimizer's parameters; return their norm before it, None for a value.

        Raises:
            EngineError [engine.clip-value]: none or both are given, or a norm of another order.
            RuntimeError: the norm is inf or nan, and ``error_if_nonfinite`` is True.
        """
        if float(norm_type) != _NORM:
            raise EngineError(
                "engine.clip-value",
                f"clip_gradients(norm_type={norm_type!r})",
                values={"norm_type": norm_type},
                because="gradients are clipped by their Euclidean norm, which shards of it add up to",
                hint="leave norm_type out",
            )
        norm = None
        if max_norm is not None and clip_val is None:
            is_whole = self.strategy.unscale(optimizer)
            norm = total_norm([one for group in optimizer.param_groups for one in group["params"]])
            # An overflow in a format that scales the loss is no error: the step will be left out.
            if error_if_nonfinite and is_whole and not bool(torch.isfinite(norm)):
                message = (
                    f"the norm of the gradients is {float(norm)}; pass error_if_nonfinite=False to go on"
                )
                raise RuntimeError(message)
        super().clip_gradients(module, optimizer, clip_val, max_norm)
        return norm

    def barrier(self, name: str | None = None) -> None:
        """Return when every rank has called."""
        super().barrier()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Return rank ``src``'s object on every rank; every rank must call."""
        return super().broadcast(obj, src)

    def to_device(self, obj: Any) -> Any:
        """Move a module, tensor or nested container to this rank's device."""
        return super().to_device(obj)

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every rank's tensors, stacked in a new first dimension; one rank's own as they are.

        Shapes:
            data: tensors of any one shape, the same on each rank; numbers become tensors.
            returns: [world_size, *shape]; with one rank, [*shape].
        Collectives:
            one all_gather a tensor; every rank must call.
        """
        if self.world_size == 1:
            return map_leaves(data, self._with_gradients)
        if not sync_grads:
            return super().all_gather(data)
        collectives = self.strategy.collectives
        return map_leaves(data, lambda leaf: gathered(self._with_gradients(leaf), collectives))

    def _with_gradients(self, leaf: Any) -> Any:
        return torch.as_tensor(leaf, device=self.device)

    def all_reduce(self, data: Any, group: Any = None, reduce_op: str | None = "mean") -> Any:  # type: ignore[override]  # Fabric's arguments
        """Return the combination of every rank's tensors.

        Collectives:
            one all_reduce a tensor; every rank must call.
        """
        return super().all_reduce(data, str(reduce_op or "mean").lower())

    def save(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, Any],
        filter: Mapping[str, Callable[[str, Any], bool]] | None = None,  # noqa: A002 - its name there
    ) -> None:
        """Write a checkpoint; ``filter`` says of an entry which of its names to keep."""
        if not filter:
            super().save(path, state)
            return
        kept: dict[str, Any] = {}
        for name, value in state.items():
            keep = filter.get(name)
            held = value.state_dict() if keep and hasattr(value, "state_dict") else value
            kept[name] = {key: one for key, one in held.items() if keep(key, one)} if keep else value
        super().save(path, kept)

    def load(
        self,
        path: str | os.PathLike[str],
        state: Mapping[str, Any] | None = None,
        strict: bool = True,
        weights_only: bool | None = None,
    ) -> dict[str, Any]:
        """Load a checkpoint into the objects of ``state``; return what it has beside them."""
        if not state:
            return super().load(path, {})
        found = super().load(path, state, strict)
        if isinstance(state, dict):
            state.update({name: value for name, value in found.items() if name in state})
        return {name: value for name, value in found.items() if name not in state}

    def load_raw(
        self,
        path: str | os.PathLike[str],
        obj: torch.nn.Module | torch.optim.Optimizer,
        strict: bool = True,
        weights_only: bool | None = None,
    ) -> None:
        """Load a bare state_dict into an object."""
        super().load_raw(path, obj, strict)

    @staticmethod
    def seed_everything(seed: int | None = None, workers: bool | None = None, verbose: bool = True) -> int:
        """Seed python's, torch's and numpy's generators, and the order of the data; return the seed."""
        return seed_everything(seed, bool(workers), verbose)


def is_wrapped(obj: object) -> bool:
    """Whether an object was made ready by `Fabric.setup` or `Fabric.setup_dataloaders`."""
    return isinstance(obj, (EngineModule, EngineLoader))
