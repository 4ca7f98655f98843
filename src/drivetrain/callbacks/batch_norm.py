"""The running statistics of batch norm, computed anew for the weights that a module has now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from drivetrain.data import Share
from drivetrain.events.registry import takes
from drivetrain.modules import Module, Run
from drivetrain.modules.aside import Deaf
from drivetrain.strategies.together import together

_MINE = Share(0, 1, 1.0, 0, 1)


def refresh_batch_norm(trainer: Run, module: Module) -> None:
    """Make running means and variances those of the training data, each batch counting alike.

    They are what `torch.optim.swa_utils.update_bn` computes over all batches, which ranks share. A batch goes
    through ``training_step``, without gradients and without logging; where that optimizes by hand, or is
    called for each optimizer, through ``forward`` with the batch's first part.

    Collectives:
        with several ranks, one all_reduce of the statistics; every rank must call.
    """
    layers: list[Any] = [
        part for part in module.modules() if isinstance(part, _BatchNorm) and part.running_mean is not None
    ]
    if not layers:
        return
    before = [(layer.momentum, layer.training) for layer in layers]
    recorder, random = module._recorder, trainer.strategy.rng_state()  # noqa: SLF001 - nothing is logged here
    fresh: list[Any] = [part for part in module.modules() if getattr(part, "_update_count", None) == 0]
    module._recorder = Deaf()  # noqa: SLF001 - as above
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None  # the mean of all batches, not one in which older ones fade
        layer.train()
    try:
        forward = _forward(module)
        with torch.no_grad():
            mine = ((batch, _MINE) for batch in trainer.training_batches())
            for number, (batch, share) in enumerate(together(mine, trainer.strategy)):
                for layer in layers:
                    layer.train(share is _MINE)  # a stand-in's statistics count nowhere
                trainer.strategy.evaluation_step(forward, batch, number)
            if trainer.world_size > 1:
                _combine(trainer, layers)
    finally:
        for layer, (momentum, was_training) in zip(layers, before, strict=True):
            layer.momentum = momentum
            layer.train(was_training)
        for metric in fresh:  # torchmetrics objects that the steps have fed
            metric.reset()
        module._recorder = recorder  # noqa: SLF001 - as above
        trainer.strategy.set_rng_state(random)


def _forward(module: Module) -> Callable[[Any, int], Any]:
    step = module.training_step
    if module.automatic_optimization and takes(step, 2):
        return step
    if module.automatic_optimization and takes(step, 1):
        return lambda batch, _: step(batch)  # type: ignore[call-arg]  # it takes no batch_idx
    return lambda batch, _: module(batch[0] if isinstance(batch, (list, tuple)) else batch)


def _combine(trainer: Run, layers: list[Any]) -> None:
    """Make the statistics those over all ranks' batches."""
    counts = torch.stack([layer.num_batches_tracked for layer in layers])
    parts = [
        (one, layer.num_batches_tracked)
        for layer in layers
        for one in (layer.running_mean, layer.running_var)
    ]
    sums = [one.double() * count for one, count in parts]
    joined = trainer.collectives.all_reduce(torch.cat([counts.double(), *sums]), "sum")
    counts, flat = joined[: len(layers)], joined[len(layers) :]
    found = iter(torch.split(flat, [one.numel() for one in sums]))
    for layer, count in zip(layers, counts, strict=True):
        layer.num_batches_tracked.copy_(count)
        for one in (layer.running_mean, layer.running_var):
            total = next(found)
            if count > 0:
                one.copy_(total / count)
