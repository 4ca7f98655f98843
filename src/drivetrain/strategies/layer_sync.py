"""Layers whose result depends on the batch, and that are to see the batches of all ranks."""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, final

import torch
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm

from drivetrain.base.errors import ModuleError
from drivetrain.collectives.collectives import Collectives
from drivetrain.resolver.facts import LayerSyncFacts


class LayerSync(ABC):
    """Makes layers of a module see the batches of all ranks, while it trains. One object a run and rank."""

    facts: ClassVar[LayerSyncFacts] = LayerSyncFacts("own", "a synchronisation of one's own")
    collectives: Collectives
    """Communication over the ranks, before `apply` is called."""
    is_counted = True
    """Whether this rank's batch counts; not where it only keeps the ranks together."""
    is_paused = False
    """Whether each rank is by itself, as in evaluation."""

    @abstractmethod
    def apply(self, module: torch.nn.Module) -> object:
        """Change how the layers compute, in the module; what is returned is not looked at.

        Collectives:
            what the layers then do in each forward and backward; every rank calls them alike.
        """

    @abstractmethod
    def revert(self, module: torch.nn.Module) -> object:
        """Take back, in the module, what `apply` did."""

    @final
    @contextlib.contextmanager
    def uncounted(self) -> Iterator[None]:
        """Leave this rank's batch out of what is combined."""
        self.is_counted = False
        try:
            yield
        finally:
            self.is_counted = True

    @final
    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Let each rank be by itself."""
        before, self.is_paused = self.is_paused, True
        try:
            yield
        finally:
            self.is_paused = before


@final
class BatchNormSync(LayerSync):
    """Batch norm over the samples of all ranks: means, variances, their gradients, and running statistics.

    Works on any device and with any backend, which torch's SyncBatchNorm does not, and leaves out batches
    that count nowhere. Statistics are taken in single precision at least.
    """

    facts = LayerSyncFacts("batchnorm", "batch norm over all ranks")

    def apply(self, module: torch.nn.Module) -> None:
        """Give each batch norm a forward that asks the other ranks.

        Collectives:
            in each layer's forward two all_reduces of its channels, and in its backward two.
        Raises:
            ModuleError [strategy.layer-forward]: a batch norm has a forward of its own.
        """
        for path, part in module.named_modules():
            if isinstance(part, SyncBatchNorm):
                continue  # the user's choice, and torch's work
            if isinstance(part, _BatchNorm) and type(part).forward is not _BatchNorm.forward:
                raise _own_forward(path, part)
            if isinstance(part, _BatchNorm) and not isinstance(vars(part).get("forward"), _Synced):
                part.forward = _Synced(part, self)  # type: ignore[method-assign]  # this one's alone

    def revert(self, module: torch.nn.Module) -> None:
        """Give each batch norm its class's forward again."""
        for part in module.modules():
            if isinstance(vars(part).get("forward"), _Synced):
                del part.forward


@final
class _Synced:
    """A batch norm's forward over all ranks."""

    def __init__(self, layer: _BatchNorm, sync: LayerSync) -> None:
        self._layer, self._sync = layer, sync
        # A compiled module leaves its graph here: what ranks say to each other is not in it.
        has_compiler = "torch._dynamo" in sys.modules
        disable: Any = torch.compiler.disable
        self._run = disable(_synced) if has_compiler else _synced

    def __call__(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - torch's name, which callers may use
        if self._sync.is_paused or not self._layer.training:
            return _BatchNorm.forward(self._layer, input)
        result: torch.Tensor = self._run(self._layer, input, self._sync)
        return result

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return _Synced(copy.deepcopy(self._layer, memo), self._sync)

    def __reduce__(self) -> Any:
        # A file has no ranks: there it is the layer's ordinary forward.
        return functools.partial, (_BatchNorm.forward, self._layer)


def _synced(layer: _BatchNorm, input: torch.Tensor, sync: LayerSync) -> torch.Tensor:  # noqa: A002 - torch's name
    """Normalise by the statistics of all ranks' samples, and keep running ones."""
    layer._check_input_dim(input)  # type: ignore[no-untyped-call]  # noqa: SLF001 - what its own forward asks
    wide = input if input.dtype is torch.float64 else input.float()
    dims = [0, *range(2, input.dim())]
    shape = [1, -1, *[1] * (input.dim() - 2)]
    # What does not count stays in the graph: every rank has to take part in backward.
    part = 1.0 if sync.is_counted else 0.0
    count = wide.new_full((1,), input.numel() / input.shape[1])
    sums = _summed(torch.cat([wide.sum(dims), count]) * part, sync.collectives)
    total = sums[-1].detach()
    mean = sums[:-1] / total
    centered = wide - mean.view(shape)
    variance = _summed(centered.square().sum(dims) * part, sync.collectives) / total
    if layer.track_running_stats:
        _keep(layer, mean.detach(), variance.detach() * total / (total - 1).clamp_min(1))
    result = centered * torch.rsqrt(variance + layer.eps).view(shape)
    if layer.affine:
        result = result * layer.weight.view(shape) + layer.bias.view(shape)
    normed: torch.Tensor = result.to(input.dtype)
    return normed


def _keep(layer: _BatchNorm, mean: torch.Tensor, variance: torch.Tensor) -> None:
    assert layer.num_batches_tracked is not None  # noqa: S101 - a layer that tracks has it
    layer.num_batches_tracked.add_(1)
    part = 1.0 / float(layer.num_batches_tracked) if layer.momentum is None else layer.momentum
    for running, value in ((layer.running_mean, mean), (layer.running_var, variance)):
        assert running is not None  # noqa: S101 - as above
        running.lerp_(value.to(running.dtype), part)


class _AllReduce(torch.autograd.Function):
    """The sum over ranks, whose gradient is the sum of the ranks' gradients."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, collectives: Collectives) -> torch.Tensor:
        ctx.collectives = collectives
        return collectives.all_reduce(tensor.clone())

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return ctx.collectives.all_reduce(grads[0].contiguous().clone()), None


def _summed(tensor: torch.Tensor, collectives: Collectives) -> torch.Tensor:
    result: torch.Tensor = _AllReduce.apply(tensor, collectives)  # type: ignore[no-untyped-call]  # torch's
    return result


def _own_forward(path: str, layer: torch.nn.Module) -> ModuleError:
    return ModuleError(
        "strategy.layer-forward",
        f"{path or 'the module'} is a {type(layer).__name__}, a batch norm with a forward of its own",
        values={"layer": path, "class": type(layer).__qualname__, "sync_batchnorm": True},
        because="to see the samples of all ranks it is computed in another way, without its own forward",
        hint="take torch.nn.BatchNorm1d, 2d or 3d there, let the class synchronise itself and be no "
        "subclass of them, or pass sync_batchnorm=False",
    )
