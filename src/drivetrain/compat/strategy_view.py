"""StrategyView: a run's strategy with the methods that code for Lightning calls on it."""

from __future__ import annotations

from typing import Any, final

import torch


@final
class StrategyView:
    """Everything of the strategy itself, and ``root_device``, ``barrier``, ``broadcast``, ``reduce``."""

    def __init__(self, strategy: Any, trainer: Any) -> None:
        self._strategy, self._trainer = strategy, trainer

    @property  # type: ignore[misc]  # isinstance asks it
    def __class__(self) -> type:
        return type(self._strategy)

    def __getattr__(self, name: str) -> Any:
        """Return what the strategy has."""
        return getattr(self._strategy, name)

    @property
    def name(self) -> str:
        """The plan's strategy: ``ddp``, ``fsdp+tp``."""
        return str(self._trainer.plan.strategy.name)

    @property
    def root_device(self) -> torch.device:
        """This rank's device."""
        device: torch.device = self._strategy.device
        return device

    @property
    def world_size(self) -> int:
        """Number of ranks."""
        return int(self._strategy.ranks.world_size)

    @property
    def global_rank(self) -> int:
        """This process's rank."""
        return int(self._strategy.ranks.rank)

    @property
    def local_rank(self) -> int:
        """This process's rank on its machine."""
        return int(self._strategy.ranks.local_rank)

    @property
    def is_global_zero(self) -> bool:
        """Whether this process speaks and writes for all."""
        return bool(self._strategy.ranks.is_zero)

    @property
    def model(self) -> Any:
        """The module of the run."""
        return self._trainer.lightning_module

    lightning_module = model

    def barrier(self, name: str | None = None) -> None:
        """Return when every rank has called."""
        self._strategy.collectives.barrier()

    def broadcast(self, obj: Any, src: int = 0) -> Any:
        """Return rank ``src``'s object on every rank; every rank must call."""
        return self._strategy.collectives.broadcast_object(obj, src)

    def reduce(self, tensor: Any, group: Any = None, reduce_op: Any = "mean") -> Any:
        """Return the combination of every rank's tensors; what is no tensor stays as it is."""
        if not isinstance(tensor, torch.Tensor):
            return tensor
        op = {"avg": "mean"}.get(str(reduce_op).lower(), str(reduce_op).lower().rpartition(".")[2])
        return self._strategy.collectives.all_reduce(tensor.clone(), op)

    def all_gather(self, tensor: torch.Tensor, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every rank's tensor, stacked in a new first dimension; one rank's own as it is."""
        return self._trainer.lightning_module.all_gather(tensor, group, sync_grads)
