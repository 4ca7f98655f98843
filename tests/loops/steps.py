"""Modules whose steps are special, and the loop of torch alone that each must equal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

import drivetrain as dt
from tests.loops.models import Regression, data


class Weighted(Regression):
    """A loss whose weight is the number of positive entries, as masked tokens would be."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        x, y = batch
        mask = (x[:, 1:2] > 0).double()
        weight = mask.sum()
        loss = (((self(x) - y) ** 2) * mask).sum() / weight.clamp_min(1)
        return {"loss": loss, "weight": weight}


class Several(Regression):
    """Two optimizers with the gradients of one loss, each with its own clipping."""

    def configure_optimizers(self) -> Any:
        return {
            "first": {
                "optimizer": torch.optim.SGD(self.net[0].parameters(), lr=0.1),
                "gradient_clip_val": 0.05,
            },
            "second": torch.optim.AdamW(self.net[3].parameters(), lr=0.01),
        }


class Adversarial(Regression):
    """A toy GAN in automatic optimization: the step is called for each optimizer."""

    def __init__(self) -> None:
        super().__init__()
        self.critic = torch.nn.Linear(1, 1)

    def losses(self, batch: Any, which: int) -> torch.Tensor:
        x, y = batch
        if which == 0:
            return -self.critic(self(x)).mean()
        return self.critic(self(x).detach()).mean() - self.critic(y).tanh().mean()

    def training_step(self, batch: Any, batch_idx: int, optimizer_idx: int) -> torch.Tensor:
        return self.losses(batch, optimizer_idx)

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), lr=0.05) for part in (self.net, self.critic)]


class ByHand(Adversarial):
    """The same by manual optimization."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> None:
        for which, optimizer in enumerate(self.optimizers()):
            with self.toggled_optimizer(optimizer):
                optimizer.zero_grad()
                self.manual_backward(self.losses(batch, which))
                self.clip_gradients(optimizer, gradient_clip_val=0.5)
                optimizer.step()


def joined(batches: Sequence[Sequence[int]], count: int) -> list[list[int]]:
    """Return the indices of each step that takes ``count`` batches."""
    return [
        [index for batch in batches[at : at + count] for index in batch]
        for at in range(0, len(batches), count)
    ]


def batches_of(num_samples: int, batch_size: int = 4) -> list[list[int]]:
    """Return the indices of an epoch's batches in order."""
    order = list(range(num_samples))
    return [order[at : at + batch_size] for at in range(0, num_samples, batch_size)]


def train(
    module: Regression,
    steps: Sequence[Sequence[int]],
    clip: float | None = None,
    epochs: int = 1,
    num_samples: int = 0,
) -> Regression:
    """Train on each step's joint batch, in a loop of torch alone; one loss, one AdamW."""
    samples = data(num_samples or max(index for step in steps for index in step) + 1)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for step in [*steps] * epochs:
        optimizer.zero_grad()
        found = Regression.loss(module, samples[step])
        if isinstance(module, Weighted):
            found = module.training_step(samples[step], 0)["loss"]
        found.backward()
        if clip is not None:
            torch.nn.utils.clip_grad_norm_(module.parameters(), clip)
        optimizer.step()
    return module


def train_adversarial(
    module: Adversarial,
    batches: Sequence[Sequence[int]],
    factor: int = 1,
    clip: float | None = None,
    num_samples: int = 39,
) -> Adversarial:
    """Train both parts in turn, ``factor`` batches a step, in a loop of torch alone."""
    samples, parts = data(num_samples), (module.net, module.critic)
    optimizers = Adversarial.configure_optimizers(module)
    for step in joined([[index] for index in range(len(batches))], factor):
        size = sum(len(batches[index]) for index in step)
        for optimizer in optimizers:
            optimizer.zero_grad()
        for index in step:
            for which, optimizer in enumerate(optimizers):
                part = list(parts[which].parameters())
                loss = module.losses(samples[batches[index]], which) * len(batches[index]) / size
                for one, grad in zip(part, torch.autograd.grad(loss, part), strict=True):
                    one.grad = grad if one.grad is None else one.grad + grad
                if index == step[-1]:
                    if clip is not None:
                        torch.nn.utils.clip_grad_norm_(part, clip)
                    optimizer.step()
    return module


def assert_close(mine: dt.Module, theirs: dt.Module, tolerance: float = 1e-6) -> None:
    """Compare all parameters."""
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=tolerance, rtol=0)
